"""Instant and Lifetime: whole seconds, as every RFC counts them."""

import re
from typing import NewType

from valetkey.kernel.refusal import Mistake

Instant = NewType("Instant", int)
"""Whole seconds since 1970 in UTC. `expires_at > now` is live, everywhere."""

Lifetime = NewType("Lifetime", int)
"""A duration in whole seconds."""

_LIFETIME = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_UNIT = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds(count: int) -> Lifetime:
    """As many seconds."""
    return Lifetime(count)


def minutes(count: int) -> Lifetime:
    """As many minutes."""
    return Lifetime(count * 60)


def hours(count: int) -> Lifetime:
    """As many hours."""
    return Lifetime(count * 3_600)


def days(count: int) -> Lifetime:
    """As many days of 24 hours."""
    return Lifetime(count * 86_400)


def parse_lifetime(text: str) -> Lifetime:
    """The duration that `60s`, `10m`, `1h` or `30d` means; never zero.

    Raises Mistake: lifetimes are written by operators.
    """
    # fullmatch: `$` would let a newline pass; int() alone would take full-width digits and "1_0".
    match = _LIFETIME.fullmatch(text)
    if match is None:
        message = "a lifetime is a whole number above zero and a unit: 60s, 10m, 1h or 30d"
        raise Mistake(message)
    return Lifetime(int(match[1]) * _UNIT[match[2]])


def later(instant: Instant, lifetime: Lifetime) -> Instant:
    """The instant that lies `lifetime` after `instant`."""
    return Instant(instant + lifetime)
