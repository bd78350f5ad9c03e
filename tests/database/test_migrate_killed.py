"""kill -9 at any step of a migration from the oldest tables leaves them as they were."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine, split
from valetkey.database.migrate import Migration, find, migrate, pending

T = TypeVar("T")

_PACKAGES = ("valetkey.authorization.storage.schema", "valetkey.resource.storage.schema")

# Each fork migrates and kills itself before one of the statements; the last one gets to the end.
_DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from valetkey.database import migrate
from valetkey.database.connect import connect

url, package, *steps = sys.argv[1:]

def dying(step):
    apply, left = migrate._apply, [int(step)]

    def counted(db, package, migration):
        class Counting:
            def send(self, sql, /, **params):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                # Not `send`: the server has done it when the next one is reached.
                db.run(sql, **params)
        apply(Counting(), package, migration)

    migrate._apply = counted

async def main():
    engine = connect(url, directory=Path("/"))
    await migrate.migrate(engine, package)
    await engine.close()

for step in steps:
    child = os.fork()
    if child == 0:
        dying(step)
        asyncio.run(main())
        os._exit(0)
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        sys.exit("it was not killed")
"""


async def _with(url: str, work: Callable[[Engine], Awaitable[T]]) -> T:
    engine = connect(url, directory=Path("/"))
    try:
        return await work(engine)
    finally:
        await engine.close()


async def _make_oldest(url: str, package: str, first: Migration) -> None:
    """The tables as the first version made them."""

    def work(db: Connection) -> None:
        db.run(
            "CREATE TABLE migrations (number BIGINT PRIMARY KEY, package TEXT NOT NULL,"
            " name TEXT NOT NULL, hash TEXT NOT NULL)"
        )
        for statement in split(first.script):
            db.run(statement)
        db.run(
            "INSERT INTO migrations (number, package, name, hash) VALUES (1, :of, :name, :hash)",
            of=package,
            name=first.name,
            hash=first.hash,
        )

    await _with(url, lambda engine: engine.change_schema(work))


@pytest.mark.parametrize("package", _PACKAGES)
def test_oldest_tables_survive_a_kill_at_every_step_and_become_todays(
    database_url: str, package: str
) -> None:
    migrations = find(package)
    steps = sum(len(split(migration.script)) + 1 for migration in migrations[1:])
    asyncio.run(_make_oldest(database_url, package, migrations[0]))
    # All migrations are one transaction: before its first statement and its last, and between two
    # migrations or in the middle of one for every eighth.
    chosen: list[int] = [0]
    done = 0
    for number, migration in enumerate(migrations[1:]):
        count = len(split(migration.script)) + 1
        if number % 8 == 1:
            chosen.append(done + count // 2 * (number // 8 % 2))
        done += count
    every = range(steps) if os.environ.get("VALETKEY_EVERY_STEP") else chosen
    chosen = sorted({*every, steps - 1})
    command = [sys.executable, "-P", "-c", _DYING, database_url, package, *map(str, chosen)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    missing = asyncio.run(_with(database_url, lambda engine: pending(engine, package)))
    assert missing == migrations[1:]
    asyncio.run(_with(database_url, lambda engine: migrate(engine, package)))
    assert asyncio.run(_with(database_url, lambda engine: pending(engine, package))) == ()
