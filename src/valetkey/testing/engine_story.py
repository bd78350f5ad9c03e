"""Tables, steps and checks of the engine conformance tests."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine

T = TypeVar("T")
Work = Callable[[Connection], object]
Runner = Callable[[Work], Awaitable[object]]

VOUCHERS = 40
TABLES = (
    "CREATE TABLE vouchers (id BIGINT PRIMARY KEY, spent_by TEXT)",
    "CREATE TABLE notes (id BIGINT PRIMARY KEY, text TEXT NOT NULL, number BIGINT)",
    "CREATE TABLE revision (name TEXT PRIMARY KEY, number BIGINT NOT NULL)",
    "INSERT INTO revision (name, number) VALUES ('directory', 0)",
)


def check(fact: bool, otherwise: str) -> None:
    """Fail the test unless `fact` is true."""
    if not fact:
        raise AssertionError(otherwise)


def same(one: object, other: object) -> None:
    """Fail the test unless the two are equal."""
    check(one == other, f"{one!r} is not {other!r}")


async def raises(kind: type[Exception], runner: Runner, work: Work) -> None:
    """Fail the test unless `work`, sent through `runner`, ends in an exception of this kind."""
    try:
        answer = await runner(work)
    except kind:
        return
    raise AssertionError(f"{answer!r} instead of {kind.__name__}")


@contextmanager
def opened(url: str, *, tables: Sequence[str] = ()) -> Generator[Engine]:
    """Open an engine on `url`, with `tables` if any; close it afterwards."""
    engine = connect(url, directory=Path.cwd())
    try:
        asyncio.run(_make(engine, tables))
        yield engine
    finally:
        asyncio.run(engine.close())


def run_on_engine(
    url: str, story: Callable[[Engine], Awaitable[None]], *, tables: Sequence[str] = TABLES
) -> None:
    """Run `story` on an engine, and on one event loop from start to close."""

    async def run_story() -> None:
        engine = connect(url, directory=Path.cwd())
        try:
            await _make(engine, tables)
            await story(engine)
        finally:
            await engine.close()

    asyncio.run(run_story())


def runners(engine: Engine) -> tuple[Runner, ...]:
    """Return every way to run a transaction."""
    return (engine.read, engine.scan, engine.write, engine.change_schema)


async def read(engine: Engine, work: Callable[[Connection], T]) -> T:
    """`engine.read` as a coroutine function."""
    return await engine.read(work)


async def write(engine: Engine, work: Callable[[Connection], T]) -> T:
    """`engine.write` as a coroutine function."""
    return await engine.write(work)


async def scan(engine: Engine, work: Callable[[Connection], T]) -> T:
    """`engine.scan` as a coroutine function."""
    return await engine.scan(work)


def elsewhere(step: Callable[[], Awaitable[object]]) -> None:
    """Wait for `step` on another thread, with an event loop of its own."""

    async def awaited() -> None:
        await step()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, awaited()).result()


def select_one(db: Connection) -> object:
    """Run the smallest possible transaction."""
    return db.row("SELECT 1")


def add(db: Connection, number: int, text: str = "a note", value: int | None = None) -> int:
    """Add one note."""
    insert = "INSERT INTO notes (id, text, number) VALUES (:id, :text, :number)"
    return db.run(insert, id=number, text=text, number=value)


def adding(number: int) -> Callable[[Connection], int]:
    """Return a transaction that adds one note."""
    return lambda db: add(db, number)


def opening(runner: Runner) -> Work:
    """Return a transaction that tries to begin another one."""
    return lambda _: runner(select_one)


async def notes(engine: Engine) -> int:
    """Return the number of notes."""
    row = await engine.read(lambda db: db.row("SELECT count(*) FROM notes"))
    return int(row[0]) if row else -1


async def fill(engine: Engine) -> None:
    """Insert unspent vouchers, numbered from 0."""

    def work(db: Connection) -> None:
        for number in range(VOUCHERS):
            db.send("INSERT INTO vouchers (id) VALUES (:id)", id=number)

    await engine.write(work)


def spend(voucher: int, name: str) -> Callable[[Connection], bool]:
    """Return a transaction that redeems a voucher; exactly one concurrent caller gets True."""
    statement = "UPDATE vouchers SET spent_by = :name WHERE id = :id AND spent_by IS NULL"
    return lambda db: db.run(statement, id=voucher, name=name) == 1


async def _make(engine: Engine, tables: Sequence[str]) -> None:
    if tables:
        await engine.change_schema(lambda db: [db.run(table) for table in tables])
