"""SQLite: one writer thread with group commit, readers on the calling thread."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TypeVar

import apsw
import pytest

from tests.support.wait import CEILING
from valetkey.database.engine import (
    Connection,
    ConstraintViolated,
    DatabaseUnavailable,
    Row,
    Timeouts,
)
from valetkey.database.sqlite import Checkpoints, SQLite
from valetkey.database.sqlite_connection import create_file, open_writer
from valetkey.kernel.refusal import OperatorError

_TABLE = "CREATE TABLE a (id BIGINT PRIMARY KEY)"
_INSERT = "INSERT INTO a (id) VALUES (:id)"


T = TypeVar("T")


async def _write(engine: SQLite, work: Callable[[Connection], T]) -> T:
    return await engine.write(work)


async def _held(engine: SQLite) -> tuple[threading.Event, "asyncio.Task[bool]"]:
    """What lets go of the writer, and the work that holds it by now."""
    begun, gate = threading.Event(), threading.Event()

    def hold(_: Connection) -> bool:
        begun.set()
        return gate.wait()

    held = asyncio.create_task(_write(engine, hold))
    await asyncio.to_thread(begun.wait)
    return gate, held


def _asking(sql: str) -> Callable[[Connection], Row | None]:
    return lambda db: db.row(sql)


def _insert(number: int) -> Callable[[Connection], int]:
    return lambda db: db.run(_INSERT, id=number)


def test_promised_database_options_are_enabled(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        writer: dict[str, object] = {}
        for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema"):
            row = await engine.write(_asking(f"PRAGMA {name}"))
            writer[name] = row and row[0]
        assert writer == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "trusted_schema": 0,
        }
        assert await engine.read(lambda db: db.row("PRAGMA query_only")) == (1,)
        assert await engine.read(lambda db: db.row("PRAGMA trusted_schema")) == (0,)
        await engine.close()

    asyncio.run(story())


def test_a_backup_is_the_whole_database_and_never_overwrites(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: [db.run(_TABLE), db.run(_INSERT, id=7)])
        await engine.backup(str(tmp_path / "copy.db"))
        with pytest.raises(OperatorError, match="exists already"):
            await engine.backup(str(tmp_path / "copy.db"))
        with pytest.raises(DatabaseUnavailable):
            await engine.backup(str(tmp_path / "no such folder" / "copy.db"))
        await engine.close()
        copy = SQLite(tmp_path / "copy.db")
        assert await copy.read(lambda db: db.rows("SELECT id FROM a")) == [(7,)]
        await copy.close()

    asyncio.run(story())


def test_many_writers_share_a_commit(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        gate, held = await _held(engine)
        threads: set[int] = set()

        def work(db: Connection) -> None:
            threads.add(threading.get_ident())
            db.run("INSERT INTO a (id) SELECT count(*) FROM a")

        log = tmp_path / "a.db-wal"
        many = [asyncio.create_task(_write(engine, work)) for _ in range(200)]
        await asyncio.sleep(0)
        before = log.stat().st_size
        gate.set()
        await asyncio.gather(held, *many)
        # One commit writes each page it changed once; 200 commits would write 200 pages.
        assert log.stat().st_size - before < 20 * 4096
        assert len(threads) == 1
        await engine.close()

    asyncio.run(story())


def test_simultaneous_writes_share_a_commit_when_the_writer_is_idle(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        log = tmp_path / "a.db-wal"
        before = log.stat().st_size
        await asyncio.gather(*(engine.write(_insert(number)) for number in range(50)))
        assert log.stat().st_size - before < 10 * 4096
        await engine.close()

    asyncio.run(story())


def test_wal_is_reset_under_continuous_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    create_file(path)
    raw = open_writer(path, patience=1.0)
    raw.wal_autocheckpoint(0)
    checkpoints = Checkpoints(path, patience=1.0, pages=10, longest=40)
    lengths: list[int] = []

    def hook(_: apsw.Connection, __: str, pages: int) -> int:
        lengths.append(pages)
        return apsw.SQLITE_OK

    raw.set_wal_hook(hook)
    raw.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    while len(lengths) < 20_000 and lengths == sorted(lengths):
        raw.execute("INSERT INTO a (id) VALUES (NULL)")
        checkpoints.committed(raw)
    checkpoints.close()
    assert lengths[-1] < lengths[-2]
    assert raw.execute("SELECT count(*) FROM a").fetchall() == [(len(lengths) - 1,)]
    raw.close()


def test_write_that_raises_is_rolled_back_alone(tmp_path: Path) -> None:
    def fails(db: Connection) -> None:
        db.run("INSERT INTO a (id) VALUES (99)")
        raise LookupError

    def refuses(db: Connection) -> None:
        db.row("SELECT id FROM a")
        raise LookupError

    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        answers = await asyncio.gather(
            *(engine.write(work) for work in (_insert(1), fails, _insert(2), refuses, _insert(3))),
            return_exceptions=True,
        )
        assert [answers[0], answers[2], answers[4]] == [1, 1, 1]
        assert isinstance(answers[1], LookupError)
        assert isinstance(answers[3], LookupError)
        kept = await engine.read(lambda db: db.rows("SELECT id FROM a ORDER BY id"))
        assert kept == [(1,), (2,), (3,)]
        # The others may have kept what the first run read of changes that were undone.
        assert engine.failures() == 1
        await engine.close()

    asyncio.run(story())


def test_write_pending_at_close_is_completed(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        task = asyncio.create_task(_write(engine, _insert(1)))
        await asyncio.sleep(0)
        await engine.close()
        assert await task == 1

    asyncio.run(story())


def test_write_waits_for_the_lock_of_another_process(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(_write(engine, _insert(1)))
        # Readers wait for nobody meanwhile, and the event loop runs.
        for _ in range(20):
            assert await engine.read(lambda db: db.rows("SELECT id FROM a")) == []
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()
        assert await waiting == 1
        await engine.close()

    asyncio.run(story())


def test_write_lock_held_too_long_makes_the_database_unavailable(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db", timeouts=Timeouts(lock=0.1))
        await engine.write(lambda db: db.run(_TABLE))
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="locked"):
            await engine.write(_insert(1))
        other.close()
        assert await engine.write(_insert(1)) == 1
        await engine.close()

    asyncio.run(story())


def test_a_full_disk_loses_the_transaction_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run("CREATE TABLE b (id BIGINT PRIMARY KEY, text TEXT)"))
        await engine.write(lambda db: db.rows("PRAGMA max_page_count = 20"))
        big = "INSERT INTO b (id, text) VALUES (:id, :text)"
        numbers = count()
        tasks = [
            asyncio.create_task(
                _write(engine, lambda db: db.run(big, id=next(numbers), text="x" * 500_000))
            )
            for _ in range(3)
        ]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        for answer in answers:
            assert isinstance(answer, DatabaseUnavailable)
        assert await engine.write(lambda db: db.run(big, id=9, text="small")) == 1
        await engine.close()

    asyncio.run(story())


def test_deferred_constraint_violation_fails_only_its_own_transaction(tmp_path: Path) -> None:
    child = "CREATE TABLE b (a BIGINT REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED)"

    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: [db.run(_TABLE), db.run(child)])
        orphan = "INSERT INTO b (a) VALUES (99)"
        tasks = [_write(engine, lambda db: db.run(orphan))] + [
            _write(engine, _insert(number)) for number in range(20)
        ]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers[0], ConstraintViolated)
        assert answers[1:] == [1] * 20
        assert await engine.read(lambda db: db.rows("SELECT a FROM b")) == []
        await engine.close()

    asyncio.run(story())


def test_a_work_that_ends_the_transaction_itself_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        with pytest.raises(DatabaseUnavailable):
            await engine.write(lambda db: db.run("ROLLBACK"))
        assert await engine.write(_insert(1)) == 1
        await engine.close()

    asyncio.run(story())


def test_stop_iteration_in_a_work_is_raised_as_runtime_error(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        with pytest.raises(RuntimeError, match="StopIteration"):
            await engine.write(lambda _: next(iter(())))
        await engine.close()

    asyncio.run(story())


def test_a_cancelled_caller_leaves_the_others_alone(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        gate, held = await _held(engine)
        gone = asyncio.create_task(_write(engine, _insert(1)))
        kept = asyncio.create_task(_write(engine, _insert(2)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(held, kept)
        assert gone.cancelled()
        assert await engine.read(lambda db: db.rows("SELECT id FROM a")) == [(2,)]
        await engine.close()

    asyncio.run(story())


def test_a_closed_database_is_one_file(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        await engine.read(lambda db: db.rows("SELECT id FROM a"))
        await engine.close()

    asyncio.run(story())
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


def test_many_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    def open_it(path: Path) -> None:
        create_file(path)
        open_writer(path, patience=CEILING).close()

    with ThreadPoolExecutor(8) as threads:
        for number in range(40):
            list(threads.map(open_it, [tmp_path / f"{number}.db"] * 8))


_HELD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as index:
    try:
        fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)
    except OSError:
        print("held")
    else:
        print("free")
"""


