"""Detect a missing, different or older database, at the start of its server and while it runs.

Each database has an id, an epoch and a number that grows while servers write. A server keeps the
last values in a small file outside the database, by which it recognises a replaced or restored
database (docs/decisions/0017).
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from valetkey.database.engine import (
    Connection,
    DatabaseUnavailable,
    Engine,
    Overloaded,
    TablesMissing,
)
from valetkey.kernel import metrics
from valetkey.kernel.keyring import read_secret_file, replace_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.pace import rest
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.tracing import CALLER

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


CHANGE_TOKEN_STATE = """
    UPDATE token_state
       SET number = number + 1 + CAST(abs(random() * 16777215.0) AS BIGINT) % 16777216
     WHERE id = 1
"""
"""Increases the number by a random step; SQLite, which has no replicas, takes the largest.

Two servers that were both primary and ended different tokens do not have the same number then, so
that equal numbers mean equal endings, in the same history.
"""


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
    last = last_seen(file)

    def record_start(db: Connection) -> Seen | None:
        if last is None:
            db.send(
                "INSERT INTO installation (name, id, epoch, number, at)"
                " VALUES ('this', :id, 0, 0, :now) ON CONFLICT (name) DO NOTHING",
                id=fresh[:16].hex(),
                now=now,
            )
        return find(db)

    seen = await engine.write(record_start)
    if seen is None or (last is not None and is_older(seen, last)):
        message = (
            f"the database is older than its last state, which is recorded in {file}: anything "
            f"revoked since then would be valid again. {_NEXT}"
        )
        raise OperatorError(message)
    if last is not None and seen.database != last.database:
        message = f"this is not the database that is recorded in {file}. {_NEXT}"
        raise OperatorError(message)
    if last is None:
        # If the folder is not writable the server continues without the file; `doctor` reports it.
        with contextlib.suppress(OperatorError):
            remember(file, lagging(seen, lag))
    return seen


def is_older(seen: Seen, last: Seen) -> bool:
    """Return whether `seen` is an earlier state of the database than `last`."""
    if seen.database != last.database:
        return False
    return (seen.epoch, seen.number) < (last.epoch, last.number)


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


_LOOK_EVERY = 1.0  # seconds
_NUMBER_EVERY = 2  # checks
_MEASURE_EVERY = 15  # checks


@dataclass(slots=True)
class Watch:
    """Checks the database every second, and notes its progress in a file every two seconds.

    `tell` is called once with what is wrong, and with "" when it is resolved.
    """

    engine: Engine
    file: Path
    now: Callable[[], Instant]
    report: Callable[[str], None]
    lag: int
    _last: Seen | None = field(default=None, init=False)
    _mark: bytes | None = field(default=None, init=False)
    _reported: str = field(default="", init=False)

    async def run(self) -> None:
        """Watch until cancelled."""
        rounds = 0
        while True:
            await rest(_LOOK_EVERY)
            if rounds % _MEASURE_EVERY == 0:
                await self._measure()
            rounds += 1
            if not self._check_identity() and rounds % _NUMBER_EVERY == 0:
                with contextlib.suppress(DatabaseUnavailable, Overloaded):
                    await self._advance()

    def _check_identity(self) -> str:
        wrong = self.engine.check_identity()
        if wrong != self._reported:
            self._reported = wrong
            self.report(wrong)
        return wrong

    async def _measure(self) -> None:
        try:
            sizes = await self.engine.sizes()
        except (DatabaseUnavailable, Overloaded, OSError):
            sizes = {}
        metrics.DATABASE_BYTES.replace({(part,): size for part, size in sizes.items()})

    async def _advance(self) -> None:
        mark = self.engine.mark()
        if mark is not None and mark == self._mark:
            # Nothing was committed since: nothing can be lost.
            return
        now = self.now()
        try:
            seen, grew = await self.engine.write(lambda db: advance(db, now))
        except TablesMissing:
            seen, grew = None, False
        self._mark = self.engine.mark() if grew else None
        if seen is None or (self._last is not None and _is_rolled_back(seen, self._last, self.lag)):
            wrong = "the database went back to an earlier state"
            if seen is None:
                wrong = "the database was emptied or copied to another one"
            self.engine.refuse(f"{wrong}; restart the server")
            self._check_identity()
            return
        self._last = seen
        with contextlib.suppress(OperatorError):
            remember(self.file, lagging(seen, self.lag))


def _is_rolled_back(seen: Seen, last: Seen, lag: int) -> bool:
    return seen.database != last.database or is_older(seen, lagging(last, lag))


_BYTES = 48 * 1024
"""Random bytes; 64 KiB as text: more pages than any request writes, and incompressible."""


async def check_writable(engine: Engine, random: Callable[[int], bytes]) -> None:
    """Commit 64 KiB in a separate row. Raises what `Engine.write` raises."""
    if wrong := engine.check_identity():
        raise DatabaseUnavailable(wrong)
    text = to_base64url(random(_BYTES))

    def write_probe(db: Connection) -> None:
        db.send(
            "INSERT INTO probe (name, text) VALUES ('readiness', :text)"
            " ON CONFLICT (name) DO UPDATE SET text = excluded.text",
            text=text,
        )

    await engine.write(write_probe)


@dataclass(slots=True)
class Readiness:
    """Verifies at most once a second that the database accepts writes, however many callers ask.

    A result becomes void once a write of any request failed after it.
    """

    engine: Engine
    random: Callable[[int], bytes]
    _proved: tuple[Instant, int] | None = field(default=None, init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def check_writable(self, now: Instant) -> None:
        """Return when the database accepts writes. Raises what `Engine.write` raises."""
        if (now, self.engine.failures()) == self._proved and not self.engine.check_identity():
            return
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._prove(now))
            # Retrieves the exception when every caller was cancelled before the end.
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Shielded: cancelling one caller must not cancel the check that others share.
        await asyncio.shield(self._running)

    async def _prove(self, now: Instant) -> None:
        # Shared with other callers, so it does not end with the request that started it.
        CALLER.set(None)
        before = self.engine.failures()
        await check_writable(self.engine, self.random)
        self._proved = (now, before)


class Standby(Struct, frozen=True):
    """A connected standby; without pg_monitor PostgreSQL hides everything but its name."""

    name: str
    state: str | None
    role: str | None
    seconds: int
    bytes: int


class ReplicationSlot(Struct, frozen=True):
    """A slot that no standby uses, and how much of PostgreSQL's log is kept for it."""

    name: str
    bytes: int


