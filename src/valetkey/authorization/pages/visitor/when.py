"""A moment as people say it, and exactly."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class When:
    """A moment seen from `now`."""

    at: Instant
    now: Instant

    @property
    def elapsed(self) -> int:
        """Seconds since then, never less than none."""
        return max(0, self.now - self.at)

    @property
    def machine(self) -> str:
        """As a `time` element says it: 2026-11-21T16:40:33Z."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%dT%H:%M:%SZ}"

    @property
    def exact(self) -> str:
        """To the second, the same for everybody: 2026-11-21 16:40:33 UTC."""
        return self.exact_in("")

    @property
    def day(self) -> str:
        """The day alone: 2026-11-21."""
        return self.day_in("")

    def exact_in(self, zone: str) -> str:
        """To the second, as clocks in `zone` say it: 2026-11-21 17:40:33 CET; UTC for none."""
        return f"{datetime.fromtimestamp(self.at, _zone(zone)):%Y-%m-%d %H:%M:%S %Z}"

    def day_in(self, zone: str) -> str:
        """The day alone, as calendars in `zone` say it."""
        return f"{datetime.fromtimestamp(self.at, _zone(zone)):%Y-%m-%d}"


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # The machine's list of zones may have become shorter since it was said.
        return UTC
