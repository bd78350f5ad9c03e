"""The hash chain of the audit log: one chain, and every tampering is seen."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from valetkey.authorization.actions.admin.audit import FaultKind, VerificationResult, verify
from valetkey.authorization.background.audit import EVERY, AuditJob
from valetkey.authorization.background.maintenance import sweep_events
from valetkey.authorization.model.event.accounts import MailGivenUp, UserChanged
from valetkey.authorization.model.event.chain import (
    BLOCK,
    Block,
    Checkpoint,
    checkpoint,
    checkpoint_key,
    next_block,
    retention,
)
from valetkey.authorization.model.event.event import USUAL_ACTOR, by_cli
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import FingerprintKey

KEY = checkpoint_key(FingerprintKey(b"k" * 32))
FORGED = checkpoint_key(FingerprintKey(b"f" * 32))
KEEP = retention(days(100), {"mail": days(10)})
START = Instant(1_800_000_000)


@dataclass
class Log:
    """An audit log and its chain, at a time that the test sets."""

    store: Store
    now: Instant = START

    async def write(self, count: int, *, mail: bool = False) -> None:
        """Commit events, one transaction each, concurrently."""

        def add(tx: Transaction) -> None:
            event = MailGivenUp(1, "x", 1, "y") if mail else UserChanged(1, ("name",))
            tx.events.add(event, self.now)

        await asyncio.gather(*(self.store.write(add, done_by=USUAL_ACTOR) for _ in range(count)))

    async def chain(self, *, after: int = EVERY) -> list[Block]:
        """Append what is due so many seconds later."""
        self.now = Instant(self.now + after)
        job = AuditJob(self.store, KEEP, KEY, Runtime(lambda: self.now, SYSTEM.random))
        blocks = []
        while (block := await job.append_due()) is not None:
            blocks.append(block)
        return blocks

    async def sweep(self) -> int:
        """Delete what is past its retention."""
        swept = 0
        while gone := await self.store.write(
            lambda tx: sweep_events(tx, KEEP, 50), done_by=USUAL_ACTOR
        ):
            swept += gone
        return swept

    async def verify(self, *checkpoints: Checkpoint) -> VerificationResult:
        return await verify(self.store, KEY.public, checkpoints)

    async def tamper(self, sql: str, **params: object) -> None:
        assert await self.store.write(lambda tx: tx.db.run(sql, **params), done_by=USUAL_ACTOR) > 0

    async def ids(self) -> list[str]:
        rows = await self.store.scan(lambda tx: tx.db.rows("SELECT id FROM events ORDER BY at, id"))
        return [row[0] for row in rows]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return str(request.getfixturevalue("postgres_url"))


def tell(database: str, story: Callable[[Log], Awaitable[None]]) -> None:
    """Run a story with an empty audit log."""

    async def run() -> None:
        engine = connect(database, directory=Path("/"))
        try:
            await migrate(engine, "valetkey.authorization.storage.schema")
            await story(Log(Store(engine, SYSTEM.random, by_cli("test"))))
        finally:
            await engine.close()

    asyncio.run(run())


def _kinds(verdict: VerificationResult) -> dict[str, FaultKind]:
    return {fault.record_id: fault.kind for fault in verdict.faults}


def test_every_event_is_in_one_chain_and_each_tampering_is_named(database: str) -> None:
    async def story(log: Log) -> None:
        assert [block.number for block in await log.chain()] == [1]
        await log.write(2 * BLOCK + 10)
        assert len(await log.chain(after=0)) == 2  # whole blocks do not wait
        assert len(await log.chain()) == 1
        await log.write(1)
        whole = await log.verify()
        assert (whole.blocks, whole.events, whole.faults) == (4, 2 * BLOCK + 10, [])
        assert whole.waiting == log.now
        await log.chain()
        *_, removed, changed, moved, other = await log.ids()
        await log.tamper("DELETE FROM events WHERE id = :id", id=removed)
        await log.tamper("UPDATE events SET data = '{}' WHERE id = :id", id=changed)
        await log.tamper("UPDATE events SET at = at - 9000 WHERE id = :id", id=moved)
        insert = (
            "INSERT INTO events (id, at, name, data, done_by, block) SELECT 'ev_' || :n, at - :n,"
            " name, data, done_by, block + :m FROM events WHERE id = :id"
        )
        await log.tamper(insert, id=other, n=0, m=0)
        await log.tamper(insert, id=other, n=7777, m=0)
        await log.tamper(insert, id=other, n=1, m=5000)
        assert _kinds(await log.verify()) == {
            removed: FaultKind.REMOVED,
            changed: FaultKind.CHANGED,
            moved: FaultKind.CHANGED,
            "ev_0": FaultKind.INSERTED,
            "ev_7777": FaultKind.INSERTED,
            "ev_1": FaultKind.INSERTED,
        }

    tell(database, story)


def test_forged_and_missing_blocks_and_cut_end_are_seen(tmp_path: Path) -> None:
    async def story(log: Log) -> None:
        for _ in range(5):
            await log.write(3)
            await log.chain()
        head = await log.store.scan(lambda tx: tx.audit_chain.head())
        assert head is not None
        assert head.number == 5
        last_checkpoint = checkpoint(head, KEY.public)
        assert (await log.verify(last_checkpoint)).is_whole
        # The end is cut off: the chain alone cannot show it, the checkpoint does.
        await log.tamper("DELETE FROM audit_blocks WHERE number = 5")
        await log.tamper("DELETE FROM events WHERE block = 5")
        assert (await log.verify()).is_whole
        assert _kinds(await log.verify(last_checkpoint)) == {"5": FaultKind.CUT}
        # Another block takes its place.
        await log.write(1)
        await log.chain()
        assert _kinds(await log.verify(last_checkpoint)) == {"5": FaultKind.CUT}
        assert _kinds(await log.verify(replace_key(last_checkpoint))) == {"5": FaultKind.CUT}
        # A block that is recomputed with another key, with all hashes right.
        blocks = await log.store.scan(lambda tx: list(tx.audit_chain.page(0, 10)))
        events = await log.store.scan(lambda tx: tx.audit_chain.events_of(blocks[1]))
        forged = next_block(blocks[0], events[1:], KEEP, blocks[1].at, FORGED)
        await log.tamper(
            "UPDATE audit_blocks SET entries = :entries, hash = :hash, signature = :signature"
            " WHERE number = 2",
            entries=forged.entries,
            hash=forged.hash,
            signature=forged.signature,
        )
        assert [(f.kind, f.record_id) for f in (await log.verify()).faults] == [
            (FaultKind.BLOCK, "2"),
            (FaultKind.BLOCK, "3"),
        ]
        await log.tamper("DELETE FROM audit_blocks WHERE number < 3")
        await log.tamper("DELETE FROM events WHERE block < 3")
        assert _kinds(await log.verify()) == {"3": FaultKind.BLOCK}
        await log.tamper("DELETE FROM audit_blocks WHERE number = 4")
        assert FaultKind.INSERTED in _kinds(await log.verify()).values()

    tell(f"sqlite:///{tmp_path}/a.db", story)


def replace_key(original: Checkpoint) -> Checkpoint:
    """The same checkpoint, signed by somebody else."""
    return Checkpoint(original.block, original.at, original.hash, FORGED.public, FORGED.sign("x"))


def test_chain_verifies_after_retention_of_each_kind_has_ended(database: str) -> None:
    async def story(log: Log) -> None:
        await log.write(5, mail=True)
        await log.write(5)
        await log.chain()
        await log.write(2)
        await log.chain(after=days(11))
        assert await log.sweep() == 5
        verdict = await log.verify()
        assert (verdict.is_whole, verdict.events, verdict.expired) == (True, 12, 5)
        (first, *_) = await log.ids()
        await log.tamper("DELETE FROM events WHERE id = :id", id=first)
        assert _kinds(await log.verify()) == {first: FaultKind.REMOVED}
        await log.chain(after=days(101))
        assert await log.sweep() > 6
        verdict = await log.verify()
        assert (verdict.is_whole, await log.ids()) == (True, [])
        # One expired block stays, so that nobody can claim that earlier ones had expired.
        assert verdict.blocks == 2
        # Another retention takes effect once a signed block states it.
        await log.write(1, mail=True)
        await log.chain()
        shorter = replace(KEEP, usual=days(1))
        assert (
            await log.store.write(lambda tx: sweep_events(tx, shorter, 50), done_by=USUAL_ACTOR)
            == 0
        )

    tell(database, story)


def test_retention_of_unknown_or_longer_kind_is_refused() -> None:
    for wrong in ({"nothing": days(1)}, {"mail": days(101)}):
        with pytest.raises(OperatorError):
            retention(days(100), wrong)
    narrow = retention(days(9), {"mail.given_up": days(2), "mail": days(3)})
    assert (narrow.lifetime_of("mail.given_up"), narrow.lifetime_of("mail.dispatched")) == (
        days(2),
        days(3),
    )


# A process that writes and chains as fast as it can, telling each acknowledged event.
_WRITER = """
import asyncio, sys
from tests.authorization.storage.administration.test_audit_chain import *

async def run():
    engine = connect(sys.argv[1], directory=Path("/"))
    log = Log(Store(engine, SYSTEM.random, by_cli("test")))
    while True:
        await log.write(8)
        print(8, flush=True)
        await log.chain()

asyncio.run(run())
"""


def test_two_processes_that_are_killed_leave_one_chain(database: str) -> None:
    tell(database, lambda _: asyncio.sleep(0))
    acknowledged = 0
    for rounds in (2, 5):
        writers = [
            subprocess.Popen([sys.executable, "-c", _WRITER, database], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            for _ in range(rounds):
                acknowledged += int(writer.stdout.readline())
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            output, _ = writer.communicate()
            acknowledged += sum(map(int, output.split()))

    async def story(log: Log) -> None:
        log.now = Instant(START + 10_000_000)
        await log.chain()
        verdict = await log.verify()
        assert verdict.faults == []
        assert verdict.waiting is None
        assert verdict.events == len(await log.ids()) >= acknowledged > 0

    tell(database, story)
