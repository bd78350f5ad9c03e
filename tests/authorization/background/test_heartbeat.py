"""The heartbeat of a node: its row appears, stays after a kill, and is gone after a clean stop."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.harness import Harness, run
from tests.support.wait import until_found
from valetkey.authorization.actions.inspection.machine import clock_of, own_database
from valetkey.authorization.background.heartbeat import Heartbeat
from valetkey.authorization.storage.nodes import Node
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.runtime import SYSTEM, Runtime


def _heartbeat(it: Harness, node: str, *, ahead: int = 0, supervised: bool = True) -> Heartbeat:
    runtime = Runtime(lambda: Instant(it.clock.now + ahead), SYSTEM.random)
    return Heartbeat(it.foundation.store, node, own_database(it.settings), runtime, supervised)


async def _running(it: Harness) -> Sequence[Node]:
    own = own_database(it.settings)

    def read(tx: Transaction) -> list[Node]:
        now = clock_of(tx.db, own, it.clock.now)
        return [node for node in tx.nodes.list(now) if node.is_running(now)]

    return await it.read(read)


async def _start(it: Harness, *beating: Heartbeat) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(heartbeat.run()) for heartbeat in beating]

    async def every() -> bool:
        return len(await _running(it)) == len(beating)

    await until_found(every)
    return tasks


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_row_is_gone_after_a_clean_stop(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        tasks = await _start(it, _heartbeat(it, "one"), _heartbeat(it, "two", supervised=False))
        one, _ = await _running(it)
        assert one.address == it.settings.authorization.listen
        assert one.name
        assert one.version
        await _end(tasks)
        assert await _running(it) == []

    run(tmp_path, story, database_url)


def test_row_stays_if_the_supervisor_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        tasks = await _start(it, _heartbeat(it, "one"), _heartbeat(it, "two", supervised=False))
        monkeypatch.setattr(os, "getppid", lambda: 1)
        await _end(tasks)
        assert [node.id for node in await _running(it)] == ["one"]

    run(tmp_path, story)


def test_clock_skew_of_nodes_on_postgresql_is_ignored(tmp_path: Path, postgres_url: str) -> None:
    async def story(it: Harness) -> None:
        late, early = -hours(2), hours(2)
        tasks = await _start(
            it, _heartbeat(it, "late", ahead=late), _heartbeat(it, "early", ahead=early)
        )
        assert {node.id for node in await _running(it)} == {"late", "early"}
        await _end(tasks)

    run(tmp_path, story, postgres_url)
