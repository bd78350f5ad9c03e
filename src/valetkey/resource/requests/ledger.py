"""Ledgers: a number for each caller, in one process or shared by all workers of a server."""

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
"""Callers that a ledger of one process remembers, those who asked last."""

VARIABLE = "VALETKEY_LEDGER"
"""In the environment of workers, where the file is that they share."""

Step = Callable[[int], int]
"""From the number that is there, 0 for a stranger, to the one that takes its place."""

_SLOT = struct.Struct("<Qq")
_BUCKET = 8
_BUCKETS = 2_048
_SIZE = _SLOT.size * _BUCKET * _BUCKETS


class Ledger(Protocol):
    """Keeps a number for each caller, as far as there is room."""

    def change(self, caller: str, step: Step) -> int:
        """Put what `step` makes of the caller's number in its place; gives the old one."""
        ...


class OwnLedger:
    """In the memory of this process."""

    def __init__(self) -> None:
        """Know nobody."""
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def change(self, caller: str, step: Step) -> int:
        """See `Ledger.change`."""
        known = self._numbers.get(caller, 0)
        self._numbers[caller] = step(known)
        self._numbers.move_to_end(caller)
        if len(self._numbers) > CALLERS:
            self._numbers.popitem(last=False)
        return known


class SharedLedger:
    """In a small file that all workers have in their memory; 16,384 callers find room."""

    def __init__(self, file: Path) -> None:
        """Share `file`, which `begin` made. Raises OSError."""
        # Open for good: the lock is this descriptor's, and ends with the process.
        self._descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._memory = mmap.mmap(self._descriptor, _SIZE)

    @staticmethod
    def begin(file: Path) -> None:
        """Make the file, with nobody in it. Raises OSError."""
        with file.open("xb") as made:
            made.truncate(_SIZE)

    def change(self, caller: str, step: Step) -> int:
        """See `Ledger.change`; one at a time, whichever worker."""
        print_ = sha256(caller.encode("utf-8", "surrogatepass")).digest()
        name = int.from_bytes(print_[:8], "big") or 1
        first = int.from_bytes(print_[8:12], "big") % _BUCKETS * _BUCKET * _SLOT.size
        places = range(first, first + _BUCKET * _SLOT.size, _SLOT.size)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            slots = {place: _SLOT.unpack_from(self._memory, place) for place in places}
            mine = [place for place, (whose, _) in slots.items() if whose == name]
            # Who takes the place of another takes that of the smallest number.
            place = mine[0] if mine else min(places, key=lambda each: slots[each][1])
            known = slots[place][1] if mine else 0
            _SLOT.pack_into(self._memory, place, name, step(known))
            return int(known)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        self._memory.close()
        os.close(self._descriptor)
