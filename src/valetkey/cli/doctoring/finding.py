"""The result of one check: what was checked, its state, and what to do about it."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from valetkey.config.settings import Settings


class Level(StrEnum):
    """The severity of a finding."""

    GOOD = "good"
    MIND = "mind"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `next` says what to do, "" if nothing."""

    level: Level
    about: str
    found: str
    next: str = ""


Examination = Callable[[Settings], AsyncIterator[Finding]]
"""Performs the checks of one subject; a problem is reported as a finding, never raised."""


def good(about: str, found: str) -> Finding:
    """Return a finding that everything is as it should be."""
    return Finding(Level.GOOD, about, found)


def mind(about: str, found: str, next: str = "") -> Finding:
    """Return a finding of something that works but has a cost or an end."""
    return Finding(Level.MIND, about, found, next)


def bad(about: str, found: str, next: str = "") -> Finding:
    """Return a finding of something that does not work or is not safe."""
    return Finding(Level.BAD, about, found, next)
