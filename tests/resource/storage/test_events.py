"""The audit log of objects: read page by page, swept when the operator's time is over."""

import asyncio
from collections.abc import Sequence
from functools import partial

from valetkey.database.decisions import DecisionQueue
from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.resource.storage.events import (
    FIRST,
    EventRecord,
    Events,
    Maintenance,
    ObjectChanged,
    ObjectCreated,
)

_SCHEMA = "valetkey.resource.storage.schema"


def _write(db: Connection) -> None:
    events = Events(db)
    for n in range(12):
        kind = "notes" if n % 3 else "books"
        event = ObjectCreated(kind, f"x_{n:02}", 1, "1001", "printer", "at_1", None)
        events.add(event, Instant(1_000 + n // 4))
    # Two figures come after one.
    for version in range(2, 12):
        event_ = ObjectChanged("notes", "x_11", version, None, "printer", "at_1", None)
        events.add(event_, Instant(1_002))


def _page(after: tuple[Instant, str, int], db: Connection) -> Sequence[EventRecord]:
    return Events(db).page(after, 5)


def test_pages_follow_each_other_without_gap_or_repetition(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        await engine.write(_write)
        seen, after = list[tuple[str, int]](), FIRST
        while page := await engine.read(partial(_page, after)):
            seen += [(event.object_id, event.version) for event in page]
            after = page[-1].position
        assert seen == [
            *((f"x_{n:02}", 1) for n in range(12)),
            *(("x_11", v) for v in range(2, 12)),
        ]

    asyncio.run(story())


def test_newest_events_and_events_of_one_object_are_listed(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        await engine.write(_write)
        newest = await engine.read(lambda db: Events(db).newest(3))
        assert [event.version for event in newest] == [9, 10, 11]
        books = await engine.read(lambda db: Events(db).newest(3, "books"))
        assert [event.object_id for event in books] == ["x_03", "x_06", "x_09"]
        behind = await engine.read(
            lambda db: Events(db).page((Instant(1_000), "x_03", 1), 9, "books")
        )
        assert [event.object_id for event in behind] == ["x_06", "x_09"]
        event = await engine.read(lambda db: Events(db).find("x_11", 7))
        assert event is not None
        assert (event.name, event.uid) == ("object.changed", None)
        assert await engine.read(lambda db: Events(db).find("x_11", 99)) is None

    asyncio.run(story())


def test_events_are_deleted_after_the_configured_retention(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        await engine.write(_write)
        clock = [Instant(1_001 + days(10))]
        runtime = Runtime(now=lambda: clock[0], random=SYSTEM.random)
        maintenance = Maintenance(engine, runtime, DecisionQueue(SYSTEM.random), days(10))
        await maintenance.sweep()
        left = await engine.read(lambda db: Events(db).page(FIRST, 100))
        assert {event.at for event in left} == {1_001, 1_002}
        clock[0] = Instant(clock[0] + 2)
        await maintenance.sweep()
        assert await engine.read(lambda db: Events(db).page(FIRST, 100)) == []

    asyncio.run(story())
