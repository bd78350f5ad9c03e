"""How many creations one sync of the disk serves: `python -m bench.creates`.

The engine and the home of objects, without HTTP, over a SQLite that counts what it asks the disk.
"""

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from bench.lists import KIND, visit
from bench.processes import ended_together
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.backends.records import LocalRecords

CALLERS = (1, 32)
_EACH = 4_000


class _Disk(apsw.VFS):
    """The usual one, with a count of the times that a file must be on disk before we go on."""

    def __init__(self) -> None:
        self.syncs = 0
        (self.base_name, *_) = apsw.vfs_names()
        super().__init__("counting", self.base_name, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's own name
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: _Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(self._disk.base_name, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 - the same
        self._disk.syncs += 1
        super().xSync(flags)


async def measure(folder: Path, disk: _Disk, creations: int) -> None:
    """Print a row for each number of callers."""
    engine = connect("sqlite:///creates.db", directory=folder)
    await migrate(engine, "valetkey.resource.storage.schema")
    records = LocalRecords(engine, KIND, SYSTEM.random)

    async def go_on(times: int) -> None:
        for _ in range(times):
            await records.create(visit(), {"title": "t", "state": "open", "stars": 3}, None)

    print(f"{'creation, without HTTP':32}{'per s':>10}{'syncs each':>12}")
    try:
        for callers in CALLERS:
            await go_on(100)
            before, began = disk.syncs, time.perf_counter()
            await asyncio.gather(*(go_on(creations // callers) for _ in range(callers)))
            seconds, syncs = time.perf_counter() - began, disk.syncs - before
            made = creations // callers * callers
            name = f"{callers} caller{'s' if callers > 1 else ''}"
            print(f"{name:32}{made / seconds:10,.0f}{syncs / made:12.3f}")
    finally:
        await engine.close()


def main() -> None:
    disk = _Disk()
    with TemporaryDirectory() as folder:
        creations = int(sys.argv[1]) if len(sys.argv) > 1 else _EACH
        asyncio.run(measure(Path(folder), disk, creations))


if __name__ == "__main__":
    with ended_together():
        main()
