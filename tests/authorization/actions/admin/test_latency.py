"""How long answers take: counted in steps, written down by every process, told hour by hour."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.harness import NOON, Harness, run
from valetkey.authorization.actions.admin.server import (
    KEPT,
    LONGER,
    hour_of,
    key_of,
    last_responses,
    sweep_latency,
)
from valetkey.authorization.background.maintenance import ResponseTimeCounter
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, hours

HOUR = hour_of(NOON)


def test_response_is_counted_by_hour_outcome_and_duration_step() -> None:
    assert key_of(NOON, 200, 0.0004) == (HOUR, "good", 1)
    assert key_of(NOON, 303, 0.0011) == (HOUR, "good", 2)
    assert key_of(NOON, 404, 0.05) == (HOUR, "refused", 50)
    assert key_of(NOON, 503, 4.2) == (HOUR, "failed", 5_000)
    assert key_of(NOON, 500, 60.0) == (HOUR, "failed", LONGER)


def test_counts_of_several_processes_are_added_per_hour(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        clocks = [ResponseTimeCounter() for _ in range(4)]
        for clock in clocks:
            for _ in range(9):
                clock.count(NOON, 200, 0.004)
            clock.count(Instant(NOON - hours(1)), 500, 1.5)
            clock.count(NOON, 500, 0.9)
        store = it.foundation.store
        await asyncio.gather(*(clock.flush(store) for clock in clocks))
        assert not any(clock.waiting for clock in clocks)
        before, now = await it.read(lambda tx: last_responses(tx, NOON, 2))
        assert (before.answers, before.failures, before.median, before.most) == (4, 4, 2_000, 2_000)
        assert (now.answers, now.failures, now.median, now.most) == (40, 4, 5, 1_000)
        (empty,) = await it.read(lambda tx: last_responses(tx, Instant(NOON + hours(5)), 1))
        assert (empty.answers, empty.median, empty.most) == (0, 0, 0)
        late = Instant(NOON + KEPT)
        assert await it.write(lambda tx: sweep_latency(tx, late, 100)) == 1
        assert await it.write(lambda tx: sweep_latency(tx, Instant(late + hours(1)), 100)) == 2

    run(tmp_path, story, database_url)


def test_a_flush_that_is_cancelled_while_it_commits_is_counted_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        clock, store = ResponseTimeCounter(), it.foundation.store
        clock.count(NOON, 200, 0.004)
        begun, door = threading.Event(), threading.Event()

        def hold(_: Transaction) -> None:
            begun.set()
            door.wait()

        # What one turn of the loop asks for shares a commit: the counts are written, not committed.
        flushing = asyncio.create_task(clock.flush(store))
        holding = asyncio.create_task(_write(store, hold))
        await asyncio.to_thread(begun.wait)
        flushing.cancel()
        closing = asyncio.create_task(clock.flush(store))
        await asyncio.sleep(0)
        door.set()
        await asyncio.wait([flushing, holding, closing])
        assert flushing.cancelled()
        await clock.flush(store)
        (responses,) = await it.read(lambda tx: last_responses(tx, NOON, 1))
        assert responses.answers == 1

    run(tmp_path, story)


async def _write(store: Store, work: Callable[[Transaction], None]) -> None:
    await store.write(work, done_by=USUAL_ACTOR)


def test_failed_write_is_retried(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        clock = ResponseTimeCounter()
        clock.count(NOON, 200, 0.004)
        store = it.foundation.store
        await store.write(
            lambda tx: tx.db.run("ALTER TABLE answer_times RENAME TO elsewhere"),
            done_by=USUAL_ACTOR,
        )
        with pytest.raises(Exception, match="answer_times"):
            await clock.flush(store)
        clock.count(NOON, 200, 0.004)
        await store.write(
            lambda tx: tx.db.run("ALTER TABLE elsewhere RENAME TO answer_times"),
            done_by=USUAL_ACTOR,
        )
        await clock.flush(store)
        (now,) = await it.read(lambda tx: last_responses(tx, NOON, 1))
        assert now.answers == 2

    run(tmp_path, story)


def test_server_counts_each_response_of_an_endpoint(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.call("GET", "/oauth/jwks")
        await it.call("GET", "/health/live")
        await it.call("GET", "/nowhere")
        await it.app._on_close()  # type: ignore[misc]
        del it

    async def counted(it: Harness) -> None:
        (now,) = await it.read(lambda tx: last_responses(tx, NOON, 1))
        assert now.answers == 1

    run(tmp_path, story)
    run(tmp_path, counted)
