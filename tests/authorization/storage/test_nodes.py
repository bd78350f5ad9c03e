"""Nodes and the last backup as stored: heartbeats, replacements, two nodes of one name, bounds."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.support.harness import NOON, Harness, run
from valetkey.authorization.storage.nodes import KEPT, MISSING_AFTER, BackupKind, Node, Nodes
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

Write = Callable[[Nodes, Node], None]


def _node(name: str, at: int = 0, *, machine: str = "auth-1", holder: str = "") -> Node:
    when = Instant(NOON + at)
    return Node(name, holder or name, machine, "10.0.0.1:8400", "0.2.0", when, when)


async def _do(it: Harness, what: Write, node: Node) -> None:
    await it.write(lambda tx: what(tx.nodes, node))


async def _listed(it: Harness, at: int) -> dict[str, bool]:
    now = Instant(NOON + at)
    nodes = await it.read(lambda tx: tx.nodes.list(now))
    return {node.id: node.is_running(now) for node in nodes}


def test_killed_node_is_missing_until_another_takes_its_place(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await _do(it, Nodes.add, _node("a"))
        await _do(it, Nodes.renew, _node("a", 30))
        assert await _listed(it, 30 + MISSING_AFTER - 1) == {"a": True}
        assert await _listed(it, 30 + MISSING_AFTER) == {"a": False}
        assert await _listed(it, 30 + KEPT) == {}
        # One on another machine does not make up for it.
        await _do(it, Nodes.add, _node("other", 500, machine="auth-2"))
        assert await _listed(it, 500) == {"a": False, "other": True}
        # One that starts again at once is not counted twice.
        await _do(it, Nodes.add, _node("b", 31))
        assert (await _listed(it, 32)).keys() == {"b", "other"}
        await _do(it, Nodes.remove, _node("b"))
        # What it replaced is gone with it.
        assert (await _listed(it, 500)).keys() == {"other"}

    run(tmp_path, story, database_url)


def test_two_nodes_of_one_name_are_tracked_separately(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await asyncio.gather(*(_do(it, Nodes.add, _node(name)) for name in "ab"))
        for at in (30, 60, 90):
            beats = [_do(it, Nodes.renew, _node(name, at)) for name in "ab" for _ in range(4)]
            await asyncio.gather(*beats)
            assert await _listed(it, at) == {"a": True, "b": True}
        # One is killed: the other one, which ran before, does not stand for it.
        for at in (120, 240):
            await _do(it, Nodes.renew, _node("b", at))
        assert await _listed(it, 241) == {"a": False, "b": True}
        # A reload of the other one is no start.
        await _do(it, Nodes.add, _node("b", 300, holder="b2"))
        assert await _listed(it, 301) == {"a": False, "b": True}
        await _do(it, Nodes.add, _node("c", 302))
        # It takes the place of the killed one; the other one is seen again with its next heartbeat.
        await _do(it, Nodes.renew, _node("b", 330, holder="b2"))
        assert await _listed(it, 331) == {"b": True, "c": True}

    run(tmp_path, story, database_url)


def test_replaced_process_neither_renews_nor_removes_its_node(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        before, after = _node("a", holder="before"), _node("a", 10, holder="after")
        await _do(it, Nodes.add, before)
        await _do(it, Nodes.add, after)
        await _do(it, Nodes.renew, _node("a", 30, holder="before"))
        await _do(it, Nodes.remove, before)
        (node,) = await it.read(lambda tx: tx.nodes.list(after.seen_at))
        assert (node.holder, node.started_at, node.seen_at) == ("after", NOON, NOON + 10)
        # The new one failed before it was ready: the old one goes on.
        await _do(it, Nodes.renew, _node("a", 10 + MISSING_AFTER // 2 + 1, holder="before"))
        (node,) = await it.read(lambda tx: tx.nodes.list(after.seen_at))
        assert node.holder == "before"
        await _do(it, Nodes.remove, before)
        assert await _listed(it, 100) == {}

    run(tmp_path, story, database_url)


def test_number_of_rows_of_killed_nodes_is_bounded(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        for number in range(250):
            await _do(it, Nodes.add, _node(str(number), machine=f"pod-{number}"))
        assert len(await _listed(it, 1)) == 200
        # One that always fails and starts again leaves one row, not one for each start.
        for number in range(5):
            await _do(it, Nodes.add, _node(f"again-{number}", 200 * number))
        rows = "SELECT count(*) FROM nodes WHERE name = 'auth-1'"
        assert await it.read(lambda tx: tx.db.row(rows)) in [(1,), (2,)]
        await _do(it, Nodes.renew, _node("again-4", KEPT))
        assert await it.read(lambda tx: tx.db.row("SELECT count(*) FROM nodes")) == (1,)

    run(tmp_path, story, database_url)


def test_last_backup_is_outdated_after_a_restore(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        assert await it.read(lambda tx: tx.backups.last()) is None
        await it.write(lambda tx: tx.backups.record(BackupKind.FILES, 7, NOON))
        await it.write(lambda tx: tx.backups.record(BackupKind.RECORDED, 0, Instant(NOON + 1)))
        last = await it.read(lambda tx: tx.backups.last())
        assert last is not None
        assert replace(last, epoch=0) == replace(last, kind=BackupKind.RECORDED, epoch=0)
        assert last.finished_at == NOON + 1
        assert await it.read(lambda tx: tx.backups.is_of_now(last))
        await it.write(lambda tx: tx.db.run("UPDATE installation SET epoch = epoch + 1"))
        assert not await it.read(lambda tx: tx.backups.is_of_now(last))

    run(tmp_path, story, database_url)
