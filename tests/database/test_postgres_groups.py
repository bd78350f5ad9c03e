"""PostgreSQL: transactions that share a commit, and those that wait for no other."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg
import pytest

from tests.support.wait import CEILING, wait_until
from valetkey.database import postgres_pool
from valetkey.database.engine import Connection, Row
from valetkey.database.postgres import Postgres

T = TypeVar("T")

_TABLE = "CREATE TABLE a (id BIGINT PRIMARY KEY, text TEXT NOT NULL DEFAULT '')"
_INSERT = "INSERT INTO a (id) VALUES (:id)"
_TRANSACTION = "SELECT txid_current()"
_BACKEND = "SELECT pg_backend_pid()"


async def _write(engine: Postgres, work: Callable[[Connection], T]) -> T:
    return await engine.write(work)


def _asking(sql: str) -> Callable[[Connection], Row | None]:
    return lambda db: db.row(sql)


async def _table(url: str, *, size: int) -> Postgres:
    engine = Postgres(url, size=size)
    await engine.change_schema(lambda db: db.run(_TABLE))
    return engine


def _holding(gate: threading.Event, begun: threading.Semaphore) -> Callable[[Connection], object]:
    """Work that says that it has begun, and then keeps its connection until `gate` is set."""

    def work(_: Connection) -> None:
        begun.release()
        gate.wait()

    return work


def test_more_works_than_connections_share_transactions(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url, size=1)
        gate, begun = threading.Event(), threading.Semaphore(0)
        held = asyncio.create_task(_write(engine, _holding(gate, begun)))
        await asyncio.to_thread(begun.acquire)

        def work(number: int) -> Callable[[Connection], object]:
            def inner(db: Connection) -> object:
                if number == 7:
                    raise LookupError
                db.run(_INSERT, id=number)
                row = db.row(_TRANSACTION)
                return row and row[0]

            return inner

        many = [asyncio.create_task(_write(engine, work(number))) for number in range(20)]
        await asyncio.sleep(0)  # each is queued by its first step
        gate.set()
        await held
        answers = await asyncio.gather(*many, return_exceptions=True)
        assert isinstance(answers.pop(7), LookupError)
        assert len(set(answers)) < 8
        assert await engine.read(_asking("SELECT count(*) FROM a")) == (19,)
        await engine.close()

    asyncio.run(story())


def test_a_group_undone_after_a_new_revision_counts_as_failed(postgres_url: str) -> None:
    def touches(db: Connection) -> None:
        db.send("UPDATE revision SET number = number + 1")

    def fails(db: Connection) -> None:
        db.run(_INSERT, id=1)
        raise LookupError

    async def story() -> None:
        engine = await _table(postgres_url, size=1)
        await engine.change_schema(lambda db: db.run("CREATE TABLE revision (number BIGINT)"))
        gate, begun = threading.Event(), threading.Semaphore(0)
        held = asyncio.create_task(_write(engine, _holding(gate, begun)))
        await asyncio.to_thread(begun.acquire)
        many = [asyncio.create_task(_write(engine, work)) for work in (touches, fails)]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(held, *many, return_exceptions=True)
        # Others may have kept what they read of the change that was undone.
        assert engine.failures() == 1
        await engine.close()

    asyncio.run(story())


def test_transaction_does_not_wait_for_one_that_takes_long(postgres_url: str) -> None:
    async def story() -> None:
        engine = await _table(postgres_url, size=2)
        gate, begun = threading.Event(), threading.Semaphore(0)
        held = asyncio.create_task(_write(engine, _holding(gate, begun)))
        await asyncio.to_thread(begun.acquire)
        assert await engine.write(lambda db: db.run(_INSERT, id=1)) == 1
        assert not held.done()
        gate.set()
        await held
        await engine.close()

    asyncio.run(story())


def test_groups_that_deadlock_are_run_one_by_one(postgres_url: str) -> None:
    """A deadlock would last a second before the server sees it; a group gives up long before."""

    async def story() -> None:
        engine = await _table(postgres_url, size=1)
        await engine.write(lambda db: [db.run(_INSERT, id=number) for number in (1, 2)])
        engines = (engine, Postgres(postgres_url, size=1))
        gate, begun = threading.Event(), threading.Semaphore(0)
        held = [asyncio.create_task(_write(writer, _holding(gate, begun))) for writer in engines]
        for _ in held:
            await asyncio.to_thread(begun.acquire)

        def work(number: int) -> Callable[[Connection], None]:
            def inner(db: Connection) -> None:
                db.run("UPDATE a SET text = text || 'x' WHERE id = :id", id=number)
                time.sleep(0.02)  # long enough for the groups to overlap

            return inner

        orders = ((1, 1, 2, 2), (2, 1, 1, 1))
        many = [
            asyncio.create_task(_write(writer, work(number)))
            for writer, order in zip(engines, orders, strict=True)
            for number in order
        ]
        await asyncio.sleep(0)  # each is queued by its first step
        gate.set()
        await asyncio.gather(*held, *many)
        assert await engine.read(_asking("SELECT text FROM a WHERE id = 1")) == ("xxxxx",)
        assert await engine.read(_asking("SELECT text FROM a WHERE id = 2")) == ("xxx",)
        for writer in engines:
            await writer.close()
        deadlocks = b"SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            assert raw.execute(deadlocks).fetchone() == (0,)

    asyncio.run(story())


def _others(url: str) -> int:
    """How many connections the database has, without the one that asks."""
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_unused_connections_are_closed_and_opened_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "_UNUSED_FOR", 0.3)
    gate, begun = threading.Event(), threading.Semaphore(0)

    async def story() -> None:
        engine = await _table(postgres_url, size=4)
        for _ in range(2):
            gate.clear()
            held = [asyncio.create_task(engine.scan(_holding(gate, begun))) for _ in range(2)]
            held += [asyncio.create_task(engine.read(_holding(gate, begun)))]
            for _ in range(3):
                assert await asyncio.to_thread(begun.acquire, timeout=CEILING)
            assert _others(postgres_url) >= 3
            gate.set()
            await asyncio.gather(*held)
            await asyncio.to_thread(wait_until, lambda: _others(postgres_url) == 0)
        # One that is used stays, and the others do not take turns with it.
        await asyncio.gather(*(engine.scan(_asking(_BACKEND)) for _ in range(2)))
        async with asyncio.timeout(CEILING):
            while await asyncio.to_thread(_others, postgres_url) != 1:
                for _ in range(5):
                    await engine.read(_asking(_BACKEND))
        await engine.close()

    asyncio.run(story())
