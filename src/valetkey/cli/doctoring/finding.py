"""A finding: what was looked at, how it is, and what to do about it."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from valetkey.config.settings import Settings


class Level(StrEnum):
    """How much it matters."""

    GOOD = "good"
    MIND = "mind"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `next` says what to do where something is to be done."""

    level: Level
    about: str
    found: str
    next: str = ""


Examination = Callable[[Settings], AsyncIterator[Finding]]
"""Looks at one place; never raises because something is wrong there."""


def good(about: str, found: str) -> Finding:
    """It is as it should be."""
    return Finding(Level.GOOD, about, found)


def mind(about: str, found: str, next: str = "") -> Finding:
    """It works, and has a cost or an end."""
    return Finding(Level.MIND, about, found, next)


def bad(about: str, found: str, next: str = "") -> Finding:
    """It does not work, or is not safe."""
    return Finding(Level.BAD, about, found, next)
