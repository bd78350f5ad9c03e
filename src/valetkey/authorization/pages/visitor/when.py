"""A moment as people say it, and exactly."""

from dataclasses import dataclass
from datetime import UTC, datetime

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
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC"

    @property
    def day(self) -> str:
        """The day alone: 2026-11-21."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d}"
