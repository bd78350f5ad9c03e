"""/developer/apps/{client_id}/usage: tokens, users and errors of an app, day by day."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from valetkey.authorization.actions.developer.usage import LAG, Day, usage_of
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.authorization.storage.register.usage import day_of, start_of
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

DAYS = 90
"""Days shown."""

ACTIVE_DAYS = 30
"""Days over which active users are counted."""

_DAY = 86_400
_HEIGHT = 58


@dataclass(frozen=True, slots=True)
class UsageDay:
    """The numbers of one day, counted from 1970."""

    day: int
    tokens: int = 0
    people: int = 0
    errors: int = 0

    @property
    def date(self) -> str:
        """2026-11-21."""
        return f"{datetime.fromtimestamp(self.day * _DAY, UTC):%Y-%m-%d}"

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened."""
        return not (self.tokens or self.people or self.errors)


@dataclass(frozen=True, slots=True)
class Series:
    """One number of each day, as a small chart. `path` is drawn in 10 units a day, 60 high."""

    values: tuple[int, ...]

    @property
    def most(self) -> int:
        """Return the maximum."""
        return max(self.values, default=0)

    @property
    def total(self) -> int:
        """Their sum."""
        return sum(self.values)

    @property
    def path(self) -> str:
        """The SVG path: a bar for each day that is not 0."""
        most = max(1, self.most)
        return "".join(
            f"M{place * 10 + 1} 60v-{max(1, round(value * _HEIGHT / most))}h8V60z"
            for place, value in enumerate(self.values)
            if value
        )


@dataclass(frozen=True, slots=True)
class UsagePage:
    """The context of usage.html. `days` are consecutive, the oldest first."""

    template: ClassVar[str] = "developer/monitoring/usage.html"

    app: AppHead
    days: Sequence[UsageDay]
    #: Access tokens, users who got any, and errors, of the same days.
    tokens: Series
    people: Series
    refusals: Series
    #: Different users in the last 30 days.
    active: int
    #: Access tokens by grant type, most first.
    grant_types: tuple[tuple[str, int], ...]
    #: Errors by code, most first.
    errors: tuple[tuple[str, int], ...]
    #: Everything before then is counted.
    counted: When


@dataclass(frozen=True, slots=True)
class Usage:
    """Show the numbers of one app."""

    store: Store

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        title = translatable("Usage")
        return (Page(f"{APP}/usage", member_of_app, self.show, title=title, nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """The last 90 days."""
        client_id, now = request.client.id, request.now
        today = day_of(now)

        def read(tx: Transaction) -> tuple[Mapping[int, Day], int, Instant]:
            found = usage_of(tx, client_id, start_of(today - DAYS + 1))
            active = tx.usage.active_since(client_id, today - ACTIVE_DAYS + 1)
            until, _ = tx.usage.cursor()
            return {each.day: each for each in found}, active, until

        found, active, until = await self.store.scan(read)
        days = [_day(each, found.get(each)) for each in range(today - DAYS + 1, today + 1)]
        return Show(
            UsagePage(
                request.head,
                days=days,
                tokens=Series(tuple(day.tokens for day in days)),
                people=Series(tuple(day.people for day in days)),
                refusals=Series(tuple(day.errors for day in days)),
                active=active,
                grant_types=_totals(each.tokens for each in found.values()),
                errors=_totals(each.errors for each in found.values()),
                # Where nothing happened for a long time, nothing was left out.
                counted=When(max(until, Instant(now - LAG)), now),
            )
        )


def _day(day: int, found: Day | None) -> UsageDay:
    if found is None:
        return UsageDay(day)
    return UsageDay(day, sum(found.tokens.values()), found.people, sum(found.errors.values()))


def _totals(days: Iterable[Mapping[str, int]]) -> tuple[tuple[str, int], ...]:
    totals: Counter[str] = Counter()
    for each in days:
        totals.update(each)
    return tuple(sorted(totals.items(), key=lambda one: (-one[1], one[0])))
