"""How it goes, at a glance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


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
    """Something to look at: `about` says what, `count` and `name` how much and which."""

    about: str
    is_bad: bool
    count: int
    name: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """What to look at, numbers and charts."""

    template: ClassVar[str] = "admin/people/overview.html"

    people: Figure
    clients: Figure
    grants: Figure
    days: Sequence[DayLine]
    hours: Sequence[HourLine]
    findings: Sequence[FindingLine] = ()
