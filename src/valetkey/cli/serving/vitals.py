"""Watch a worker's process: its event loop, clock, file descriptors and certificate."""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit

from valetkey.fetch.certificate import expiry_of
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days
from valetkey.web import log

_LOOK_EVERY = 0.5
_COUNT_EVERY = 20  # checks
_STEP = 2  # seconds: the clock is read in whole seconds
_FEW = 0.9  # share of the limit of descriptors
_SOON = days(21)
_NOW = days(2)
WARN_EVERY = 86_400.0
"""Seconds between two warnings of a certificate that expires."""


@dataclass(slots=True)
class ProcessMonitor:
    """Measures the lag of the event loop, and logs problems of the process."""

    now: Callable[[], Instant]
    opened: Callable[[], int]
    """Counts the open file descriptors."""

    async def watch(self) -> None:
        """Check twice a second until cancelled."""
        clock = asyncio.get_running_loop().time
        # From the start, so that the first step is an increase.
        for direction in ("forward", "back"):
            metrics.CLOCK_STEPS.add(direction, amount=0)
        looks, apart = 0, self.now() - clock()
        while True:
            due = clock() + _LOOK_EVERY
            await asyncio.sleep(_LOOK_EVERY)
            metrics.LOOP_LAG.observe(max(0.0, clock() - due))
            step = self.now() - clock() - apart
            if abs(step) >= _STEP:
                apart += step
                metrics.CLOCK_STEPS.add("forward" if step > 0 else "back")
                log.warning("clock.stepped", seconds=round(step))
            if looks % _COUNT_EVERY == 0:
                self._count()
            looks += 1

    def _count(self) -> None:
        opened, most = self.opened(), getrlimit(RLIMIT_NOFILE)[0]
        if opened > _FEW * most:
            cause = "more than 90 % of the open-file limit are in use"
            log.throttled("error", "descriptors.low", cause, open=opened, limit=most)


@dataclass(slots=True)
class CertificateMonitor:
    """Measures how long the served certificate is valid, and warns of its end once a day."""

    now: Callable[[], Instant]
    _until: Instant | None = field(default=None, init=False)
    _file: str = field(default="", init=False)

    def served(self, file: Path) -> None:
        """Record the certificate that is served from now on."""
        try:
            until = expiry_of(file.read_bytes())
        except OSError:
            until = None
        if until is not None:
            self._until, self._file = until, str(file)
            metrics.CERTIFICATE.read_from(lambda: until - self.now())
            self.warn()

    async def watch(self) -> None:
        """Warn once a day until cancelled."""
        while True:
            await asyncio.sleep(WARN_EVERY)
            self.warn()

    def warn(self) -> None:
        """Log that less than 21 days are left, if that is so."""
        left = _SOON if self._until is None else self._until - self.now()
        if left < _NOW:
            log.error("certificate.expiring", hours_left=left // 3_600, file=self._file)
        elif left < _SOON:
            log.warning("certificate.expiring", hours_left=left // 3_600, file=self._file)


def open_descriptors() -> int:
    """Return how many file descriptors this process has open; 0 where that is not known."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
    except OSError as failure:
        # Counting takes one, too.
        return getrlimit(RLIMIT_NOFILE)[0] if failure.errno == errno.EMFILE else 0
