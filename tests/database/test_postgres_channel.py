"""PostgreSQL's statements: prepared, pipelined, given up, and sent through a pooling proxy."""

import asyncio
from collections.abc import Callable

import psycopg
import pytest

from tests.support.pgbouncer import pooling_transactions
from valetkey.database.engine import Connection, DatabaseUnavailable, Row, Timeouts
from valetkey.database.postgres import Postgres
from valetkey.database.postgres_connection import open_channel, parse_url
from valetkey.kernel.refusal import OperatorError

_TIMEOUTS = Timeouts()
_TABLE = "CREATE TABLE a (id BIGINT PRIMARY KEY, text TEXT NOT NULL DEFAULT '')"
_INSERT = "INSERT INTO a (id) VALUES (:id)"


def _asking(sql: str) -> Callable[[Connection], Row | None]:
    return lambda db: db.row(sql)


def _insert_and_count(number: int) -> Callable[[Connection], object]:
    def work(db: Connection) -> object:
        db.send(_INSERT, id=number)
        db.run("UPDATE a SET text = :text WHERE id = :id", id=number, text=f"row {number}")
        row = db.row("SELECT text FROM a WHERE id = :id", id=number)
        return row and row[0]

    return work


def test_proxy_that_pools_transactions_is_served_without_prepared_statements(
    postgres_url: str,
) -> None:
    """Each transaction meets another server connection, and most meet several clients' names."""

    async def story(url: str) -> None:
        engine = Postgres(url, size=6)
        await engine.change_schema(lambda db: db.run(_TABLE))
        for start in range(0, 300, 30):
            numbers = range(start, start + 30)
            answers = await asyncio.gather(
                *(engine.write(_insert_and_count(number)) for number in numbers),
                *(engine.read(_asking("SELECT count(*) FROM a")) for _ in range(10)),
                *(engine.row("SELECT text FROM a WHERE id = :id", id=start - 1) for _ in range(10)),
            )
            assert answers[:30] == [f"row {number}" for number in numbers]
            assert answers[-1] == ((f"row {start - 1}",) if start else None)
        assert await engine.read(_asking("SELECT count(*) FROM a")) == (300,)
        for door in (engine.write, engine.read):
            assert await door(_asking("SHOW statement_timeout")) == ("5s",)
        await engine.close()

    with pooling_transactions(postgres_url) as url:
        asyncio.run(story(url))


def test_other_clients_of_a_pooler_inherit_no_settings(postgres_url: str) -> None:
    async def story(url: str) -> None:
        engine = Postgres(url, size=2)
        await engine.read(_asking("SELECT 1"))
        await engine.write(_asking("SELECT 1"))
        await engine.row("SELECT 1")
        engine.changed()
        await engine.close()

    with pooling_transactions(postgres_url, connections=1) as url:
        asyncio.run(story(url))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("CREATE TABLE other (id BIGINT)")
            row = other.execute("SHOW statement_timeout").fetchone()
    assert row == ("0",)


def test_statements_are_prepared_once_and_the_oldest_is_deallocated(postgres_url: str) -> None:
    channel = open_channel(parse_url(postgres_url, _TIMEOUTS), _TIMEOUTS)
    count = b"SELECT count(*) FROM pg_prepared_statements"
    for number in range(1_200):
        channel.send(b"SELECT %d" % (number % 600))
        assert channel.rows(channel.finish()) == [(number % 600,)]
    channel.send(count)
    assert channel.rows(channel.finish())[0][0] <= 501
    for _ in range(3):
        channel.send(b"SELECT $1::bigint + 1, $2 || '!'", (41, "é"))
        assert channel.rows(channel.finish()) == [(42, "é!")]
        channel.send(b"SELECT $1::bigint, $2", (None, None))
        assert channel.rows(channel.finish()) == [(None, None)]
    channel.close()


