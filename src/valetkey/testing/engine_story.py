"""Tables, steps and the second process of the engine conformance tests.

`python -m valetkey.testing.engine_story spend URL` says `ready`, waits for a line, then goes.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen
from types import MappingProxyType
from typing import Any, TypeVar

from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate

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


SCHEMA = "valetkey.authorization.storage.schema"
_AT_ONCE = 8


@contextmanager
def other_process(job: str, url: str) -> Generator[Popen[str]]:
    """Start a process that waits for the order to do `job`; kill it if it does not end."""
    command = (sys.executable, "-m", "valetkey.testing.engine_story", job, url)
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:  # noqa: S603 - ourselves
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise AssertionError(f"the process that was to {job} did not come up")
            yield process
        finally:
            process.kill()


def order(process: Popen[str]) -> None:
    """Tell the process to begin."""
    if process.stdin is not None:
        process.stdin.write("go\n")
        process.stdin.flush()


async def _spend(engine: Engine) -> None:
    """Try to redeem each voucher eight times concurrently; print those redeemed."""
    for voucher in range(VOUCHERS):
        asks = (engine.write(spend(voucher, str(name))) for name in range(_AT_ONCE))
        for won in await asyncio.gather(*asks):
            if won:
                _say(voucher)


async def _write(engine: Engine) -> None:
    """Write until killed; print the number of each acknowledged note."""
    numbers = count()

    async def one() -> None:
        for number in numbers:
            await engine.write(adding(number))
            _say(number)

    await asyncio.gather(*(one() for _ in range(_AT_ONCE)))


async def _migrate(engine: Engine) -> None:
    await migrate(engine, SCHEMA)


async def _revise(engine: Engine) -> None:
    await engine.write(lambda db: db.run("UPDATE revision SET number = number + 1"))


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


JOBS: Mapping[str, Callable[[Engine], Coroutine[Any, Any, None]]] = MappingProxyType(
    {"spend": _spend, "write": _write, "migrate": _migrate, "revise": _revise}
)
"""The jobs that the other process can do."""


async def _main(job: str, url: str) -> None:
    _say("ready")
    sys.stdin.readline()
    engine = connect(url, directory=Path.cwd())
    await JOBS[job](engine)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
