"""Instant and Lifetime: times and durations in whole seconds, as the RFCs count them."""

import re
from datetime import UTC, datetime
from typing import NewType

from valetkey.kernel.refusal import OperatorError

Instant = NewType("Instant", int)
"""Whole seconds since 1970 in UTC. A record is live while `expires_at > now`, everywhere."""

Lifetime = NewType("Lifetime", int)
"""A duration in whole seconds."""

AHEAD = Lifetime(60)
"""How far the clock of another server, or our own before it was corrected, may be ahead."""

_LIFETIME = re.compile(
    r"([1-9][0-9]{0,8}) ?(?:(s)(?:ecs?|econds?)?|(m)(?:ins?|inutes?)?|(h)(?:ours?)?|(d)(?:ays?)?)",
    re.ASCII,
)
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""The seconds of each unit in which durations are written."""


def seconds(count: int) -> Lifetime:
    """Return a lifetime of `count` seconds."""
    return Lifetime(count)


def minutes(count: int) -> Lifetime:
    """Return a lifetime of `count` minutes."""
    return Lifetime(count * 60)


def hours(count: int) -> Lifetime:
    """Return a lifetime of `count` hours."""
    return Lifetime(count * 3_600)


def days(count: int) -> Lifetime:
    """Return a lifetime of `count` days of 24 hours."""
    return Lifetime(count * 86_400)


def parse_lifetime(text: str) -> Lifetime:
    """Parse a duration such as `60s`, `10m`, `1h`, `30d` or `10 minutes`; zero is not allowed.

    Raises OperatorError, because operators write lifetimes.
    """
    # fullmatch: `$` would accept a trailing newline; int() alone would accept full-width digits and
    # "1_0".
    match = _LIFETIME.fullmatch(text)
    if match is None:
        raise OperatorError(
            f"add a unit: {text}s, {text}m, {text}h or {text}d"
            if _COUNT.fullmatch(text)
            else "a lifetime is a whole number above zero and a unit: 60s, 10m, 1h or 30d"
        )
    return Lifetime(int(match[1]) * next(UNITS[unit] for unit in match.groups()[1:] if unit))


def is_live(issued_at: Instant, expires_at: Instant, now: Instant) -> bool:
    """Return whether something with these times is live.

    It is not if it was issued in the future: a clock that was ahead and was set right would
    otherwise extend its life.
    """
    return issued_at <= now + AHEAD and now < expires_at


def later(instant: Instant, lifetime: Lifetime) -> Instant:
    """Return the instant that lies `lifetime` after `instant`."""
    return Instant(instant + lifetime)


def written(at: Instant) -> str:
    """Return the instant as ISO 8601 in UTC, such as `2026-01-02T03:04:05Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
