"""Instants as people at a terminal read them."""

from datetime import UTC, datetime

from valetkey.kernel.moment import Instant


def shown(at: int | None) -> str:
    """`2026-03-01 12:00:00 UTC`, or "" for never."""
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def stamp(at: Instant) -> str:
    """`20260301-120000`, for names of files; in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}"
