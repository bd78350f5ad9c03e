"""Copy the tables of an empty database instead of making them by one migration after another.

The result is the same: what is copied was migrated for real, once per process on SQLite and once
per run on PostgreSQL, where a database is copied as a whole. Only databases of this process:
commands and servers that tests start apply the migrations themselves, as do tests of migrations.
"""

import asyncio
import fcntl
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import apsw
import psycopg

from tests.support import postgres
from valetkey.database import migrate
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine
from valetkey.database.postgres import Postgres
from valetkey.database.sqlite import SQLite
from valetkey.database.sqlite_connection import SQLiteConnection

PACKAGES = frozenset({"valetkey.authorization.storage.schema", "valetkey.resource.storage.schema"})

migrated = migrate.apply_missing
"""How a server applies migrations."""
_migrate = migrate.migrate
_read = migrate.find
_known: dict[str, Sequence[str]] = {}
_copying = threading.Lock()
"""The migrated database in memory is read by one thread at a time."""
_IS_EMPTY = (
    b"SELECT NOT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = 'public') AND NOT EXISTS ("
    b"SELECT 1 FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase"
    b" WHERE datname = current_database())"
)
"""Whether it has neither tables nor settings of its own."""


def use() -> None:
    """Copy tables from now on."""
    migrate.apply_missing = _apply
    migrate.migrate = _copy_or_migrate
    migrate.find = _find


def _apply(db: Connection, package: str) -> None:
    is_empty = isinstance(db, SQLiteConnection) and not db.rows("SELECT 1 FROM sqlite_master")
    if package not in PACKAGES or not is_empty:
        migrated(db, package)
    elif package in _known:
        for statement in _known[package]:
            db.send(statement)
    else:
        migrated(db, package)
        _known[package] = _statements_of(db)


def _statements_of(db: Connection) -> Sequence[str]:
    """Return what makes the tables of a SQLite database and the rows in them."""
    made = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    objects = db.rows(made)
    statements = [str(sql) for _, _, sql in objects]
    for table in (str(name) for kind, name, _ in objects if kind == "table"):
        rows = db.rows(f"SELECT * FROM {table}")
        values = (", ".join(map(_literal, row)) for row in rows)
        statements += [f"INSERT INTO {table} VALUES ({literals})" for literals in values]
    return statements


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _find(package: str) -> tuple[migrate.Migration, ...]:
    return _found(package) if package in PACKAGES else _read(package)


@cache
def _found(package: str) -> tuple[migrate.Migration, ...]:
    return _read(package)


async def _copy_or_migrate(engine: Engine, package: str) -> None:
    if package in PACKAGES and migrate.apply_missing is _apply and isinstance(engine, Postgres):
        await asyncio.to_thread(_replace_if_empty, engine._pool._parameters, package)
    elif package in _known and migrate.apply_missing is _apply and isinstance(engine, SQLite):
        _fill_if_empty(engine._path, package)
    await _migrate(engine, package)


def _fill_if_empty(path: Path, package: str) -> None:
    """Copy the pages of a migrated database, in a fraction of the time of its statements."""
    with closing(apsw.Connection(str(path))) as raw:
        if not raw.execute("SELECT 1 FROM sqlite_master").fetchall():
            # Another process may be writing, whose migration is then the one that counts.
            with (
                _copying,
                suppress(apsw.BusyError),
                raw.backup("main", _made(package), "main") as copy,
            ):
                copy.step()


@cache
def _made(package: str) -> apsw.Connection:
    """Return a migrated database in memory."""
    made = apsw.Connection(":memory:")
    for statement in _known[package]:
        made.execute(statement)
    return made


def _replace_if_empty(parameters: Mapping[str, str], package: str) -> None:
    """Put a copy of the migrated database in place of an empty one that nobody uses."""
    server_parameters = {"host": str(postgres.run_folder()), "user": postgres.USER}
    if "options" in parameters or {**parameters, **server_parameters} != parameters:
        return
    name, folder = parameters["dbname"], postgres.server()
    # Of several that migrate one database at once, one copies.
    with (folder / "template-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with psycopg.connect(postgres.url(folder, name)) as raw:
            if raw.execute(_IS_EMPTY).fetchone() != (True,):
                return
        template = _template(folder, package)
        try:
            postgres.set_aside(name)
        except psycopg.errors.ObjectInUse:
            return
        postgres.create_database(name, template)


def _template(folder: Path, package: str) -> str:
    """Return the name of a migrated database, which the first who asks makes."""
    name = package.replace(".", "_")
    if not (folder / name).exists():
        postgres.create_database(name, "template0")
        asyncio.run(_make(postgres.url(folder, name), package))
        (folder / name).touch()
    return name


async def _make(url: str, package: str) -> None:
    engine = connect(url, directory=Path("/"))
    await _migrate(engine, package)
    await engine.close()
