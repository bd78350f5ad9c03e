"""PostgreSQL: settings, retries, and a server that goes away."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from tests.support import postgres
from tests.support.go_between import cutting_at_commit
from tests.support.wait import CEILING, until, until_found
from valetkey.database.engine import (
    Connection,
    ConstraintViolated,
    DatabaseUnavailable,
    Overloaded,
    Row,
)
from valetkey.database.postgres import Postgres
from valetkey.kernel.refusal import OperatorError

T = TypeVar("T")

_TABLE = "CREATE TABLE a (id BIGINT PRIMARY KEY, text TEXT NOT NULL DEFAULT '')"
_INSERT = "INSERT INTO a (id) VALUES (:id)"
_TRANSACTION = "SELECT txid_current()"


async def _write(engine: Postgres, work: Callable[[Connection], T]) -> T:
    return await engine.write(work)


def _asking(sql: str) -> Callable[[Connection], Row | None]:
    return lambda db: db.row(sql)


def _insert(number: int) -> Callable[[Connection], int]:
    return lambda db: db.run(_INSERT, id=number)


async def _table(url: str, *, size: int = 2) -> Postgres:
    engine = Postgres(url, size=size)
    await engine.change_schema(lambda db: db.run(_TABLE))
    return engine


def test_promised_database_options_are_enabled(postgres_url: str) -> None:
    settings = {
        "synchronous_commit": "on",
        "statement_timeout": "5s",
        "lock_timeout": "3s",
        "jit": "off",
        "idle_in_transaction_session_timeout": "10s",
        "application_name": "valetkey",
    }

    async def story() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            name = raw.info.dbname
            raw.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
            raw.execute(
                f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'".encode()
            )
        engine = Postgres(postgres_url, size=2)
        for name, value in settings.items():
            assert await engine.write(_asking(f"SHOW {name}")) == (value,)
        level = _asking("SHOW transaction_isolation")
        assert await engine.write(level) == ("read committed",)
        assert await engine.read(level) == ("repeatable read",)
        assert await engine.scan(_asking("SHOW statement_timeout")) == ("1min",)
        assert await engine.change_schema(_asking("SHOW statement_timeout")) == ("0",)
        assert await engine.write(_asking("SHOW statement_timeout")) == ("5s",)
        await engine.close()

    asyncio.run(story())


def test_database_with_an_encoding_other_than_utf8_is_an_operator_error(postgres_url: str) -> None:
    async def story() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            utf8 = raw.info.dbname
            name = f"{utf8}_latin"
            raw.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1'".encode())
        engine = Postgres(postgres_url.replace(utf8, name), size=1)
        with pytest.raises(OperatorError, match="ENCODING 'UTF8'"):
            await engine.write(_asking("SELECT 1"))
        await engine.close()
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            raw.execute(f"DROP DATABASE {name}".encode())

    asyncio.run(story())


def test_transaction_is_repeated_after_a_deadlock(postgres_url: str) -> None:
    async def story() -> None:
        engine, other = await _table(postgres_url), Postgres(postgres_url, size=1)
        await engine.write(lambda db: [db.run(_INSERT, id=number) for number in (1, 2)])
        line = threading.Barrier(2)
        runs: list[int] = []

        def work(first: int, second: int) -> Callable[[Connection], None]:
            def inner(db: Connection) -> None:
                runs.append(first)
                db.run("UPDATE a SET text = text || 'x' WHERE id = :id", id=first)
                if len(runs) <= 2:
                    line.wait()
                db.run("UPDATE a SET text = text || 'x' WHERE id = :id", id=second)

            return inner

        await asyncio.gather(engine.write(work(1, 2)), other.write(work(2, 1)))
        # Who runs again may be quicker than who waits for the lock, and lose once more.
        assert len(runs) >= 3
        assert await engine.read(_asking("SELECT text FROM a WHERE id = 1")) == ("xx",)
        await engine.close()
        await other.close()

    asyncio.run(story())


def test_lost_prepared_statement_is_repeated_after_another_failure(
    postgres_url: str,
) -> None:
    """The first failure may be of another kind; each is run again on its own account."""
    runs: list[None] = []

    def work(db: Connection) -> int:
        runs.append(None)
        if len(runs) == 1:
            db.run("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
        if len(runs) == 2:
            # As a pooler does that gives the transaction another server connection.
            db.run("DEALLOCATE ALL")
        return db.run(_INSERT, id=2)

    async def story() -> None:
        engine = await _table(postgres_url, size=1)
        await engine.write(_insert(1))
        assert await _write(engine, work) == 1
        assert len(runs) == 3
        await engine.close()

    asyncio.run(story())


def test_lock_timeout_makes_the_database_unavailable(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url)
        with psycopg.connect(postgres_url) as raw:
            raw.execute(b"LOCK TABLE a")
            with pytest.raises(DatabaseUnavailable, match="lock timeout"):
                await engine.write(impatient)
        assert await engine.write(_insert(2)) == 1
        await engine.close()

    def impatient(db: Connection) -> int:
        db.send("SET LOCAL lock_timeout = 50")
        return db.run(_INSERT, id=1)

    asyncio.run(story())


def test_error_message_does_not_contain_values(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url)
        await engine.write(_insert(424242))
        with pytest.raises(ConstraintViolated, match="a_pkey") as caught:
            await engine.write(_insert(424242))
        assert "424242" not in str(caught.value)
        assert caught.value.__suppress_context__
        await engine.close()

    asyncio.run(story())


def test_scans_leave_a_connection_for_writes(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url, size=2)
        gate = threading.Event()
        reports = [asyncio.create_task(_scan(engine, gate)) for _ in range(136)]
        await asyncio.sleep(0)  # each is queued by its first step
        assert await asyncio.wait_for(_write(engine, _insert(1)), CEILING) == 1
        gate.set()
        answers = await asyncio.gather(*reports, return_exceptions=True)
        # 128 may wait, and one may have been begun before the others were asked for.
        assert sum(isinstance(answer, Overloaded) for answer in answers) in {7, 8}
        await engine.close()

    asyncio.run(story())


async def _scan(engine: Postgres, gate: threading.Event) -> object:
    return await engine.scan(lambda db: (gate.wait(), db.row("SELECT 1")))


def test_a_connection_that_was_cut_is_replaced_and_the_work_run_again(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url)
        engine.changed()
        for number in range(3):
            _cut(postgres_url)
            assert await engine.write(_insert(number)) == 1
            _cut(postgres_url)
            assert await engine.read(_asking("SELECT count(*) FROM a")) == (number + 1,)
        await engine.close()

    asyncio.run(story())


def _cut(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(
            b"SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
            b" WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_cached_plan_is_replaced_after_a_schema_change(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url, size=1)
        everything = _asking("SELECT * FROM a")
        for _ in range(10):
            assert await engine.read(everything) is None
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            raw.execute(b"ALTER TABLE a ADD COLUMN more TEXT")
        assert await engine.read(everything) is None
        await engine.close()

    asyncio.run(story())


def test_programming_error_is_raised_unchanged(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url)
        for door in (engine.read, engine.write):
            with pytest.raises(psycopg.ProgrammingError):
                await door(_asking("SELECT nothing FROM a"))
        assert await engine.write(_insert(1)) == 1
        await engine.close()

    asyncio.run(story())


def test_a_server_that_does_not_accept_writes_yet_is_unavailable() -> None:
    async def story(folder: Path) -> None:
        engine = Postgres(postgres.url(folder, "postgres"), size=1)
        with pytest.raises(DatabaseUnavailable, match="during recovery"):
            await engine.write(_insert(1))
        postgres.promote(folder / "data")
        assert await engine.write(_insert(1)) == 1
        await engine.close()

    with postgres.own_server() as primary:
        with psycopg.connect(postgres.url(primary, "postgres"), autocommit=True) as raw:
            raw.execute(_TABLE)
        with postgres.standby(primary, "second") as folder:
            asyncio.run(story(folder))


def test_restarted_server_is_used_again(own_postgres: Path) -> None:
    async def story() -> None:
        engine = await _table(postgres.url(own_postgres, "postgres"))
        before = engine.changed()
        assert await engine.write(_insert(1)) == 1
        postgres.stop(own_postgres / "data")
        for door in (engine.read, engine.scan, engine.write, engine.change_schema):
            with pytest.raises(DatabaseUnavailable):
                await door(_asking("SELECT 1"))
        postgres.start(own_postgres / "data", own_postgres)
        assert await engine.write(_insert(2)) == 1
        assert await engine.read(_asking("SELECT count(*) FROM a")) == (2,)
        # What changed while it was away cannot be known: caches have to look.
        assert engine.changed() != before
        await engine.close()

    asyncio.run(story())


def test_refused_connection_leaves_work_to_open_ones(postgres_url: str) -> None:
    """As while a password changes, or when the server has no connection left."""

    async def story(url: str) -> None:
        engine = Postgres(url, size=4)
        doors = (engine.read, engine.write, engine.scan, engine.read_one)
        assert await engine.read(_asking("SELECT 1")) == (1,)
        for _ in range(20):
            calls = [door(_asking(_CONNECTIONS)) for door in doors for _ in range(8)]
            assert set(await asyncio.gather(*calls)) == {(1,)}
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            raw.execute(b"ALTER ROLE narrow CONNECTION LIMIT 4")

        async def grew() -> bool:
            answers = await asyncio.gather(*(door(_asking(_CONNECTIONS)) for door in doors))
            return answers[0] != (1,)

        await until_found(grew)
        await asyncio.to_thread(_cut, postgres_url)
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            raw.execute(b"ALTER ROLE narrow CONNECTION LIMIT 0")
        with pytest.raises(DatabaseUnavailable, match="too many connections"):
            await engine.read(_asking("SELECT 1"))
        await engine.close()

    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute(b"CREATE ROLE narrow LOGIN CONNECTION LIMIT 1")
    asyncio.run(story(postgres_url.replace(f"{postgres.USER}@", "narrow@")))
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute(b"DROP ROLE narrow")


_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'narrow'"


def test_a_server_that_dies_loses_nothing_it_acknowledged(own_postgres: Path) -> None:
    async def story() -> None:
        engine = await _table(postgres.url(own_postgres, "postgres"), size=4)
        done: list[int] = []

        async def writer(first: int) -> None:
            for number in range(first, first + 100_000):
                await engine.write(_insert(number))
                done.append(number)

        writers = [asyncio.create_task(writer(number * 100_000)) for number in range(32)]
        await until(lambda: len(done) > 100)
        await asyncio.to_thread(postgres.stop, own_postgres / "data")
        answers = await asyncio.gather(*writers, return_exceptions=True)
        assert {type(answer) for answer in answers} == {DatabaseUnavailable}
        postgres.start(own_postgres / "data", own_postgres)
        rows = await engine.scan(lambda db: db.rows("SELECT id FROM a"))
        assert set(done) <= {row[0] for row in rows}
        await engine.close()

    asyncio.run(story())


def test_commit_with_unknown_outcome_is_not_retried(postgres_url: str) -> None:
    """The connection is lost between COMMIT and its answer: the rows are there, and only once."""
    runs: list[str] = []

    def work(db: Connection) -> None:
        runs.append("run")
        db.run("INSERT INTO a (id) SELECT count(*) FROM a")

    async def story(url: str) -> None:
        await (await _table(postgres_url)).close()
        engine = Postgres(url, size=1)
        with pytest.raises(DatabaseUnavailable, match="may be done or not"):
            await engine.write(work)
        # These share transactions, and every one of them hears the same.
        many = (_write(engine, work) for _ in range(9))
        for answer in await asyncio.gather(*many, return_exceptions=True):
            assert "may be done or not" in str(answer)
        await engine.close()
        direct = Postgres(postgres_url, size=1)
        assert await direct.read(_asking("SELECT count(*) FROM a")) == (len(runs),)
        assert len(runs) == 10
        await direct.close()

    with cutting_at_commit(postgres_url) as url:
        asyncio.run(story(url))


@pytest.mark.parametrize("told", ["by a later statement", "by the commit"])
def test_failed_pipeline_does_not_break_later_prepared_statements(
    postgres_url: str, told: str
) -> None:
    def spoilt(db: Connection) -> None:
        # What follows a complaint in the pipeline is never prepared, whatever psycopg believes.
        db.send(_INSERT, id=1)
        db.send("UPDATE a SET text = :text", text="spoilt")

    def sound(db: Connection) -> None:
        db.send("UPDATE a SET text = :text", text="sound")
        if told == "by a later statement":
            db.row("SELECT text FROM a")

    async def story() -> None:
        engine = await _table(postgres_url, size=1)
        await _write(engine, _insert(1))
        for _ in range(12):
            with pytest.raises(ConstraintViolated):
                await _write(engine, spoilt)
            await _write(engine, sound)
            assert await engine.read(_asking("SELECT text FROM a")) == ("sound",)
        await engine.close()

    asyncio.run(story())
