"""Observe a database: it must stay in place, accept writes and never become older."""

import asyncio
import contextlib
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
from valetkey.database.identity import Seen, advance, is_older, lagging, remember
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.kernel.pace import rest
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.tracing import CALLER

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
            found, grew = await self.engine.write(lambda db: advance(db, now))
        except TablesMissing:
            found, grew = None, False
        self._mark = self.engine.mark() if grew else None
        if found is None or (
            self._last is not None and _is_rolled_back(found, self._last, self.lag)
        ):
            wrong = "the database went back to an earlier state"
            if found is None:
                wrong = "the database was emptied or copied to another one"
            self.engine.refuse(f"{wrong}; restart the server")
            self._check_identity()
            return
        self._last = found
        with contextlib.suppress(OperatorError):
            remember(self.file, lagging(found, self.lag))


def _is_rolled_back(found: Seen, last: Seen, lag: int) -> bool:
    return found.database != last.database or is_older(found, lagging(last, lag))


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


class Replication(Struct, frozen=True):
    """The standbys that commits wait for ("" for none), and those that are connected."""

    awaited: str
    standbys: Sequence[Standby]


def replication(db: Connection) -> Replication:
    """Return the standbys of a PostgreSQL server."""
    awaited = db.row("SELECT current_setting('synchronous_standby_names')")
    rows = db.rows(
        "SELECT application_name::text, state::text, sync_state::text,"
        " coalesce(CAST(EXTRACT(EPOCH FROM replay_lag) AS BIGINT), 0),"
        " coalesce(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS BIGINT), 0)"
        " FROM pg_stat_replication ORDER BY application_name"
    )
    return Replication(str(awaited[0]) if awaited else "", [Standby(*row) for row in rows])


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
