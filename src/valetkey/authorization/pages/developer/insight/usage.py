"""Usage of an app, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead

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
        """The greatest of them."""
        return max(self.values, default=0)

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(self.values)

    @property
    def path(self) -> str:
        """A bar for each day on which it was not 0."""
        most = max(1, self.most)
        return "".join(
            f"M{place * 10 + 1} 60v-{max(1, round(value * _HEIGHT / most))}h8V60z"
            for place, value in enumerate(self.values)
            if value
        )


@dataclass(frozen=True, slots=True)
class UsagePage:
    """What an app was used for. `days` are consecutive, the oldest first."""

    template: ClassVar[str] = "developer/insight/usage.html"

    app: AppHead
    days: Sequence[UsageDay]
    #: Access tokens, people for whom there were any, and refusals, of the same days.
    tokens: Series
    people: Series
    refusals: Series
    #: Different people in the last 30 days.
    active: int
    #: Access tokens by the grant type that gave them, most first.
    grant_types: tuple[tuple[str, int], ...]
    #: Refusals by their code, most first.
    errors: tuple[tuple[str, int], ...]
    #: Everything before then is counted.
    counted: When
