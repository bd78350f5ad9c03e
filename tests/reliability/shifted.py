"""A clock for the processes of a node that an experiment sets; waits take their real time."""

import struct
from collections.abc import Mapping
from mmap import mmap
from pathlib import Path

_VARIABLE = "SHIFTED_CLOCK"
_SECONDS = struct.Struct("q")
# Python imports a module of this name at its start. `time.monotonic` stays as it is, as when the
# clock of a machine is set.
_SITE = f"""
import mmap, os, struct, time

def shifted():
    with open(os.environ["{_VARIABLE}"], "rb") as file:
        seconds = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    real, real_ns, of = time.time, time.time_ns, struct.Struct("q").unpack_from
    time.time = lambda: real() + of(seconds)[0]
    time.time_ns = lambda: real_ns() + of(seconds)[0] * 10**9

shifted()
"""


class ShiftedClock:
    """The seconds by which the clocks of all processes with `environment` are ahead."""

    def __init__(self, folder: Path) -> None:
        """Prepare the folder; the clocks are right."""
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SITE)
        file = folder / "seconds"
        file.write_bytes(_SECONDS.pack(0))
        self.environment: Mapping[str, str] = {"PYTHONPATH": str(folder), _VARIABLE: str(file)}
        with file.open("r+b") as opened:
            self._map = mmap(opened.fileno(), _SECONDS.size)

    @property
    def ahead(self) -> int:
        """By how much the clocks are ahead; negative: behind."""
        seconds: int = _SECONDS.unpack_from(self._map)[0]
        return seconds

    @ahead.setter
    def ahead(self, seconds: int) -> None:
        _SECONDS.pack_into(self._map, 0, seconds)
