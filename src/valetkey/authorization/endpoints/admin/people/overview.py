"""/admin: how it goes."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from valetkey.authorization.deeds.admin.findings import Inspector
from valetkey.authorization.deeds.admin.overview import Amount, overview
from valetkey.authorization.deeds.developer.usage import Day
from valetkey.authorization.endpoints.admin.visit import actor_of, administered
from valetkey.authorization.pages.admin.people.overview import (
    DayLine,
    Figure,
    FindingLine,
    HourLine,
    OverviewPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.register.usage import start_of
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class OverviewEndpoint:
    """The first page."""

    site: Site
    inspector: Inspector

    async def get(self, request: Request) -> Response:
        """Numbers and charts."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        actor, now = actor_of(seen), request.at
        found, inside = await self.site.store.scan(
            lambda tx: (overview(tx, actor, now), self.inspector.inside(tx, actor, now))
        )
        outside = await asyncio.to_thread(self.inspector.outside, now)
        page = OverviewPage(
            people=_figure(found.people),
            clients=_figure(found.clients),
            grants=_figure(found.grants),
            days=tuple(_line(day) for day in found.days),
            hours=tuple(
                HourLine(f"{each.hour % 24:02}:00", each.answers, each.failures, each.most)
                for each in found.hours
            ),
            findings=tuple(
                FindingLine(each.about.value, each.is_bad, each.count, each.name)
                for each in sorted((*inside, *outside), key=lambda each: not each.is_bad)
            ),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def _figure(amount: Amount) -> Figure:
    return Figure(amount.count, amount.more)


def _line(day: Day) -> DayLine:
    return DayLine(
        day=f"{datetime.fromtimestamp(start_of(day.day), UTC):%Y-%m-%d}",
        tokens=sum(day.tokens.values()),
        people=day.people,
        sign_ins=day.sign_ins,
        failed=day.failed_sign_ins,
        errors=sum(day.errors.values()),
    )
