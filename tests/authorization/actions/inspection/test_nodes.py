"""What the console and `doctor` say about nodes and backups."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, page
from tests.support.harness import Harness, run
from valetkey.authorization.actions.inspection.check import (
    BACKUPS,
    NODES,
    Finding,
    Installation,
    Level,
)
from valetkey.authorization.actions.inspection.inspector import KEPT
from valetkey.authorization.actions.inspection.machine import clock_of, own_database
from valetkey.authorization.actions.inspection.nodes import backup, nodes
from valetkey.authorization.operations.server_records import OverviewShown
from valetkey.authorization.operations.table import OPERATIONS
from valetkey.authorization.storage.nodes import BackupKind, Node
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days

(_OVERVIEW,) = (operation for operation in OPERATIONS if operation.id == "read_overview")


def _part(body: str, name: str) -> str:
    """The entry of a part in the list of states."""
    return body.partition("State</h2>")[2].partition(f">{name}</strong>")[2].partition("</li>")[0]


def _line(body: str, name: str) -> str:
    hint = _part(body, name).partition('class="hint">')[2].partition("</p>")[0]
    return " ".join(re.sub("<[^>]+>", "", hint).split())


def _now(it: Harness, tx: Transaction) -> Instant:
    return clock_of(tx.db, own_database(it.settings), it.clock.now)


async def _add(
    it: Harness, name: str, *, ago: int = 0, version: str = "0.2.0", started: int = 9_000
) -> None:
    def add(tx: Transaction) -> None:
        now = _now(it, tx)
        times = Instant(now - started), Instant(now - ago)
        tx.nodes.add(Node(name, name, name, "10.0.0.1:8400", version, *times))

    await it.write(add)


async def _found(it: Harness) -> Sequence[Finding]:
    installation = Installation(
        it.settings, it.foundation.keyring, it.foundation.roles, it.clock.now
    )
    return await it.read(lambda tx: (*nodes(tx, installation), *backup(tx, installation)))


def _no_backup(database_url: str) -> str:
    """PostgreSQL's own programs make backups."""
    return "no_backup_recorded" if database_url.startswith("postgresql:") else "no_backup"


async def _names(it: Harness) -> list[str]:
    return [finding.condition.name for finding in await _found(it)]


def test_nodes_are_listed_with_version_and_missing_ones_need_attention(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        assert await _names(it) == ["no_node", _no_backup(database_url)]
        await _add(it, "auth-1", ago=10)
        await _add(it, "auth-2", ago=20)
        count, first, second, _ = await _found(it)
        assert (count.sentence, first.level) == ("2 running.", Level.OK)
        assert second.sentence.startswith("auth-2: version 0.2.0, last seen 202")
        await _add(it, "auth-3", ago=125)
        await _add(it, "auth-4", ago=days(1) + 1)
        findings = [finding for finding in await _found(it) if finding.level is not Level.OK]
        assert [finding.about for finding in findings] == ["node auth-3"]
        assert "was not stopped, and has not been seen since 202" in findings[0].sentence

    run(tmp_path, story, database_url)


def test_different_versions_need_attention_after_an_hour(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _add(it, "auth-1")
        await _add(it, "auth-2", version="0.3.0", started=600)
        (during,) = (finding for finding in await _found(it) if "version" in finding.condition.name)
        assert during.level is Level.OK
        assert during.sentence == "The nodes run different versions: 0.2.0, 0.3.0."
        later = "UPDATE nodes SET started_at = started_at - 9000"
        await it.write(lambda tx: tx.db.run(later))
        (after,) = (finding for finding in await _found(it) if "version" in finding.condition.name)
        assert after.level is Level.WARNING
        # A node that is gone has no version that matters.
        await it.write(lambda tx: tx.db.run("UPDATE nodes SET seen_at = 1 WHERE id = 'auth-1'"))
        assert await _names(it) == ["nodes_running", "node_seen", _no_backup(database_url)]

    run(tmp_path, story, database_url)


def test_last_backup_is_shown_with_warning_after_a_week(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        async def made(kind: BackupKind, ago: int) -> Finding:
            await it.write(lambda tx: tx.backups.record(kind, 3 << 20, Instant(_now(it, tx) - ago)))
            return (await _found(it))[-1]

        assert (await made(BackupKind.FILES, 9)).sentence.endswith(" UTC, 3.0 MiB.")
        assert (await made(BackupKind.RECORDED, 9)).condition.name == "backup_recorded"
        assert (await made(BackupKind.FILES, days(7))).level is Level.OK
        old = await made(BackupKind.FILES, days(7) + 5)
        assert (old.level, old.command) == (Level.WARNING, "valetkey database backup --record")
        # In a restored database the record is of what was there before, and asks for nothing.
        await it.write(lambda tx: tx.db.run("UPDATE installation SET epoch = epoch + 1"))
        (before,) = (await _found(it))[-1:]
        assert (before.condition.name, before.level) == ("backup_before", Level.OK)

    run(tmp_path, story, database_url)


def test_overview_and_api_show_the_nodes_and_the_last_backup(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        it.clock.forward(KEPT + 1)
        body = (await page(browser, "/admin")).body
        assert _line(body, NODES).endswith("No running node is known.")
        # Neither good nor a problem: no badge.
        assert "badge" not in _part(body, BACKUPS)
        await _add(it, "auth-1")
        await _add(it, "auth-2", ago=240)
        await it.write(
            lambda tx: tx.backups.record(BackupKind.FILES, 5 << 20, Instant(it.clock.now - 10_800))
        )
        it.clock.forward(KEPT + 1)
        body = (await page(browser, "/admin")).body
        # What is good is said beside a problem.
        ending = "1 running. auth-1: version 0.2.0, last seen just now. 1 problem, listed above."
        assert _line(body, NODES).endswith(ending)
        assert _line(body, BACKUPS).endswith("Last backup: 3 hours ago, 5.0 MiB.")
        urgent = body.partition("Needs attention</h2>")[2].partition("<h2")[0]
        assert "The node auth-2 was not stopped" in urgent
        shown = await it.perform(_OVERVIEW, {})
        assert isinstance(shown, OverviewShown)
        assert shown.backup is not None
        assert [(node.name, node.running) for node in shown.nodes] == [
            ("auth-1", True),
            ("auth-2", False),
        ]
        assert (shown.backup.kind, shown.backup.restored_since) == ("files", False)

    run(tmp_path, story)
