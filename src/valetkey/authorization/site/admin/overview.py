"""/admin: numbers, charts and findings at a glance."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from valetkey.authorization.actions.admin.findings import Inspector
from valetkey.authorization.actions.admin.overview import Amount, overview
from valetkey.authorization.actions.developer.usage import Day
from valetkey.authorization.site.admin.administrator import (
    ADMIN,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.register.usage import start_of
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.words import translatable


@dataclass(frozen=True, slots=True)
class Figure:
    """A number; `more` where it is at least so many."""

    count: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class DayLine:
    """One day, as it is written in the visitor's language."""

    #: Such as 2026-11-21.
    day: str
    tokens: int
    people: int
    sign_ins: int
    failed: int
    errors: int


@dataclass(frozen=True, slots=True)
class HourLine:
    """One hour."""

    #: In UTC, such as 14:00.
    hour: str
    answers: int
    failures: int
    #: Milliseconds in which 95 of 100 answers came.
    most: int


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

    people: Figure
    clients: Figure
    grants: Figure
    days: Sequence[DayLine]
    hours: Sequence[HourLine]
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
        found, inside = await self.store.scan(
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
        return Show(page)


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
