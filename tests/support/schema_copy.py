"""Create all tables of an empty database at once, instead of by one migration after another.

The result is the same: the statements are read from a database that was migrated for real, once
per process on SQLite and once per run on PostgreSQL. Only databases of this process: commands and
servers that tests start apply the migrations themselves, as do tests of migrations.
"""

import asyncio
import fcntl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support import postgres
from valetkey.database import migrate
from valetkey.database.connect import connect
from valetkey.database.engine import Connection
from valetkey.database.postgres_connection import PostgresConnection
from valetkey.database.sqlite_connection import SQLiteConnection
from valetkey.database.statement import split

PACKAGES = frozenset({"valetkey.authorization.storage.schema", "valetkey.resource.storage.schema"})

migrated = migrate.apply_missing
"""How a server applies migrations."""
_known: dict[tuple[type, str], Sequence[str]] = {}


def use() -> None:
    """Copy tables from now on."""
    migrate.apply_missing = _apply


def _apply(db: Connection, package: str) -> None:
    if package not in PACKAGES or not _is_empty(db):
        migrated(db, package)
    elif isinstance(db, SQLiteConnection) and (SQLiteConnection, package) not in _known:
        migrated(db, package)
        _known[SQLiteConnection, package] = _statements_of(db)
    else:
        for statement in _statements(type(db), package):
            db.send(statement)


def _is_empty(db: Connection) -> bool:
    if isinstance(db, SQLiteConnection):
        return not db.rows("SELECT 1 FROM sqlite_master LIMIT 1")
    sql = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() LIMIT 1"
    return db.row("SELECT current_schema()") == ("public",) and not db.rows(sql)


def _statements(kind: type, package: str) -> Sequence[str]:
    if (kind, package) not in _known:
        assert kind is PostgresConnection, kind
        _known[kind, package] = _statements_of_postgresql(package)
    return _known[kind, package]


def _statements_of(db: Connection) -> Sequence[str]:
    """Return what makes the tables of a SQLite database and the rows in them."""
    made = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    objects = db.rows(made)
    statements = [str(sql) for _, _, sql in objects]
    for table in (str(name) for kind, name, _ in objects if kind == "table"):
        rows = db.rows(f"SELECT * FROM {table}")
        values = (", ".join(map(_literal, row)) for row in rows)
        statements += [f"INSERT INTO {table} VALUES ({each})" for each in values]
    return statements


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _statements_of_postgresql(package: str) -> Sequence[str]:
    folder = postgres.server()
    file = folder / f"{package}.sql"
    with (folder / "schema-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with postgres.database() as url:
                # In another thread: this one may belong to an engine, or run an event loop.
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, _migrate(url, package)).result()
                postgres.dump(url, file)
    lines = file.read_text().splitlines()
    # What pg_dump sets for its own session, and commands of psql.
    left_out = ("SET ", "SELECT pg_catalog.set_config", "\\")
    return split("\n".join(line for line in lines if not line.startswith(left_out)))


async def _migrate(url: str, package: str) -> None:
    engine = connect(url, directory=Path("/"))
    await engine.change_schema(lambda db: migrated(db, package))
    await engine.close()
