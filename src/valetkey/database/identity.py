"""Detect a missing, different or older database by comparing it with what its server last saw.

Each database has an id, an epoch and a number that grows while servers write. A server keeps the
last values in a small file outside the database, by which it recognises a replaced or restored
database (docs/decisions/0017).
"""

import contextlib
import re
from pathlib import Path

from msgspec import Struct

from valetkey.database.engine import (
    Connection,
    DatabaseUnavailable,
    Engine,
    Overloaded,
    TablesMissing,
)
from valetkey.kernel.keyring import read_secret_file, replace_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError

LAG = 30
"""Steps by which the noted number lags where the engine may lose the latest commits."""

_LINE = re.compile(r"database ([0-9a-f]{32}) ([0-9]{1,9}) ([0-9]{1,15}) ([0-9]{1,12})")
_HEADING = (
    "# The last known state of this server's database. Not a secret. Keep it beside the keys.\n"
)
_NEXT = (
    "After a restore run: valetkey database restore. For an empty database: valetkey serve --new"
)


class Seen(Struct, frozen=True):
    """A database's id, security epoch and number, and when the number was reached."""

    database: str
    epoch: int
    number: int
    at: Instant

    def text(self) -> str:
        """Return the content of the file."""
        return f"{_HEADING}database {self.database} {self.epoch} {self.number} {self.at}\n"


def last_seen(file: Path) -> Seen | None:
    """Return the content of the file; None without a file.

    Raises OperatorError for an invalid one.
    """
    # `serve --new` in another process may remove the file at any moment.
    text = read_secret_file(file)
    if text is None:
        return None
    match = _LINE.fullmatch(text.split("\n", 1)[-1].strip())
    if match is None:
        message = f"{file} does not say what was last seen of the database; run: "
        raise OperatorError(f"{message}valetkey database restore")
    return Seen(match[1], int(match[2]), int(match[3]), Instant(int(match[4])))


def remember(file: Path, seen: Seen) -> None:
    """Write `seen` to the file. Raises OperatorError if it cannot be written."""
    replace_secret_file(file, seen.text())


def find(db: Connection) -> Seen | None:
    """Return the identity stored in the database; None if it has none."""
    row = db.row("SELECT id, epoch, number, at FROM installation WHERE name = 'this'")
    return None if row is None else Seen(row[0], row[1], row[2], Instant(row[3]))


def store_identity(db: Connection, seen: Seen) -> None:
    """Store this identity in the database."""
    db.send(
        "INSERT INTO installation (name, id, epoch, number, at)"
        " VALUES ('this', :id, :epoch, :number, :at) ON CONFLICT (name) DO UPDATE SET"
        " id = excluded.id, epoch = excluded.epoch, number = excluded.number, at = excluded.at",
        id=seen.database,
        epoch=seen.epoch,
        number=seen.number,
        at=seen.at,
    )


def advance(db: Connection, now: Instant) -> tuple[Seen | None, bool]:
    """Increase the number unless it grew a moment ago; return the identity and whether it grew."""
    grew = db.run(
        "UPDATE installation SET number = number + 1, at = :now"
        " WHERE name = 'this' AND (at < :now - 1 OR at > :now)",
        now=now,
    )
    return find(db), grew == 1


async def recognise(engine: Engine, file: Path, fresh: bytes, now: Instant, *, lag: int) -> Seen:
    """Compare the database, whose schema is current, with the file; write a missing file.

    A database without an identity is given the id `fresh`. Raises OperatorError if it is a
    different database from the one in the file, or an older copy of it.
    """
    known = last_seen(file)

    def record_start(db: Connection) -> Seen | None:
        if known is None:
            db.send(
                "INSERT INTO installation (name, id, epoch, number, at)"
                " VALUES ('this', :id, 0, 0, :now) ON CONFLICT (name) DO NOTHING",
                id=fresh[:16].hex(),
                now=now,
            )
        return find(db)

    found = await engine.write(record_start)
    if found is None or (known is not None and is_older(found, known)):
        message = (
            f"the database is older than its last state, which is recorded in {file}: anything "
            f"revoked since then would be valid again. {_NEXT}"
        )
        raise OperatorError(message)
    if known is not None and found.database != known.database:
        message = f"this is not the database that is recorded in {file}. {_NEXT}"
        raise OperatorError(message)
    if known is None:
        # If the folder is not writable the server continues without the file; `doctor` reports it.
        with contextlib.suppress(OperatorError):
            remember(file, lagging(found, lag))
    return found


def is_older(found: Seen, known: Seen) -> bool:
    """Return whether `found` is an earlier state of the database than `known`."""
    if found.database != known.database:
        return False
    return (found.epoch, found.number) < (known.epoch, known.number)


def lagging(seen: Seen, lag: int) -> Seen:
    """Return `seen` with its number reduced by `lag`: the state that is relied on."""
    return Seen(seen.database, seen.epoch, max(0, seen.number - lag), seen.at)


async def is_missing(engine: Engine) -> bool:
    """Return whether the database has none of Valetkey's tables."""

    def read_state(db: Connection) -> None:
        db.row("SELECT number FROM migrations")

    try:
        await engine.scan(read_state)
    except TablesMissing:
        return True
    except (DatabaseUnavailable, Overloaded, OperatorError):
        raise
    except Exception:  # noqa: BLE001 - SQLite says "no such table" in words of its own
        return True
    return False