def test_closing_one_engine_keeps_the_shared_memory_lock_of_another(tmp_path: Path) -> None:
    """Byte 128 of the index says that the database is in use; without it, the next one resets."""

    def lock() -> str:
        command = [sys.executable, "-c", _HELD, str(tmp_path / "a.db-shm")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    async def story() -> None:
        one, two = SQLite(tmp_path / "a.db"), SQLite(tmp_path / "a.db")
        await one.write(lambda db: db.run(_TABLE))
        for engine in (one, two):
            await engine.read(lambda db: db.rows("SELECT id FROM a"))
            assert engine.mark() is not None
        assert lock() == "held"
        await two.close()
        assert lock() == "held"
        before = one.mark()
        await one.write(_insert(1))
        assert one.mark() != before
        await one.close()

    asyncio.run(story())


def test_new_database_at_the_same_path_has_its_own_change_marks(tmp_path: Path) -> None:
    async def story() -> None:
        for _ in range(2):
            engine = SQLite(tmp_path / "a.db")
            assert engine.mark() is None
            await engine.write(lambda db: db.run("CREATE TABLE IF NOT EXISTS b (id BIGINT)"))
            await engine.read(lambda db: db.rows("SELECT id FROM b"))
            before = engine.mark()
            await engine.write(lambda db: db.run("INSERT INTO b (id) VALUES (1)"))
            assert engine.mark() != before
            await engine.close()

    asyncio.run(story())
