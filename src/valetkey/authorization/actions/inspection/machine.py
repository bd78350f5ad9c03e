"""Checks of the machine and its databases: clock, disk, files, standbys, durability."""

import shutil
import ssl
import stat
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.actions.inspection.check import (
    CERTIFICATES,
    DATABASE,
    MACHINE,
    Condition,
    DatabaseCheck,
    Finding,
    Findings,
    Installation,
    Level,
    MachineCheck,
    day,
    moment,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.agreement import servers
from valetkey.config.installation import lag
from valetkey.config.paths import (
    certificate_files,
    credential_path,
    database_file,
    failed_orders,
    last_seen_path,
    uses_acme,
)
from valetkey.config.settings import OTHER_DESCRIPTORS, ServerSettings, Settings
from valetkey.database import identity
from valetkey.database.engine import Connection
from valetkey.database.identity import replication, server_time, unsafe_settings
from valetkey.fetch.certificate import expiry_of
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.text import translatable

_TOLERANCE = 10  # seconds
_MOST = 60
_LAG = 30  # seconds
_BEHIND = 64 << 20  # bytes of the write-ahead log
_RESTORE = "how-to/operate/back-up-and-restore"
_FAILOVER = "how-to/operate/fail-over"
_POSTGRESQL = "how-to/operate/run-on-postgresql"
_CLOCK = "how-to/operate/alerts/clock-stepped"
_ONE_TIME = translatable("Synchronize the clocks of all machines with one time server.")

DATABASE_GOOD = Condition(
    "database_good",
    Level.OK,
    "%(server)s database",
    translatable("Connected, and not older than when it was last used."),
)
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
    "clock_good",
    Level.OK,
    "%(server)s's clock",
    translatable("Its clock differs from this machine's by %(seconds)s s."),
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
STANDBY_AWAY = Condition(
    "standby_away",
    Level.WARNING,
    "%(server)s database's standby %(standby)s",
    translatable(
        "No standby is connected to the replication slot %(standby)s, for which PostgreSQL keeps "
        "%(size)s MiB of its log."
    ),
    translatable("Start the standby. If it is gone for good, drop the slot:"),
    "SELECT pg_drop_replication_slot('%(standby)s')",
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


def own_database(settings: Settings) -> DatabaseOf:
    """Return the authorization server's database."""
    return DatabaseOf("authorization", settings, settings.authorization)


def clock_of(db: Connection, of: DatabaseOf, now: Instant) -> Instant:
    """Return the time by the clock that all nodes share: PostgreSQL's, or this machine's `now`."""
    return now if of.is_file else Instant(server_time(db))


def known_database(db: Connection, database: DatabaseOf, now: Instant) -> Findings:
    """Compare the database with what its server last saw of it; changes neither."""
    file, name = last_seen_path(database.settings, database.server), database.name
    try:
        last_seen = identity.last_seen(file)
    except OperatorError:
        yield NOTE_UNREAD.finding(server=name, file=file)
        return
    if last_seen is None:
        yield UNNOTED.finding(server=name, file=file)
        return
    state = identity.find(db)
    if state is None or state.database != last_seen.database:
        yield REPLACED.finding(server=name, file=file)
    elif identity.is_older(
        state, identity.lagging(last_seen, lag(database.settings, database.server))
    ):
        yield RESTORED.finding(server=name, file=file)
    elif (ahead := state.at - now) > _TOLERANCE:
        condition = NODES_CLOCK_WRONG if ahead > _MOST else NODES_CLOCK
        yield condition.finding(server=name, seconds=ahead)
    else:
        yield DATABASE_GOOD.finding(server=name)


def database_clock(db: Connection, of: DatabaseOf, now: Instant) -> Findings:
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
    return condition.finding(server=server, seconds=seconds)


def standbys(db: Connection, of: DatabaseOf, _: Instant) -> Findings:
    """Judge the standbys of a PostgreSQL server: connected, replaying, enough for commits."""
    if of.is_file:
        return
    state, name = replication(db), of.name
    if any(standby.state is None for standby in state.standbys):
        yield STANDBYS_HIDDEN.finding(server=name)
    elif state.awaited and not any(
        standby.role in {"sync", "quorum"} for standby in state.standbys
    ):
        yield STANDBY_MISSING.finding(server=name, awaited=state.awaited)
    for standby in state.standbys:
        if standby.state is None:
            continue
        behind = standby.seconds > _LAG or standby.bytes > _BEHIND or standby.state != "streaming"
        condition = STANDBY_BEHIND if behind else STANDBY_GOOD
        shown = {"seconds": standby.seconds, "size": standby.bytes >> 20, "state": standby.state}
        yield condition.finding(server=name, standby=standby.name, role=standby.role, **shown)
    for slot in state.unused:
        yield STANDBY_AWAY.finding(server=name, standby=slot.name, size=slot.bytes >> 20)


def durability(db: Connection, of: DatabaseOf, _: Instant) -> Findings:
    """Name the settings of a PostgreSQL server with which a crash may lose commits."""
    if not of.is_file and (settings := unsafe_settings(db)):
        yield NOT_DURABLE.finding(server=of.name, settings=", ".join(settings))


_Look = Callable[[Connection, DatabaseOf, Instant], Findings]
_LOOKS: tuple[tuple[str, _Look, tuple[Condition, ...]], ...] = (
    # Called first: it compares the present.
    ("clock", database_clock, (CLOCK, CLOCK_WRONG, CLOCK_GOOD)),
    (
        "known_database",
        known_database,
        (DATABASE_GOOD, UNNOTED, NOTE_UNREAD, REPLACED, RESTORED, NODES_CLOCK, NODES_CLOCK_WRONG),
    ),
    (
        "standbys",
        standbys,
        (STANDBYS_HIDDEN, STANDBY_MISSING, STANDBY_AWAY, STANDBY_BEHIND, STANDBY_GOOD),
    ),
    ("durability", durability, (NOT_DURABLE,)),
)


def of_database(db: Connection, of: DatabaseOf, now: Instant) -> Findings:
    """Perform the checks of any server's database."""
    for _name, look, _conditions in _LOOKS:
        yield from look(db, of, now)


def _own(look: _Look) -> Callable[[Transaction, Installation], Findings]:
    def run(tx: Transaction, installation: Installation) -> Findings:
        return look(tx.db, own_database(installation.settings), installation.now)

    return run


CHECKS = tuple(
    DatabaseCheck(name, _own(look), conditions, DATABASE) for name, look, conditions in _LOOKS
)


_LITTLE = 0.10  # share of a disk
_HARDLY_ANY = 0.02
_MEBIBYTE = 1 << 20
_GIBIBYTE = 1 << 30
_ENOUGH = 10 * _GIBIBYTE  # with this much free, a small share is no problem
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

DISK = Condition(
    "disk",
    Level.WARNING,
    "%(server)s disk",
    translatable("%(free)s of %(total)s are free at %(folder)s."),
    translatable("Free disk space or enlarge the disk: when it is full, sign-ins fail with 503."),
    page="how-to/operate/alerts/database-failing",
)
DISK_FULL = DISK.as_bad("disk_full")
DISK_GOOD = DISK.as_good("disk_good")
OPEN_FILES = Condition(
    "open_files",
    Level.WARNING,
    "open files",
    translatable(
        "A worker may open %(limit)s files, and limits.connections needs %(wanted)s: workers "
        "accept fewer connections."
    ),
    translatable("Set LimitNOFILE= in the systemd unit, or lower limits.connections."),
    page="how-to/operate/alerts/descriptors",
)
OPEN_FILES_GOOD = Condition(
    "open_files_good",
    Level.OK,
    "open files",
    translatable("A worker may open enough files for %(connections)s connections."),
)
FILE_MODE = Condition(
    "file_mode",
    Level.WARNING,
    "%(what)s",
    translatable("Other users can access %(file)s (mode %(mode)s), which contains a secret."),
    command="chmod %(right)s %(file)s",
    page="reference/settings",
)
FILE_MODE_OPEN = FILE_MODE.as_bad("file_mode_open")


def disks(settings: Settings, _: Instant) -> Findings:
    """Judge the disks of the databases, or of the servers' other files if a database is no file."""
    folders = {
        (database_file(settings, server) or last_seen_path(settings, server)).parent: name
        for name, server in servers(settings)
    }
    for folder, name in folders.items():
        if folder.is_dir():
            total, _used, free = shutil.disk_usage(folder)
            yield judged_disk(name, folder, free, total)


def judged_disk(server: str, folder: Path, free: int, total: int) -> Finding:
    """Return the finding for `free` of `total` bytes."""
    condition = DISK_GOOD
    if free < total * _HARDLY_ANY and free < _GIBIBYTE:
        condition = DISK_FULL
    elif free < total * _LITTLE and free < _ENOUGH:
        condition = DISK
    return condition.finding(server=server, free=_amount(free), total=_amount(total), folder=folder)


def _amount(count: int) -> str:
    unit, name = (_GIBIBYTE, "GiB") if count >= _GIBIBYTE else (_MEBIBYTE, "MiB")
    return f"{count / unit:.1f} {name}"


def open_files(settings: Settings, _: Instant) -> Findings:
    """Compare the limit of open files with the connections that a worker may have."""
    _soft, hard = getrlimit(RLIMIT_NOFILE)
    connections = settings.limits.connections
    needed = connections + OTHER_DESCRIPTORS
    if hard == RLIM_INFINITY or hard >= needed:
        yield OPEN_FILES_GOOD.finding(connections=connections)
    else:
        yield OPEN_FILES.finding(limit=hard, wanted=needed)


def file_modes(settings: Settings, _: Instant) -> Findings:
    """Find files with secrets that other users of the machine may use."""
    # The mode of the keyring is checked when it is opened.
    for file in _secret_files(settings):
        mode = _mode(file)
        if mode & _OTHERS:
            judged = FILE_MODE_OPEN if mode & (stat.S_IRWXO | stat.S_IWGRP) else FILE_MODE
            yield judged.finding(what="file modes", file=file, mode=f"{mode:o}", right="600")
    for name, server in servers(settings):
        files = certificate_files(settings, server)
        if files is not None and (mode := _mode(files[1])) & stat.S_IRWXO:
            # A group for those who may read keys is usual.
            shown = {"file": files[1], "mode": f"{mode:o}", "right": "o="}
            yield FILE_MODE.finding(what=f"{name} key", **shown)


def _secret_files(settings: Settings) -> Iterator[Path]:
    yield credential_path(settings)
    if settings.mail.password_file:
        yield settings.source.directory / settings.mail.password_file
    if settings.source.file is not None:
        # A password from the environment is not in the file.
        text = settings.source.file.read_text(encoding="utf-8", errors="replace")
        urls = [*(server.database for _, server in servers(settings))]
        urls += settings.authorization.replicas
        if any((password := urlsplit(url).password) and password in text for url in urls):
            yield settings.source.file


def _mode(file: Path) -> int:
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return 0


CLOCK_FREE = Condition(
    "clock_free",
    Level.WARNING,
    "this machine's clock",
    translatable("The kernel says this machine's clock is not synchronized: it may be wrong."),
    translatable(
        "Run a time service such as chrony, unless the hypervisor sets the clock. For its state:"
    ),
    "timedatectl",
    page="how-to/operate/alerts/clock-stepped",
)
CLOCK_SYNCHRONIZED = Condition(
    "clock_synchronized",
    Level.OK,
    "this machine's clock",
    translatable("Its clock is synchronized, says the kernel."),
)

_STATUS = 20 if sys.maxsize < 1 << 32 else 40
"""Offset of `status` in `struct timex` (adjtimex(2)), after the mode and four numbers."""

_UNSYNCHRONIZED = 0x0040
_TIMEX = 512  # bytes, of which the structure takes less


def kernel_status() -> int | None:
    """Return the status bits of the kernel's clock; None where they cannot be read.

    They exist on Linux, and containers may deny the system call.
    """
    if sys.platform != "linux":
        return None
    ctypes = import_module("ctypes")
    # Zero in the first member, the mode: nothing is changed, which needs no privilege.
    timex = ctypes.create_string_buffer(_TIMEX)
    try:
        failed = ctypes.CDLL(None).adjtimex(timex) == -1
    except (OSError, AttributeError):
        return None
    return None if failed else int.from_bytes(timex[_STATUS : _STATUS + 4], sys.byteorder)


def clock(_: Settings, __: Instant) -> Findings:
    """Judge the clock by what the kernel knows of it; nothing is found where it tells nothing."""
    status = kernel_status()
    if status is not None:
        yield (CLOCK_FREE if status & _UNSYNCHRONIZED else CLOCK_SYNCHRONIZED).finding()


MACHINE_CHECKS = (
    MachineCheck("disk", disks, (DISK, DISK_FULL, DISK_GOOD), MACHINE),
    MachineCheck("open_files", open_files, (OPEN_FILES, OPEN_FILES_GOOD), MACHINE),
    MachineCheck("file_modes", file_modes, (FILE_MODE, FILE_MODE_OPEN), MACHINE),
    MachineCheck("machine_clock", clock, (CLOCK_FREE, CLOCK_SYNCHRONIZED), MACHINE),
)


_SOON = days(21)
_NOW = days(2)
_PAGE = "how-to/operate/renew-certificates"

CERTIFICATE = Condition(
    "certificate",
    Level.WARNING,
    "%(server)s certificate",
    translatable("The certificate for %(server)s expires on %(day)s."),
    translatable(
        "Renew it, at the proxy if that terminates TLS. Servers load new files automatically."
    ),
    page=_PAGE,
)
CERTIFICATE_NOW = CERTIFICATE.as_bad("certificate_now")
CERTIFICATE_EXPIRED = Condition(
    "certificate_expired",
    Level.ERROR,
    "%(server)s certificate",
    translatable("The certificate for %(server)s expired on %(day)s."),
    CERTIFICATE.fix,
    page=_PAGE,
)
CERTIFICATE_GOOD = CERTIFICATE.as_good("certificate_good")
CERTIFICATE_UNREAD = Condition(
    "certificate_unread",
    Level.ERROR,
    "%(server)s certificate",
    translatable("The certificate %(file)s cannot be read: the server would not start."),
    translatable("Correct tls_certificate and tls_key, or the modes of the files."),
    page=_PAGE,
)
ACME = Condition(
    "acme",
    Level.ERROR,
    "%(server)s certificate by ACME",
    translatable(
        "%(authority)s did not issue a certificate. Failed orders: %(times)s, the last at %(at)s."
    ),
    translatable(
        "For the reason, see certificate.not_issued in the log. Port 443 of the host in url must "
        "lead to this server."
    ),
    page=_PAGE,
)


def certificates(settings: Settings, now: Instant) -> Findings:
    """Judge the certificate files of both servers, as far as they are on this machine."""
    for name, server in servers(settings):
        files = certificate_files(settings, server)
        if files is None:
            continue
        try:
            # The library tells what expiry_of does not: a file without a usable chain.
            ssl.create_default_context(cafile=files[0])
            until = expiry_of(files[0].read_bytes())
        except OSError:
            until = None
        if until is None:
            yield CERTIFICATE_UNREAD.finding(server=name, file=files[0])
        else:
            yield judged_certificate(name, until, now)


def judged_certificate(server: str, until: Instant, now: Instant) -> Finding:
    """Return the finding for a certificate that expires at `until`."""
    condition = CERTIFICATE_GOOD
    if until <= now:
        condition = CERTIFICATE_EXPIRED
    elif until - now < _NOW:
        condition = CERTIFICATE_NOW
    elif until - now < _SOON:
        condition = CERTIFICATE
    return condition.finding(server=server, day=day(until))


def orders(settings: Settings, _: Instant) -> Findings:
    """Report that the authority of `tls.acme` refused the last orders."""
    for name, server in servers(settings):
        if uses_acme(settings, server):
            times, last = failed_orders(settings, server)
            if times:
                shown = {"authority": settings.tls.acme, "times": times, "at": moment(last)}
                yield ACME.finding(server=name, **shown)


CERTIFICATE_CHECKS = (
    MachineCheck(
        "certificates",
        certificates,
        (
            CERTIFICATE,
            CERTIFICATE_NOW,
            CERTIFICATE_EXPIRED,
            CERTIFICATE_GOOD,
            CERTIFICATE_UNREAD,
        ),
        CERTIFICATES,
    ),
    MachineCheck("orders", orders, (ACME,), CERTIFICATES),
)
