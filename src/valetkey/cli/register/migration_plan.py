"""The plan of a migration: its statements, their locks and an estimate of the time."""

import re
from collections.abc import Iterator
from math import ceil

from msgspec import Struct

from valetkey.cli.register.store import SCHEMAS, open_database
from valetkey.config.paths import database_file
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import Connection
from valetkey.database.migrate import pending
from valetkey.database.statement import split

_BYTES_A_SECOND = 20 * (1 << 20)
"""Rate at which a slow disk reads or writes the tables of a statement."""

_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_LOCKS = (
    (re.compile(r"CREATE TABLE\b", re.IGNORECASE), "none on tables in use", False),
    (re.compile(r"CREATE (UNIQUE )?INDEX\b", re.IGNORECASE), "SHARE: writes wait", True),
    (re.compile(r"ALTER TABLE\b.*\bADD\b", re.IGNORECASE), "ACCESS EXCLUSIVE: all wait", False),
    (re.compile(r"(ALTER|DROP)\b", re.IGNORECASE), "ACCESS EXCLUSIVE: all wait", False),
    (re.compile(r"(INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE), "of the rows that change", True),
)


class Step(Struct, frozen=True):
    """One statement: its migration, its text on one line, its lock, whether it reads a table."""

    migration: str
    statement: str
    lock: str
    reads_table: bool


class MigrationPlan(Struct, frozen=True):
    """The statements that migrate one server's tables, all in one transaction.

    `seconds` is an upper bound for a database of so many bytes on a slow disk.
    """

    server: str
    steps: tuple[Step, ...]
    bytes: int
    seconds: int


async def plan(settings: Settings, name: str, server: ServerSettings) -> MigrationPlan:
    """Find the missing migrations; changes nothing. Raises OperatorError for a newer database."""
    engine = open_database(settings, server)
    try:
        migrations = await pending(engine, SCHEMAS[name])
        file = database_file(settings, server)
        size = file.stat().st_size if file else await engine.scan(_size)
    finally:
        await engine.close()
    steps = tuple(
        step
        for migration in migrations
        for step in _steps(migration.name, migration.script, is_file=file is not None)
    )
    whole = sum(step.reads_table for step in steps)
    return MigrationPlan(name, steps, size, ceil(whole * size / _BYTES_A_SECOND))


def _steps(migration: str, script: str, *, is_file: bool) -> Iterator[Step]:
    for statement in split(script):
        text = " ".join(_COMMENT.sub("", statement).split())
        lock, reads = _lock(text)
        yield Step(migration, text, "the database: writes wait" if is_file else lock, reads)


def _lock(statement: str) -> tuple[str, bool]:
    for pattern, lock, reads in _LOCKS:
        if pattern.match(statement):
            return lock, reads
    return "unknown", True


def _size(db: Connection) -> int:
    # Asked of PostgreSQL alone: the size of a SQLite database is that of its file.
    row = db.row("SELECT pg_database_size(current_database())")
    return int(row[0]) if row else 0
