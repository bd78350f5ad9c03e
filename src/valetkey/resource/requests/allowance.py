"""Rate limits for each caller, reported in RateLimit headers, in one process or for all workers."""

import fcntl
import mmap
import os
import struct
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.exchange import Pairs

CALLERS = 10_000
"""Maximum number of callers in one process, the most recent ones."""

VARIABLE = "VALETKEY_LEDGER"
"""The environment variable that names the workers' shared file."""

Step = Callable[[int], int]
"""A function from the caller's current number, 0 if unknown, to the new one."""

_SLOT = struct.Struct("<Qq")
_BUCKET = 8
_BUCKETS = 2_048
_SIZE = _SLOT.size * _BUCKET * _BUCKETS


class CallerCounters(Protocol):
    """Keep a number for each caller in bounded memory."""

    def change(self, caller: str, step: Step) -> int:
        """Replace the caller's number by `step` of it; return the old one."""
        ...


class LocalCounters:
    """Counters in the memory of this process."""

    def __init__(self) -> None:
        """Start empty."""
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def change(self, caller: str, step: Step) -> int:
        """See `CallerCounters.change`."""
        number = self._numbers.get(caller, 0)
        self._numbers[caller] = step(number)
        self._numbers.move_to_end(caller)
        if len(self._numbers) > CALLERS:
            self._numbers.popitem(last=False)
        return number


class SharedCounters:
    """Counters in a small file mapped by all workers, with room for 16,384 callers."""

    def __init__(self, file: Path) -> None:
        """Map `file`, which `begin` created. Raises OSError."""
        # Open for the process's life: the lock belongs to this descriptor and ends with the
        # process.
        self._descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._memory = mmap.mmap(self._descriptor, _SIZE)

    @staticmethod
    def begin(file: Path) -> None:
        """Create an empty file. Raises OSError."""
        with file.open("xb") as made:
            made.truncate(_SIZE)

    @staticmethod
    def for_name(file: Path, name: str) -> "SharedCounters":
        """Return the counters in a file of its own beside `file`. Raises OSError."""
        own, fresh = file.with_name(f"{file.name}-{name}"), file.with_name(f"{name}.{os.getpid()}")
        if not own.exists():
            SharedCounters.begin(fresh)
            # Another worker may have linked its own meanwhile.
            with suppress(FileExistsError):
                own.hardlink_to(fresh)
            fresh.unlink()
        return SharedCounters(own)

    def change(self, caller: str, step: Step) -> int:
        """See `CallerCounters.change`; serialised across all workers."""
        print_ = sha256(caller.encode("utf-8", "surrogatepass")).digest()
        name = int.from_bytes(print_[:8], "big") or 1
        first = int.from_bytes(print_[8:12], "big") % _BUCKETS * _BUCKET * _SLOT.size
        places = range(first, first + _BUCKET * _SLOT.size, _SLOT.size)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            slots = {offset: _SLOT.unpack_from(self._memory, offset) for offset in places}
            mine = [offset for offset, (whose, _) in slots.items() if whose == name]
            # A new caller replaces the one with the smallest number.
            slot_offset = mine[0] if mine else min(places, key=lambda offset: slots[offset][1])
            number = slots[slot_offset][1] if mine else 0
            _SLOT.pack_into(self._memory, slot_offset, name, step(number))
            return int(number)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        self._memory.close()
        os.close(self._descriptor)


WINDOW = 60
"""Seconds after which an idle caller has its full allowance again."""


class RemainingRequests(Struct, frozen=True):
    """The requests left and the seconds until all are available again, or the seconds to wait."""

    quota: int
    remaining: int
    reset: int
    wait: int

    @property
    def headers(self) -> Pairs:
        """Return RateLimit and RateLimit-Policy."""
        return (
            ("ratelimit-policy", f'"requests";q={self.quota};w={WINDOW}'),
            ("ratelimit", f'"requests";r={self.remaining};t={self.reset}'),
        )

    @property
    def refusal(self) -> Refusal | None:
        """Return the refusal if this request exceeds the limit; None if it does not."""
        if not self.wait:
            return None
        return Refusal(
            ErrorCode.SLOW_DOWN,
            f"more than {self.quota} requests a minute: wait for the time in Retry-After",
            "caller.rate",
            f"{self.quota} in {WINDOW} seconds",
            retry_after=self.wait,
        )


class Allowances:
    """An evenly refilling allowance for each caller, for each process or shared by all."""

    def __init__(self, quota: int, ledger: CallerCounters | None = None) -> None:
        """Allow `quota` requests a minute, at least 1; workers that share a ledger share it."""
        self._quota = quota
        # The time at which each caller's allowance is full, in 1/quota seconds: integers do not
        # drift.
        self._full_at = ledger or LocalCounters()

    def take(self, caller: str, now: Instant) -> RemainingRequests:
        """Count one request; return what is left, or the wait."""
        scaled = now * self._quota

        def spend(old_full_at: int) -> int:
            full_at = max(old_full_at, scaled)
            return full_at if self._missing(full_at - scaled) >= self._quota else full_at + WINDOW

        full_at = max(self._full_at.change(caller, spend), scaled)
        missing = self._missing(full_at - scaled)
        if missing >= self._quota:
            wait = full_at - scaled - (self._quota - 1) * WINDOW
            return RemainingRequests(
                self._quota, 0, self._seconds(full_at - scaled), self._seconds(wait)
            )
        left = self._quota - missing - 1
        return RemainingRequests(self._quota, left, self._seconds(full_at + WINDOW - scaled), 0)

    def _missing(self, scaled: int) -> int:
        return -(-scaled // WINDOW)

    def _seconds(self, scaled: int) -> int:
        return -(-scaled // self._quota)
