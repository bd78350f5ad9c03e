"""What runs beside the requests."""

import asyncio
from pathlib import Path

from valetkey.database.connect import connect
from valetkey.database.decisions import DecisionQueue, Decisions
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.resource.storage.events import Maintenance, tolerate_outage
from valetkey.resource.storage.objects import KEY_SET, StoredValues

_SCHEMA = "valetkey.resource.storage.schema"


def test_queued_decisions_are_written_and_expire_after_a_week(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        clock = [1_000]
        runtime = Runtime(now=lambda: Instant(clock[0]), random=SYSTEM.random)
        queue = DecisionQueue(SYSTEM.random)
        maintenance = Maintenance(engine, runtime, queue)
        refusal = Refusal(ErrorCode.NOT_FOUND, "gone")
        references = [queue.enqueue(refusal, endpoint="", at=runtime.now()) for _ in range(1_201)]
        await maintenance.write_decisions()
        assert not queue.waiting

        def kept(db: Connection) -> int:
            return sum(Decisions(db).find(reference) is not None for reference in references)

        assert await engine.read(kept) == 1_201
        clock[0] += 7 * 86_400 - 1
        await maintenance.sweep()
        assert await engine.read(kept) == 1_201
        clock[0] += 1
        await maintenance.sweep()
        assert await engine.read(kept) == 0

    asyncio.run(story())


def test_database_outage_is_tolerated_and_reported(tmp_path: Path) -> None:
    async def story() -> None:
        engine = connect("sqlite:///r.db", directory=tmp_path)
        await migrate(engine, _SCHEMA)

        def put(db: Connection, value: str) -> None:
            if not value:
                raise DatabaseUnavailable
            StoredValues(db).set(KEY_SET, value)

        keep = tolerate_outage(engine, put)
        assert await keep("x")
        assert not await keep("")
        assert await engine.read(lambda db: StoredValues(db).find(KEY_SET)) == "x"
        await engine.close()

    asyncio.run(story())