def test_failed_statement_leaves_the_connection_usable(postgres_url: str) -> None:
    channel = open_channel(parse_url(postgres_url, _TIMEOUTS), _TIMEOUTS)
    for _ in range(3):
        channel.send(b"BEGIN READ WRITE")
        channel.send(b"SELECT 1 / $1", (0,))
        # Parsed after the failure, so never: the name must not count as prepared.
        channel.send(b"SELECT 'after' || $1", ("wards",))
        with pytest.raises(psycopg.errors.DivisionByZero):
            channel.result()
        assert channel.recover()
        channel.send(b"SELECT 'after' || $1", ("wards",))
        assert channel.rows(channel.finish()) == [("afterwards",)]
    channel.close()


def test_large_values_are_sent_and_received_without_deadlock(postgres_url: str) -> None:
    """More than the sockets hold: neither side may wait for the other to read first."""
    channel = open_channel(parse_url(postgres_url, _TIMEOUTS), _TIMEOUTS)
    text = "ä" * 8_000_000
    for _ in range(3):
        channel.send(b"SELECT $1", (text,))
    assert channel.rows(channel.finish()) == [(text,)]
    channel.close()


def test_connection_to_an_unresponsive_server_is_abandoned(postgres_url: str) -> None:
    """The caller is told in time, though the server's own time limit never comes."""
    channel = open_channel(parse_url(postgres_url, _TIMEOUTS), _TIMEOUTS)
    channel.limit(0.05)
    channel.send(b"SELECT pg_sleep(4)")
    with pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.05 s"):
        channel.result()
    assert not channel.recover()
    channel.close()


def test_connection_lost_at_any_statement_is_an_error_and_nothing_is_written(
    postgres_url: str,
) -> None:
    async def story() -> None:
        engine = Postgres(postgres_url, size=1)
        await engine.change_schema(lambda db: db.run(_TABLE))
        for lost_at in range(3):
            attempts: list[int] = []

            def work(db: Connection, lost_at: int = lost_at, seen: list[int] = attempts) -> None:
                seen.append(lost_at)
                for step in range(3):
                    if step == lost_at:
                        _cut(postgres_url)
                    db.send(_INSERT, id=step)
                    db.row("SELECT 1")

            with pytest.raises(DatabaseUnavailable):
                await engine.write(work)
            # Once more, in case the connection had only been idle for too long.
            assert len(attempts) == 2
            assert await engine.read(_asking("SELECT count(*) FROM a")) == (0,)
        await engine.close()

    asyncio.run(story())


def _cut(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(
            b"SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
            b" WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_url_may_contain_libpq_parameters(postgres_url: str) -> None:
    async def story() -> None:
        engine = Postgres(f"{postgres_url}&application_name=ours", size=1)
        assert await engine.read(_asking("SHOW application_name")) == ("ours",)
        await engine.close()

    asyncio.run(story())


def test_backup_of_postgresql_refers_to_pg_dump(postgres_url: str) -> None:
    async def story() -> None:
        engine = Postgres(postgres_url, size=1)
        with pytest.raises(OperatorError, match=r"pg_dump --format=custom --file=copy\.dump"):
            await engine.backup("copy.dump")
        await engine.close()

    asyncio.run(story())


def test_read_that_failed_unnoticed_leaves_no_failed_transaction(postgres_url: str) -> None:
    """Its end is not awaited, and its ROLLBACK is skipped with everything after the failure."""

    def forget(db: Connection) -> None:
        row = db.row(
            "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT set_config%'"
        )
        assert row is not None
        db.run(f"DEALLOCATE {row[0]}")

    async def story() -> None:
        engine = Postgres(postgres_url, size=1)
        await engine.scan(_asking("SELECT 1"))
        await engine.write(forget)
        await engine.scan(bool)
        assert await engine.write(_asking("SELECT 2")) == (2,)
        assert await engine.scan(_asking("SELECT 3")) == (3,)
        await engine.close()

    asyncio.run(story())
