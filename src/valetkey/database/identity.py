"""Which database this is and how far it has come, compared with what its server saw last.

Each database has an id, an epoch and a number that grows while servers write. Servers keep the last
they saw in a small file outside of the database. A database that is missing, another one, or an
older copy of the same is recognised by that (docs/decisions/0017).
"""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from valetkey.database.engine import (
    Connection,
    DatabaseUnavailable,
    Engine,
    Overloaded,
    TablesMissing,
)
from valetkey.kernel.keyring import create_or_read_secret_file, replace_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Mistake

LAG = 30
"""Steps of the number that are not yet relied on where the engine may lose the latest commits."""

_LINE = re.compile(r"database ([0-9a-f]{32}) ([0-9]{1,9}) ([0-9]{1,15}) ([0-9]{1,12})")
_HEADING = (
    "# What this server last saw of its database. Not a secret. It belongs beside the keys.\n"
)
_NEXT = (
    "After a restore run: valetkey database restore. For an empty database: valetkey serve --new"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A database's id, its security epoch, the number it had reached, and when."""

    database: str
    epoch: int
    number: int
    at: Instant

    def text(self) -> str:
        """The content of the file."""
        return f"{_HEADING}database {self.database} {self.epoch} {self.number} {self.at}\n"


def last_seen(file: Path) -> Seen | None:
    """What the file says; None without a file. Raises Mistake about one that is not understood."""
    if not file.exists():
        return None
    match = _LINE.fullmatch(create_or_read_secret_file(file, str).split("\n", 1)[-1].strip())
    if match is None:
        message = f"{file} does not say what was last seen of the database; run: "
        raise Mistake(f"{message}valetkey database restore")
    return Seen(match[1], int(match[2]), int(match[3]), Instant(int(match[4])))


def remember(file: Path, seen: Seen) -> None:
    """Write what was seen. Raises Mistake where the file cannot be written."""
    replace_secret_file(file, seen.text())


def find(db: Connection) -> Seen | None:
    """What the database says of itself; None for one that was never recognised."""
    row = db.row("SELECT id, epoch, number, at FROM installation WHERE name = 'this'")
    return None if row is None else Seen(row[0], row[1], row[2], Instant(row[3]))


def put(db: Connection, seen: Seen) -> None:
    """Let the database be this one from now on."""
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
    """Let the number grow by one, unless it did so a moment ago; whether it grew."""
    grew = db.run(
        "UPDATE installation SET number = number + 1, at = :now"
        " WHERE name = 'this' AND (at < :now - 1 OR at > :now)",
        now=now,
    )
    return find(db), grew == 1


async def recognise(engine: Engine, file: Path, fresh: bytes, now: Instant, *, lag: int) -> Seen:
    """Compare the database, whose tables are up to date, with the file; write a missing file.

    A database that nobody has seen yet is given the id `fresh`. Raises Mistake where this is
    another database than the one in the file, or an older copy of it.
    """
    known = last_seen(file)

    def work(db: Connection) -> Seen | None:
        if known is None:
            db.send(
                "INSERT INTO installation (name, id, epoch, number, at)"
                " VALUES ('this', :id, 0, 0, :now) ON CONFLICT (name) DO NOTHING",
                id=fresh[:16].hex(),
                now=now,
            )
        return find(db)

    found = await engine.write(work)
    if found is None or (known is not None and is_older(found, known)):
        message = (
            f"the database is older than what its server last saw of it (noted in {file}): what "
            f"was revoked since would be valid again. {_NEXT}"
        )
        raise Mistake(message)
    if known is not None and found.database != known.database:
        message = f"this is another database than the one that the server knows by {file}. {_NEXT}"
        raise Mistake(message)
    if known is None:
        # Where the folder is not ours to write, the server goes on without: `doctor` tells.
        with contextlib.suppress(Mistake):
            remember(file, lagging(found, lag))
    return found


def is_older(found: Seen, known: Seen) -> bool:
    """Whether `found` is an earlier state of the database than `known`."""
    if found.database != known.database:
        return False
    return (found.epoch, found.number) < (known.epoch, known.number)


def lagging(seen: Seen, lag: int) -> Seen:
    """The same, `lag` steps earlier: what is relied on."""
    return Seen(seen.database, seen.epoch, max(0, seen.number - lag), seen.at)


async def is_missing(engine: Engine) -> bool:
    """Whether there is no table of ours in the database."""

    def look(db: Connection) -> None:
        db.row("SELECT number FROM migrations")

    try:
        await engine.scan(look)
    except TablesMissing:
        return True
    except (DatabaseUnavailable, Overloaded, Mistake):
        raise
    except Exception:  # noqa: BLE001 - SQLite says "no such table" in words of its own
        return True
    return False
