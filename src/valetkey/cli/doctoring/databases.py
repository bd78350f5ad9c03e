"""Check the databases: reachable, current schema, the known one, standbys, clocks in agreement."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from valetkey.cli.doctoring.finding import Finding, bad, good, mind
from valetkey.cli.doctoring.health import healths
from valetkey.cli.register.store import is_begun, open_database
from valetkey.config.agreement import servers
from valetkey.config.installation import lag
from valetkey.config.paths import database_file, last_seen_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database import identity
from valetkey.database.engine import Connection, DatabaseUnavailable
from valetkey.database.identity import Seen
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.runtime import SYSTEM

T = TypeVar("T")

_TOLERANCE = 10
_MOST = 60
_LAG = 30  # seconds
_BEHIND = 64 << 20  # bytes of the write-ahead log
_ONE_TIME = "Let both follow one time server."


async def databases(settings: Settings) -> AsyncIterator[Finding]:
    """Check both databases."""
    for health, (name, server) in zip(await healths(settings), servers(settings), strict=True):
        about = f"{name} database"
        if not health.ok:
            yield bad(about, health.found, health.next)
            continue
        wrong = [each async for each in _identity(settings, name, server)]
        for each in wrong:
            yield each
        if not wrong:
            yield good(about, health.found)


async def _identity(
    settings: Settings, name: str, server: ServerSettings
) -> AsyncIterator[Finding]:
    """Compare the database with what its server last saw of it; changes neither."""
    about, file = f"{name} database", last_seen_path(settings, server)
    try:
        known = identity.last_seen(file)
        found = await _ask(settings, server, identity.find)
    except (DatabaseUnavailable, Mistake) as reason:
        yield bad(about, str(reason))
        return
    if known is None:
        if is_begun(settings, server):
            missing = f"what the server saw last of it is not noted in {file}"
            yield mind(about, missing, "Let the server's user write that folder.")
        return
    if found is None or found.database != known.database:
        yield bad(
            about,
            f"it is another database than the one that the server knows by {file}",
            f"Correct {name}.database, or after a restore: valetkey database restore",
        )
    elif identity.is_older(found, identity.lagging(known, lag(settings, server))):
        yield bad(
            about,
            f"it was restored: it is older than what the server last saw of it (noted in {file}), "
            "and what was revoked since would be valid again",
            "Stop the servers, then: valetkey database restore",
        )
    elif (ahead := _ahead(found)) > _TOLERANCE:
        judged = bad if ahead > _MOST else mind
        written = f"a node wrote to it with a clock {ahead} s ahead of this machine's"
        yield judged(f"{name} nodes' clocks", written, "Let all nodes follow one time server.")


def _ahead(found: Seen) -> int:
    return found.at - SYSTEM.now()


async def replication(settings: Settings) -> AsyncIterator[Finding]:
    """Check the standbys of PostgreSQL servers: connected, replaying, and enough for commits."""
    for name, server in servers(settings):
        if database_file(settings, server) is not None:
            continue
        try:
            told = await _ask(settings, server, _read_replication)
        except (DatabaseUnavailable, Mistake):
            continue
        for finding in _judged_replication(name, told):
            yield finding


@dataclass(frozen=True, slots=True)
class _Standby:
    """A connected standby; without pg_monitor PostgreSQL hides everything but its name."""

    name: str
    state: str | None
    role: str | None
    seconds: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Replication:
    """The standbys that commits wait for ("" for none), and those that are connected."""

    awaited: str
    standbys: tuple[_Standby, ...]


def _judged_replication(name: str, told: _Replication) -> Iterator[Finding]:
    hidden = any(each.state is None for each in told.standbys)
    if hidden:
        about = f"{name} database's standbys"
        yield mind(about, "their state is hidden from this role", "GRANT pg_monitor TO the role.")
    elif told.awaited and not any(each.role in {"sync", "quorum"} for each in told.standbys):
        yield bad(
            f"{name} database's standby",
            f"commits wait for {told.awaited}, and no such standby is connected: writes get 503",
            "Start the standby, or empty synchronous_standby_names and reload PostgreSQL.",
        )
    for each in told.standbys:
        if each.state is None:
            continue
        about = f"{name} database's standby {each.name}"
        found = f"{each.seconds} s and {each.bytes >> 20} MiB behind, {each.state}, {each.role}"
        if each.seconds > _LAG or each.bytes > _BEHIND or each.state != "streaming":
            advice = "What it lacks is lost by a failover, unless it is synchronous."
            yield mind(about, found, f"{advice} Look at its log, disk and network.")
        else:
            yield good(about, found)


def _read_replication(db: Connection) -> _Replication:
    # PostgreSQL only.
    awaited = db.row("SELECT current_setting('synchronous_standby_names')")
    rows = db.rows(
        "SELECT application_name::text, state::text, sync_state::text,"
        " coalesce(CAST(EXTRACT(EPOCH FROM replay_lag) AS BIGINT), 0),"
        " coalesce(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS BIGINT), 0)"
        " FROM pg_stat_replication ORDER BY application_name"
    )
    return _Replication(str(awaited[0]) if awaited else "", tuple(_Standby(*row) for row in rows))


async def clocks(settings: Settings) -> AsyncIterator[Finding]:
    """Compare the clocks of PostgreSQL servers with this machine's."""
    for name, server in servers(settings):
        if database_file(settings, server) is not None:
            continue
        about = f"{name} database's clock"
        try:
            skew = abs(await _ask(settings, server, _clock) - SYSTEM.now())
        except (DatabaseUnavailable, Mistake):
            continue
        yield judged_skew(about, skew)


def judged_skew(about: str, skew: int) -> Finding:
    """Return the finding for a difference of `skew` seconds between two clocks."""
    if skew > _MOST:
        return bad(about, f"{skew} s from this machine's", _ONE_TIME)
    if skew > _TOLERANCE:
        return mind(about, f"{skew} s from this machine's", _ONE_TIME)
    return good(about, f"{skew} s from this machine's")


def _clock(db: Connection) -> int:
    # PostgreSQL only, as SQLite uses this machine's clock.
    row = db.row("SELECT CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) AS BIGINT)")
    return int(row[0]) if row else 0


async def _ask(settings: Settings, server: ServerSettings, work: Callable[[Connection], T]) -> T:
    engine = open_database(settings, server)
    try:
        return await engine.scan(work)
    finally:
        await engine.close()
