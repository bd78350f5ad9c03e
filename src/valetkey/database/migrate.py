"""Apply a package's numbered .sql files, each once and in order; applied files never change.

They are in the folder of the package, or in the `FOLDERS` that it names; numbers are unique in all.
A file is named like `0002_what_it_does.sql`. After one named `0002_before_….sql` the previous
version of the code still works: an older process starts on the migrated tables without an error.
"""

import hashlib
import re
from importlib import import_module, resources
from itertools import chain, pairwise

from msgspec import Struct

from valetkey.database.engine import Connection, Engine, Row, split
from valetkey.database.identity import is_missing
from valetkey.kernel.refusal import OperatorError

_NAME = re.compile(r"(?P<number>[0-9]{4})_(?P<what>[a-z0-9_]+)\.sql")
_TABLE = """
    CREATE TABLE IF NOT EXISTS migrations (
        number  BIGINT PRIMARY KEY,
        package TEXT   NOT NULL,
        name    TEXT   NOT NULL,
        hash    TEXT   NOT NULL
    )
"""

UNFINISHED = "copy_unfinished"
"""The mark of a database into which another one is being copied."""
MOVED = "copy_moved"
"""The mark of a database that was copied to another one, which is used instead."""
_MARKS = {
    UNFINISHED: (
        1_000_001,
        "a copy into this database is not finished: run `valetkey database copy` again",
    ),
    MOVED: (
        1_000_002,
        "this database was copied to another one: start the servers with the configuration of that",
    ),
}


class Migration(Struct, frozen=True):
    """One migration file: number, name, SQL script and the hash of the script."""

    number: int
    name: str
    script: str
    hash: str


async def migrate(engine: Engine, package: str) -> None:
    """Apply the missing migrations of `package`: all of them or none.

    Any number of processes may start at once: one applies the migrations, the others wait and find
    them applied. Raises `OperatorError` if an applied file was changed, or if the database was made
    by newer software or belongs to another package, and `DatabaseUnavailable`.
    """
    await engine.change_schema(lambda db: apply_missing(db, package))


def apply_missing(db: Connection, package: str) -> None:
    """Apply the missing migrations in a transaction that may change the schema.

    Raises `OperatorError` as `migrate` does.
    """
    migrations = find(package)
    db.run(_TABLE)
    rows = db.rows("SELECT number, package, name, hash FROM migrations ORDER BY number")
    for row in rows:
        _check(row, package, migrations)
    done = {row[0] for row in rows}
    for migration in migrations:
        if migration.number not in done:
            _apply(db, package, migration)


async def pending(engine: Engine, package: str) -> tuple[Migration, ...]:
    """Return the migrations of `package` that this database lacks, without changing anything.

    Raises `OperatorError` as `migrate` does, and `DatabaseUnavailable`.
    """
    migrations = find(package)
    if await is_missing(engine):
        return migrations

    def check_applied(db: Connection) -> set[int]:
        rows = db.rows("SELECT number, package, name, hash FROM migrations ORDER BY number")
        for row in rows:
            _check(row, package, migrations)
        return {row[0] for row in rows}

    numbers = await engine.scan(check_applied)
    return tuple(migration for migration in migrations if migration.number not in numbers)


def applied(db: Connection) -> set[int]:
    """Return the numbers of the migrations that were applied to this database."""
    return {row[0] for row in db.rows("SELECT number FROM migrations")}


def find(package: str) -> tuple[Migration, ...]:
    """Return the migrations of a package in order. Raises `ValueError` for an invalid file name."""
    migrations: list[Migration] = []
    folders = getattr(import_module(package), "FOLDERS", (resources.files(package),))
    for file in chain.from_iterable(folder.iterdir() for folder in folders):
        if not file.name.endswith(".sql"):
            continue
        name = _NAME.fullmatch(file.name)
        if name is None:
            raise ValueError(f"{file.name} is not called like 0001_initial.sql")
        # Line ends differ between check-outs; the hash must not.
        script = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        fingerprint = hashlib.sha256(script.encode()).hexdigest()
        migrations.append(Migration(int(name["number"]), file.name, script, fingerprint))
    migrations.sort(key=lambda migration: migration.number)
    for one, next_one in pairwise(migrations):
        if one.number == next_one.number:
            raise ValueError(f"{one.name} and {next_one.name} have one number")
    return tuple(migrations)


def add_mark(db: Connection, package: str, mark: str) -> None:
    """Let every server and command refuse this database; one of an older version too.

    The mark is a migration that no version has.
    """
    _note(db, package, Migration(_MARKS[mark][0], mark, "", ""))


def remove_mark(db: Connection, mark: str) -> None:
    """Remove the mark, so that servers and commands accept the database again."""
    db.send("DELETE FROM migrations WHERE number = :number", number=_MARKS[mark][0])


def _check(row: Row, package: str, migrations: tuple[Migration, ...]) -> None:
    number, owner, name, fingerprint = row
    if name in _MARKS:
        raise OperatorError(_MARKS[name][1])
    if owner != package:
        raise OperatorError(f"this database belongs to {owner}; give {package} one of its own")
    package_migration = next(
        (migration for migration in migrations if migration.number == number), None
    )
    if package_migration is None:
        # A smaller number than ours is that of a feature that was taken out; its tables remain.
        if "_before_" not in name and number > max(migration.number for migration in migrations):
            message = (
                f"this database was changed by newer software ({name}): upgrade first, or restore "
                "the backup from before that upgrade with `valetkey database restore`"
            )
            raise OperatorError(message)
    elif package_migration.hash != fingerprint:
        raise OperatorError(
            f"{name} is not the file that made this database: restore it, add a new one"
        )


def _apply(db: Connection, package: str, migration: Migration) -> None:
    for statement in split(migration.script):
        db.send(statement)
    _note(db, package, migration)


def _note(db: Connection, package: str, migration: Migration) -> None:
    db.send(
        "INSERT INTO migrations (number, package, name, hash)"
        " VALUES (:number, :package, :name, :hash)",
        number=migration.number,
        package=package,
        name=migration.name,
        hash=migration.hash,
    )
