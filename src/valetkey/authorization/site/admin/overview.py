"""/admin: numbers, charts and findings at a glance."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.admin.findings import Inspector
from valetkey.authorization.actions.admin.overview import DAYS, Amount, overview
from valetkey.authorization.actions.developer.usage import DAYS_KEPT
from valetkey.authorization.layout.chart import Chart, RangeChoice, chosen_range, ranges
from valetkey.authorization.site.admin.administrator import (
    ADMIN,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.register.usage import day_text
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.words import translatable


@dataclass(frozen=True, slots=True)
class Figure:
    """A number; `more` where it is at least so many."""

    count: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A condition to act on: `about` is its kind; `count` and `name` are its details."""

    about: str
    is_bad: bool
    count: int
    name: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Conditions to act on, numbers and charts."""

    template: ClassVar[str] = "admin/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("chart.js",)

    people: Figure
    clients: Figure
    grants: Figure
    #: Of each day of the range.
    sign_ins: Chart
    failed: Chart
    tokens: Chart
    errors: Chart
    ranges: Sequence[RangeChoice]
    #: Of each of the last 24 hours; `slowest` in milliseconds.
    responses: Chart
    failures: Chart
    slowest: Chart
    findings: Sequence[FindingLine] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """The first page."""

    store: Store
    inspector: Inspector

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The first page of the console."""
        title = translatable("Overview")
        return (Page(ADMIN, administrator(), self.show, title=title, nav=True),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Numbers and charts."""
        actor, now = request.actor, request.now
        chosen = chosen_range(request.query.get("days"), DAYS)
        found, inside = await self.store.scan(
            lambda tx: (overview(tx, actor, now, chosen), self.inspector.inside(tx, actor, now))
        )
        outside = await asyncio.to_thread(self.inspector.outside, now)
        dates, hours = [day_text(each.day) for each in found.days], found.hours
        times = [f"{each.hour % 24:02}:00" for each in hours]
        page = OverviewPage(
            people=_figure(found.people),
            clients=_figure(found.clients),
            grants=_figure(found.grants),
            sign_ins=Chart(dates, [each.sign_ins for each in found.days]),
            failed=Chart(dates, [each.failed_sign_ins for each in found.days]),
            tokens=Chart(dates, [sum(each.tokens.values()) for each in found.days]),
            errors=Chart(dates, [sum(each.errors.values()) for each in found.days]),
            ranges=ranges(ADMIN, chosen, DAYS_KEPT),
            responses=Chart(times, [each.answers for each in hours]),
            failures=Chart(times, [each.failures for each in hours]),
            slowest=Chart(times, [each.most for each in hours]),
            findings=tuple(
                FindingLine(each.about.value, each.is_bad, each.count, each.name)
                for each in sorted((*inside, *outside), key=lambda each: not each.is_bad)
            ),
        )
        return Show(page)


def _figure(amount: Amount) -> Figure:
    return Figure(amount.count, amount.more)
