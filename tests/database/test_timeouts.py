"""Every wait for a database ends in time, and nothing that was refused is done later."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psycopg
import pytest

from tests.reliability.experiments import frozen
from tests.support import postgres
from tests.support.wait import until, until_found
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine, Timeouts
from valetkey.database.postgres import Postgres
from valetkey.database.sqlite import SQLite

_SHORT = Timeouts(connect=2, statement=0.6, lock=0.4, report=1.2, answer=1.0)
_SOON = 6.0  # seconds; far below how long the fault lasts, far above what a busy machine needs
_INSERT = "INSERT INTO a (id) VALUES (:id)"
_GONE = b"ALTER SYSTEM SET synchronous_standby_names = 'gone'"
_NONE = b"ALTER SYSTEM SET synchronous_standby_names = ''"


def _insert(number: int) -> Callable[[Connection], int]:
    return lambda db: db.run(_INSERT, id=number)


async def _count(engine: Engine) -> int:
    row = await engine.read(lambda db: db.row("SELECT count(*) FROM a"))
    return int(row[0]) if row else -1


async def _refused(engine: Engine, numbers: range) -> float:
    """Seconds until every one of these writes and as many reads were refused."""
    began = time.monotonic()
    doors = [engine.write(_insert(number)) for number in numbers]
    doors += [engine.read(_insert_nothing) for _ in numbers]
    answers = await asyncio.gather(*doors, return_exceptions=True)
    assert {type(answer) for answer in answers} == {DatabaseUnavailable}, answers
    return time.monotonic() - began


def _insert_nothing(db: Connection) -> int:
    return len(db.rows("SELECT id FROM a WHERE id = -1"))


@pytest.fixture(scope="module")
def server() -> Generator[Path]:
    """A PostgreSQL that these tests freeze and reconfigure."""
    with postgres.own_server() as folder:
        yield folder


async def _table(server: Path, *, size: int) -> Postgres:
    engine = Postgres(postgres.url(server, "postgres"), size=size, timeouts=_SHORT)
    await engine.change_schema(_new_table)
    return engine


def test_frozen_server_is_refused_in_time_and_used_again(server: Path) -> None:
    """More callers than threads, with connections that are open and some that are not."""

    async def story() -> None:
        engine = await _table(server, size=4)
        await until(lambda: engine.changed() == engine.changed())
        assert await engine.write(_insert(1)) == 1
        with frozen(server / "data"):
            assert await _refused(engine, range(100, 140)) < _SOON
            assert await _refused(engine, range(200, 203)) < _SOON
            # A change by another process cannot be seen, so nothing that is cached counts.
            await until(lambda: engine.changed() != engine.changed())
        began = time.monotonic()
        await until_found(lambda: _works(engine, 2))
        assert time.monotonic() - began < _SOON
        await until(lambda: engine.changed() == engine.changed())
        # What was in the server's buffers is read now; each at most once, and never a second time.
        assert await _count(engine) <= 2 + 43
        await engine.close()

    asyncio.run(story())


async def _works(engine: Engine, number: int) -> bool:
    try:
        return await engine.write(_insert(number)) == 1
    except DatabaseUnavailable:
        return False


def test_transaction_of_a_caller_that_was_refused_does_not_commit(server: Path) -> None:
    """The statements were sent and answered; what follows is too late."""

    async def story() -> None:
        engine = await _table(server, size=2)
        gate = threading.Event()

        def late(db: Connection) -> None:
            db.run(_INSERT, id=1)
            gate.wait()

        with pytest.raises(DatabaseUnavailable, match="no answer within 1 s"):
            await engine.write(late)
        gate.set()
        assert await engine.write(_insert(2)) == 1
        assert await _count(engine) == 1
        await engine.close()

    asyncio.run(story())


def test_missing_standby_refuses_writes_serves_reads_and_bounds_connections(server: Path) -> None:
    async def story() -> None:
        engine = await _table(server, size=3)
        with psycopg.connect(postgres.url(server, "postgres"), autocommit=True) as raw:
            raw.execute(_GONE)
            raw.execute(b"SELECT pg_reload_conf()")
            # Commits wait from when PostgreSQL's checkpointer has read the setting.
            confirmed = 0
            while await _works(engine, confirmed):
                confirmed += 1
            for number in range(confirmed + 1, confirmed + 6):
                with pytest.raises(DatabaseUnavailable):
                    await asyncio.wait_for(engine.write(_insert(number)), _SOON)
                assert await _count(engine) == confirmed
            began = time.monotonic()
            with pytest.raises(DatabaseUnavailable, match="does not confirm commits"):
                await engine.write(_insert(-20))
            assert time.monotonic() - began < _SHORT.answer
            raw.execute(_NONE)
            raw.execute(b"SELECT pg_reload_conf()")
            await until_found(lambda: _works(engine, -30))
        # Those whose commit was under way are done, once; those refused before are not. A write can
        # begin before the thread of an earlier one has counted its commit as unconfirmed.
        row_ids = await engine.read(
            lambda db: sorted(row[0] for row in db.rows("SELECT id FROM a"))
        )
        assert 3 <= len(row_ids) - 1 - confirmed < 2 * 3
        assert row_ids == [-30, *range(len(row_ids) - 1)]
        await engine.close()

    asyncio.run(story())


def test_sqlite_writer_that_is_stuck_is_refused_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db", timeouts=_SHORT)
        await engine.write(lambda db: db.run("CREATE TABLE a (id BIGINT PRIMARY KEY)"))
        gate = threading.Event()

        def stuck(db: Connection) -> None:
            db.run(_INSERT, id=1)
            gate.wait()

        before = engine.failures()
        answers = await asyncio.gather(
            engine.write(stuck), engine.write(_insert(2)), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {DatabaseUnavailable}, answers
        assert engine.failures() > before
        gate.set()
        assert await engine.write(_insert(3)) == 1
        assert await _count(engine) == 1
        await engine.close()

    asyncio.run(story())


def test_sqlite_schema_change_waits_for_that_of_another_process(tmp_path: Path) -> None:
    """For longer than a write waits for the lock: a migration of a large database takes minutes."""

    async def story() -> None:
        one, other = (SQLite(tmp_path / "a.db", timeouts=_SHORT) for _ in range(2))
        begun, gate = threading.Event(), threading.Event()

        def long(db: Connection) -> None:
            db.run("CREATE TABLE a (id BIGINT PRIMARY KEY)")
            begun.set()
            gate.wait()

        first = asyncio.create_task(one.change_schema(long))
        await asyncio.to_thread(begun.wait)
        second = asyncio.create_task(other.change_schema(_insert(1)))
        with pytest.raises(DatabaseUnavailable, match="no answer within 1 s"):
            await other.write(_insert(2))
        assert not second.done()
        gate.set()
        await first
        assert await second == 1
        assert await other.write(_insert(3)) == 1
        assert await _count(other) == 2
        for engine in (one, other):
            await engine.close()

    asyncio.run(story())


def test_sqlite_closes_while_another_process_changes_the_schema(tmp_path: Path) -> None:
    async def story() -> None:
        one, other = (SQLite(tmp_path / "a.db", timeouts=_SHORT) for _ in range(2))
        begun, gate = threading.Event(), threading.Event()

        def long(_: Connection) -> None:
            begun.set()
            gate.wait()

        first = asyncio.create_task(one.change_schema(long))
        await asyncio.to_thread(begun.wait)
        second = asyncio.create_task(other.change_schema(_insert(1)))
        with pytest.raises(DatabaseUnavailable, match="no answer within 1 s"):
            await other.write(_insert(2))
        second.cancel()
        await other.close()
        gate.set()
        await first
        await one.close()

    asyncio.run(story())


@pytest.fixture(params=["sqlite", "postgres"])
def open_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Engine]:
    """Opens an engine with short time limits; inside of an event loop."""
    if request.param == "sqlite":
        return lambda: SQLite(tmp_path / "a.db", timeouts=_SHORT)
    server: Path = request.getfixturevalue("server")
    return lambda: Postgres(postgres.url(server, "postgres"), size=1, timeouts=_SHORT)


def test_transaction_whose_caller_was_refused_ends(open_engine: Callable[[], Engine]) -> None:
    """It would go on for a minute, and all that time hold what the next one waits for."""

    def for_long(db: Connection) -> None:
        db.run(_INSERT, id=1)
        began = time.monotonic()
        while time.monotonic() - began < 60:
            db.row("SELECT count(*) FROM a")
            time.sleep(0.001)

    async def story() -> None:
        engine = open_engine()
        await engine.change_schema(_new_table)
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            await engine.write(for_long)
        assert await engine.write(_insert(2)) == 1
        assert time.monotonic() - began < _SOON
        assert await _count(engine) == 1
        await engine.close()

    asyncio.run(story())


def _new_table(db: Connection) -> None:
    db.run("DROP TABLE IF EXISTS a")
    db.run("CREATE TABLE a (id BIGINT PRIMARY KEY)")
    db.run("CREATE TABLE IF NOT EXISTS revision (number BIGINT)")
