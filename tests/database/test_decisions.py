"""Why something was refused, for a week."""

import asyncio
import re

from valetkey.database.decisions import DecisionQueue, Decisions
from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM

_REFUSAL = Refusal(ErrorCode.NOT_FOUND, "gone", "object.not_found", "one", "none")


def test_decision_is_found_by_the_reference_sent_to_the_client(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, "valetkey.resource.storage.schema")
        queue = DecisionQueue(SYSTEM.random)
        reference = queue.enqueue(_REFUSAL, endpoint="/v2/notes/{id}", at=Instant(5))
        assert re.fullmatch(r"VK(?:-[0-9A-HJKMNP-TV-Z]{4}){3}", reference)
        taken = queue.drain(500)

        def work(db: Connection) -> None:
            Decisions(db).add(taken[0])
            Decisions(db).add(taken[0])

        await engine.write(work)
        assert await engine.read(lambda db: Decisions(db).find(reference)) == taken[0]
        assert await engine.read(lambda db: Decisions(db).find("VK-0000-0000-0000")) is None

    asyncio.run(story())


def test_full_decision_queue_drops_the_oldest_records() -> None:
    queue = DecisionQueue(SYSTEM.random)
    references = [queue.enqueue(_REFUSAL, endpoint="", at=Instant(1)) for _ in range(10_100)]
    taken: list[str] = []
    while batch := queue.drain(500):
        assert len(batch) <= 500
        taken += [decision.reference for decision in batch]
    assert taken == references[100:]
