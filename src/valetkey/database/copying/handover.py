"""Marks that decide which of two databases the servers may use.

Source and target of a copy share a random id. The source refuses writes while it has that id. The
target refuses to be used until the copy is complete; before that happens, the source refuses to be
used ever again (docs/decisions/0037).
"""

from collections.abc import Sequence

from valetkey.database import identity
from valetkey.database.copying.dialect import PROGRESS, CopiedTable, Dialect, copied
from valetkey.database.copying.rows import begin_progress
from valetkey.database.engine import Connection
from valetkey.database.identity import Seen
from valetkey.database.migrate import MOVED, UNFINISHED, add_mark, apply_missing, remove_mark
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace

_UNFROZEN = frozenset({"installation", "probe"})
"""The one write of a server that only reads: the record that the database is present."""


def copy_of(db: Connection) -> str:
    """Return the id of the copy that this database takes part in; "" for none."""
    row = db.row("SELECT id FROM installation WHERE name = 'copy'")
    return "" if row is None else str(row[0])


def moved(db: Connection) -> Seen | None:
    """Return the identity that this database passed on; None if it still has it."""
    row = db.row("SELECT id, epoch, number, at FROM installation WHERE name = 'moved'")
    return None if row is None else Seen(row[0], row[1], row[2], Instant(row[3]))


def begin_target(
    db: Connection, dialect: Dialect, package: str, copy: str, now: Instant
) -> Sequence[CopiedTable]:
    """Make the tables, empty and marked, in an empty database or one of an unfinished copy.

    Return them. Raises OperatorError for any other database.
    """
    present = {each.name for each in dialect.tables(db)}
    if present:
        if PROGRESS not in present:
            raise OperatorError("the target is not empty; name an empty database")
        remove_mark(db, UNFINISHED)
    apply_missing(db, package)
    tables = copied(dialect.tables(db))
    for table in reversed(tables):
        db.send(f"DELETE FROM {table.name}")
    db.send("DELETE FROM installation")
    begin_progress(db, tables, copy)
    add_mark(db, package, UNFINISHED)
    _put_copy(db, copy, now)
    return tables


def freeze_source(db: Connection, dialect: Dialect, copy: str, now: Instant) -> None:
    """Refuse writes from now on, for the copy of this id.

    Raises OperatorError if another one does.
    """
    other = copy_of(db)
    if other == copy:
        return
    if other:
        raise OperatorError(ELSEWHERE)
    dialect.refuse_writes(db, _frozen(db, dialect))
    _put_copy(db, copy, now)


def release_source(db: Connection, dialect: Dialect) -> bool:
    """Accept writes again, unless the copy was completed; return whether there was one."""
    if moved(db) is not None:
        raise OperatorError("the copy is complete: the servers use the other database")
    if not copy_of(db):
        return False
    dialect.accept_writes(db, _frozen(db, dialect))
    db.send("DELETE FROM installation WHERE name = 'copy'")
    return True


def retire_source(db: Connection, dialect: Dialect, package: str, copy: str) -> Seen:
    """Pass on the identity: no server uses this database from now on. Return the identity.

    Raises OperatorError if the copy was cancelled.
    """
    if copy_of(db) != copy:
        raise OperatorError("the copy was cancelled meanwhile; begin again")
    seen = moved(db)
    if seen is not None:
        return seen
    db.send("UPDATE installation SET name = 'moved' WHERE name = 'this'")
    dialect.accept_writes(db, ("migrations",))
    add_mark(db, package, MOVED)
    dialect.refuse_writes(db, ("migrations",))
    seen = moved(db)
    if seen is None:
        raise OperatorError("the source has no identity; start its servers once")
    return seen


def finish_target(db: Connection, copy: str, seen: Seen) -> Seen:
    """Let servers use the target, by the identity that the source passed on; return it."""
    if copy_of(db) != copy:
        raise OperatorError("the target belongs to another copy")
    remove_mark(db, UNFINISHED)
    db.send(f"DROP TABLE {PROGRESS}")
    db.send("DELETE FROM installation")
    # Later than anything that a server noted of the source.
    seen = replace(seen, number=seen.number + 1)
    identity.store_identity(db, seen)
    return seen


def _put_copy(db: Connection, copy: str, now: Instant) -> None:
    db.send(
        "INSERT INTO installation (name, id, epoch, number, at) VALUES ('copy', :id, 0, 0, :now)",
        id=copy,
        now=now,
    )


def _frozen(db: Connection, dialect: Dialect) -> Sequence[str]:
    return [each.name for each in dialect.tables(db) if each.name not in _UNFROZEN]


ELSEWHERE = (
    "this database is being copied to another one, whose copy is not finished; continue that with "
    "the same files, or give it up: valetkey database copy FROM TO --cancel"
)
