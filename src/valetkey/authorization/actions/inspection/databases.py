"""Checks of a database: identity, clocks, standbys, durability."""

from collections.abc import Callable

from msgspec import Struct

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Finding,
    Findings,
    Level,
    Site,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.installation import lag
from valetkey.config.paths import database_file, last_seen_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database import identity
from valetkey.database.engine import Connection
from valetkey.database.watch import replication, server_time, unsafe_settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.words import translatable

_TOLERANCE = 10  # seconds
_MOST = 60
_LAG = 30  # seconds
_BEHIND = 64 << 20  # bytes of the write-ahead log
_RESTORE = "how-to/operate/back-up-and-restore"
_FAILOVER = "how-to/operate/fail-over"
_POSTGRESQL = "how-to/operate/run-on-postgresql"
_CLOCK = "how-to/operate/alerts/clock-stepped"
_ONE_TIME = translatable("Synchronize the clocks of all machines with one time server.")

UNNOTED = Condition(
    "database_unnoted",
    Level.WARNING,
    "%(server)s database",
    translatable("The server cannot write %(file)s, which records the last state of its database."),
    translatable("Allow the user that runs the server to write to that folder."),
    page=_RESTORE,
)
NOTE_UNREAD = Condition(
    "database_note_unread",
    Level.ERROR,
    "%(server)s database",
    translatable("%(file)s has no valid record of the last state of the database."),
    translatable("Stop the servers, then run:"),
    "valetkey database restore",
    page=_RESTORE,
)
REPLACED = Condition(
    "database_replaced",
    Level.ERROR,
    "%(server)s database",
    translatable("This is not the database that is recorded in %(file)s."),
    translatable("Correct the setting database. After a restore, stop the servers and run:"),
    "valetkey database restore",
    page=_RESTORE,
)
RESTORED = Condition(
    "database_restored",
    Level.ERROR,
    "%(server)s database",
    translatable(
        "The database was restored: it is older than the last state recorded in %(file)s. "
        "Anything revoked since then would be valid again."
    ),
    translatable("Stop the servers, then run:"),
    "valetkey database restore",
    page=_RESTORE,
)
NODES_CLOCK = Condition(
    "nodes_clock",
    Level.WARNING,
    "%(server)s nodes' clocks",
    translatable(
        "The last write to the database has a time in the future: a node's clock is, or was, ahead "
        "of this machine's. Difference in seconds: %(seconds)s."
    ),
    _ONE_TIME,
    page=_CLOCK,
)
NODES_CLOCK_WRONG = NODES_CLOCK.as_bad("nodes_clock_wrong")
CLOCK = Condition(
    "clock",
    Level.WARNING,
    "%(server)s's clock",
    translatable(
        "A clock differs from this machine's: %(server)s. Difference in seconds: %(seconds)s."
    ),
    _ONE_TIME,
    page=_CLOCK,
)
CLOCK_WRONG = CLOCK.as_bad("clock_wrong")
CLOCK_GOOD = Condition(
    "clock_good", Level.OK, "%(server)s's clock", "%(seconds)s s from this machine's."
)
STANDBYS_HIDDEN = Condition(
    "standbys_hidden",
    Level.WARNING,
    "%(server)s database's standbys",
    translatable("The state of the standbys is hidden from the database role."),
    translatable("Grant the role access to it:"),
    "GRANT pg_monitor TO the role",
    page=_FAILOVER,
)
STANDBY_MISSING = Condition(
    "standby_missing",
    Level.ERROR,
    "%(server)s database's standby",
    translatable(
        "Commits wait for %(awaited)s, but no such standby is connected: writes fail with 503."
    ),
    translatable("Start the standby, or empty synchronous_standby_names and reload PostgreSQL."),
    page=_FAILOVER,
)
STANDBY_BEHIND = Condition(
    "standby_behind",
    Level.WARNING,
    "%(server)s database's standby %(standby)s",
    translatable(
        "The standby %(standby)s is %(seconds)s s and %(size)s MiB behind (%(state)s, %(role)s)."
    ),
    translatable(
        "Check its log, disk and network. Unless it is synchronous, a failover loses "
        "the commits that it has not received."
    ),
    page=_FAILOVER,
)
STANDBY_GOOD = STANDBY_BEHIND.as_good("standby_good")
NOT_DURABLE = Condition(
    "database_not_durable",
    Level.WARNING,
    "%(server)s database's durability",
    translatable(
        "PostgreSQL runs with %(settings)s: a crash of its machine may lose what was committed, or "
        "damage the database."
    ),
    translatable(
        "Set this to on and reload PostgreSQL, unless its storage guarantees the same without it."
    ),
    page=_POSTGRESQL,
)


