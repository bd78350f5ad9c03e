"""How long a page of a list takes where a million objects are: `python -m bench.lists`."""

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.processes import ended_together
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.kernel.shapes import JsonSchema
from valetkey.resource.backends.records import LocalRecords, Visit
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.resource_object import ResourceObject
from valetkey.resource.storage.objects import ListPosition, Lists, Objects, Owner, Stored
from valetkey.sdk import Caller

ROWS = 1_000_000
TURNS = 100
_BATCH = 2_000
_OWNER = Owner("user:1")
_NOW = SYSTEM.now()
KIND = ResourceObject(
    "tasks",
    JsonSchema(
        {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "state": {"enum": ["open", "done", "rare"]},
                "stars": {"type": "integer"},
            },
        }
    ),
    reads="read",
    writes="change",
    sort=("title",),
    filter=("state", "stars"),
)
LISTS: Mapping[str, PageRequest] = {
    "by creation": PageRequest(),
    "sort=-created_at": PageRequest(descending=True),
    "sort=title": PageRequest(by="title"),
    "sort=-title": PageRequest(by="title", descending=True),
    "state=open&sort=title": PageRequest(by="title", filters=(("state", "open"),)),
    "state=open&stars=3": PageRequest(filters=(("state", "open"), ("stars", 3))),
    "state=open&stars=3&sort=-title": PageRequest(
        by="title", descending=True, filters=(("state", "open"), ("stars", 3))
    ),
}


RARE = (("state", "rare"), ("stars", 3))
"""Of a hundred objects one fits, or none."""


def visit() -> Visit:
    """A request of the owner of everything."""
    caller = Caller("1", "bench", Scope(), "at", "gr", _NOW, Instant(_NOW + 60))
    return Visit(caller, Secret(""), _OWNER, _NOW)


def _fill(first: int, db: Connection) -> None:
    objects, entered = Objects(db, KIND.name, _OWNER), Lists(db, KIND.name, _OWNER)
    for number in range(first, first + _BATCH):
        state = ("rare" if number % 100 < 3 else "open") if number % 2 else "done"
        title = f"{number * 7_919 % ROWS:07d}"
        document = f'{{"title":"{title}","state":"{state}","stars":{number % 5}}}'
        stored = Stored(f"task_{number}", document, 1, Instant(_NOW + number), _NOW)
        objects.add(stored)
        entered.insert(stored.id, KIND.orders.entries(stored))


async def _measure(engine: Engine, rows: int) -> None:
    await migrate(engine, "valetkey.resource.storage.schema")
    for first in range(0, rows, _BATCH):
        await engine.write(partial(_fill, first))
        if first % 100_000 == 0:
            print(f"\r{first:>9,} of {rows:,} rows", end="", file=sys.stderr, flush=True)
    print(f"\n{rows:,} rows of one owner; 50 on a page; milliseconds, {TURNS} times each")
    print(f"{'list':32}{'median':>8}{'p95':>8}")
    records = LocalRecords(engine, KIND, SYSTEM.random)
    for name, request in LISTS.items():
        _say(name, await _time(records, request))
    _say("state=rare&stars=3, a page of few", await _time(records, PageRequest(filters=RARE)))
    _say(
        "by creation, from the middle",
        await _time(records, PageRequest(ListPosition(_NOW + rows // 2, ""))),
    )


async def _time(records: LocalRecords, request: PageRequest) -> list[float]:
    times: list[float] = []
    for _ in range(TURNS):
        began = perf_counter()
        page = await records.page(visit(), request)
        times.append((perf_counter() - began) * 1_000)
        assert len(page.records) == request.limit or request.filters == RARE, len(page.records)
    return sorted(times)


def _say(name: str, times: list[float]) -> None:
    print(f"{name:32}{median(times):8.2f}{times[TURNS * 95 // 100]:8.2f}")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with TemporaryDirectory() as folder:
        engine = connect("sqlite:///lists.db", directory=Path(folder))

        async def run() -> None:
            try:
                await _measure(engine, rows)
            finally:
                await engine.close()

        asyncio.run(run())


if __name__ == "__main__":
    with ended_together():
        main()