class Replication(Struct, frozen=True):
    """The standbys that commits wait for ("" for none), those connected, and slots without one."""

    awaited: str
    standbys: Sequence[Standby]
    unused: Sequence[ReplicationSlot]


def replication(db: Connection) -> Replication:
    """Return the standbys of a PostgreSQL server."""
    awaited = db.row("SELECT current_setting('synchronous_standby_names')")
    rows = db.rows(
        "SELECT application_name::text, state::text, sync_state::text,"
        " coalesce(CAST(EXTRACT(EPOCH FROM replay_lag) AS BIGINT), 0),"
        " coalesce(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS BIGINT), 0)"
        " FROM pg_stat_replication ORDER BY application_name"
    )
    slots = db.rows(
        "SELECT slot_name::text,"
        " coalesce(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS BIGINT), 0)"
        " FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active"
        " AND wal_status IS NOT NULL ORDER BY slot_name"
    )
    return Replication(
        str(awaited[0]) if awaited else "",
        [Standby(*row) for row in rows],
        [ReplicationSlot(*row) for row in slots],
    )


def is_standby(db: Connection) -> bool:
    """Return whether this PostgreSQL server replays the changes of another one."""
    row = db.row("SELECT pg_is_in_recovery()")
    return row is not None and bool(row[0])


def unsafe_settings(db: Connection) -> Sequence[str]:
    """Return the settings of a PostgreSQL server with which a crash may lose commits."""
    names = ("fsync", "full_page_writes")
    row = db.row("SELECT current_setting('fsync'), current_setting('full_page_writes')")
    pairs = zip(names, row or (), strict=True)
    return [f"{name} = {value}" for name, value in pairs if value != "on"]


def server_time(db: Connection) -> int:
    """Return the time of a PostgreSQL server's clock, in seconds since 1970."""
    row = db.row("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)")
    return int(row[0]) if row else 0
