"""Counters of callers, in the memory of one process or shared by all workers of a server."""

import fcntl
import mmap
import os
import struct
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

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
        known = self._numbers.get(caller, 0)
        self._numbers[caller] = step(known)
        self._numbers.move_to_end(caller)
        if len(self._numbers) > CALLERS:
            self._numbers.popitem(last=False)
        return known


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

    def change(self, caller: str, step: Step) -> int:
        """See `CallerCounters.change`; serialised across all workers."""
        print_ = sha256(caller.encode("utf-8", "surrogatepass")).digest()
        name = int.from_bytes(print_[:8], "big") or 1
        first = int.from_bytes(print_[8:12], "big") % _BUCKETS * _BUCKET * _SLOT.size
        places = range(first, first + _BUCKET * _SLOT.size, _SLOT.size)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            slots = {place: _SLOT.unpack_from(self._memory, place) for place in places}
            mine = [place for place, (whose, _) in slots.items() if whose == name]
            # A new caller replaces the one with the smallest number.
            place = mine[0] if mine else min(places, key=lambda each: slots[each][1])
            known = slots[place][1] if mine else 0
            _SLOT.pack_into(self._memory, place, name, step(known))
            return int(known)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        self._memory.close()
        os.close(self._descriptor)
