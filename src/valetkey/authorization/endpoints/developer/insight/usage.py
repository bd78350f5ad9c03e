"""/developer/apps/{id}/usage: what an app was used for, day by day."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from valetkey.authorization.deeds.developer.usage import LAG, Day, usage_of
from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.insight.usage import Series, UsageDay, UsagePage
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.register.usage import day_of, start_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response

DAYS = 90
"""Days shown."""

ACTIVE_DAYS = 30
"""Days over which different people are counted."""


@dataclass(frozen=True, slots=True)
class UsageEndpoint:
    """The numbers of one app."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The page."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        today = day_of(request.at)

        def look(tx: Transaction) -> tuple[Mapping[int, Day], int, Instant]:
            found = usage_of(tx, app.client.id, start_of(today - DAYS + 1))
            active = tx.usage.active_since(app.client.id, today - ACTIVE_DAYS + 1)
            until, _ = tx.usage.cursor()
            return {each.day: each for each in found}, active, until

        found, active, until = await self.site.store.scan(look)
        days = [_day(each, found.get(each)) for each in range(today - DAYS + 1, today + 1)]
        page = UsagePage(
            head_of(app),
            days=days,
            tokens=Series(tuple(day.tokens for day in days)),
            people=Series(tuple(day.people for day in days)),
            refusals=Series(tuple(day.errors for day in days)),
            active=active,
            grant_types=_totals(each.tokens for each in found.values()),
            errors=_totals(each.errors for each in found.values()),
            # Where nothing has happened for long, nothing was left out.
            counted=When(max(until, Instant(request.at - LAG)), request.at),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def _day(day: int, found: Day | None) -> UsageDay:
    if found is None:
        return UsageDay(day)
    return UsageDay(day, sum(found.tokens.values()), found.people, sum(found.errors.values()))


def _totals(days: Iterable[Mapping[str, int]]) -> tuple[tuple[str, int], ...]:
    totals: Counter[str] = Counter()
    for each in days:
        totals.update(each)
    return tuple(sorted(totals.items(), key=lambda one: (-one[1], one[0])))