class DatabaseOf(Struct, frozen=True):
    """A database with the name of its server's section in the settings."""

    name: str
    settings: Settings
    server: ServerSettings

    @property
    def is_file(self) -> bool:
        """Return whether it is an SQLite file, with this machine's clock and no standbys."""
        return database_file(self.settings, self.server) is not None


def known_database(db: Connection, of: DatabaseOf, now: Instant) -> Findings:
    """Compare the database with what its server last saw of it; changes neither."""
    file, name = last_seen_path(of.settings, of.server), of.name
    try:
        known = identity.last_seen(file)
    except OperatorError:
        yield NOTE_UNREAD.found(server=name, file=file)
        return
    if known is None:
        yield UNNOTED.found(server=name, file=file)
        return
    found = identity.find(db)
    if found is None or found.database != known.database:
        yield REPLACED.found(server=name, file=file)
    elif identity.is_older(found, identity.lagging(known, lag(of.settings, of.server))):
        yield RESTORED.found(server=name, file=file)
    elif (ahead := found.at - now) > _TOLERANCE:
        condition = NODES_CLOCK_WRONG if ahead > _MOST else NODES_CLOCK
        yield condition.found(server=name, seconds=ahead)


def clock(db: Connection, of: DatabaseOf, now: Instant) -> Findings:
    """Compare the clock of a PostgreSQL server with this machine's."""
    if not of.is_file:
        yield judged_clock(f"{of.name} database", abs(server_time(db) - now))


def judged_clock(server: str, seconds: int) -> Finding:
    """Return the finding for a difference of `seconds` between two clocks."""
    condition = CLOCK_GOOD
    if seconds > _MOST:
        condition = CLOCK_WRONG
    elif seconds > _TOLERANCE:
        condition = CLOCK
    return condition.found(server=server, seconds=seconds)


def standbys(db: Connection, of: DatabaseOf, _: Instant) -> Findings:
    """Judge the standbys of a PostgreSQL server: connected, replaying, enough for commits."""
    if of.is_file:
        return
    told, name = replication(db), of.name
    if any(each.state is None for each in told.standbys):
        yield STANDBYS_HIDDEN.found(server=name)
    elif told.awaited and not any(each.role in {"sync", "quorum"} for each in told.standbys):
        yield STANDBY_MISSING.found(server=name, awaited=told.awaited)
    for each in told.standbys:
        if each.state is None:
            continue
        behind = each.seconds > _LAG or each.bytes > _BEHIND or each.state != "streaming"
        condition = STANDBY_BEHIND if behind else STANDBY_GOOD
        shown = {"seconds": each.seconds, "size": each.bytes >> 20, "state": each.state}
        yield condition.found(server=name, standby=each.name, role=each.role, **shown)


def durability(db: Connection, of: DatabaseOf, _: Instant) -> Findings:
    """Name the settings of a PostgreSQL server with which a crash may lose commits."""
    if not of.is_file and (found := unsafe_settings(db)):
        yield NOT_DURABLE.found(server=of.name, settings=", ".join(found))


_Look = Callable[[Connection, DatabaseOf, Instant], Findings]
_LOOKS: tuple[tuple[str, _Look, tuple[Condition, ...]], ...] = (
    # Called first: it compares the present.
    ("clock", clock, (CLOCK, CLOCK_WRONG, CLOCK_GOOD)),
    (
        "known_database",
        known_database,
        (UNNOTED, NOTE_UNREAD, REPLACED, RESTORED, NODES_CLOCK, NODES_CLOCK_WRONG),
    ),
    (
        "standbys",
        standbys,
        (STANDBYS_HIDDEN, STANDBY_MISSING, STANDBY_BEHIND, STANDBY_GOOD),
    ),
    ("durability", durability, (NOT_DURABLE,)),
)


def of_database(db: Connection, of: DatabaseOf, now: Instant) -> Findings:
    """Perform the checks of any server's database."""
    for _name, look, _conditions in _LOOKS:
        yield from look(db, of, now)


def _own(look: _Look) -> Callable[[Transaction, Site], Findings]:
    def run(tx: Transaction, site: Site) -> Findings:
        own = DatabaseOf("authorization", site.settings, site.settings.authorization)
        return look(tx.db, own, site.now)

    return run


CHECKS = tuple(DatabaseCheck(name, _own(look), known) for name, look, known in _LOOKS)
