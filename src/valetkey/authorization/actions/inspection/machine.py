"""Checks of the machine: clock, disk space, files with secrets, and certificates."""

import shutil
import ssl
import stat
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from urllib.parse import urlsplit

from valetkey.authorization.actions.inspection.check import (
    Condition,
    Finding,
    Findings,
    Level,
    MachineCheck,
    day,
    moment,
)
from valetkey.config.agreement import servers
from valetkey.config.paths import (
    certificate_files,
    credential_path,
    database_file,
    failed_orders,
    last_seen_path,
    uses_acme,
)
from valetkey.config.settings import OTHER_DESCRIPTORS, Settings
from valetkey.fetch.certificate import expiry_of
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.words import translatable

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
    "A worker may open enough files for %(connections)s connections.",
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
    return condition.found(server=server, free=_amount(free), total=_amount(total), folder=folder)


def _amount(count: int) -> str:
    unit, name = (_GIBIBYTE, "GiB") if count >= _GIBIBYTE else (_MEBIBYTE, "MiB")
    return f"{count / unit:.1f} {name}"


def open_files(settings: Settings, _: Instant) -> Findings:
    """Compare the limit of open files with the connections that a worker may have."""
    _soft, hard = getrlimit(RLIMIT_NOFILE)
    connections = settings.limits.connections
    wanted = connections + OTHER_DESCRIPTORS
    if hard == RLIM_INFINITY or hard >= wanted:
        yield OPEN_FILES_GOOD.found(connections=connections)
    else:
        yield OPEN_FILES.found(limit=hard, wanted=wanted)


def file_modes(settings: Settings, _: Instant) -> Findings:
    """Find files with secrets that other users of the machine may use."""
    # The mode of the keyring is checked when it is opened.
    for file in _secret_files(settings):
        mode = _mode(file)
        if mode & _OTHERS:
            judged = FILE_MODE_OPEN if mode & (stat.S_IRWXO | stat.S_IWGRP) else FILE_MODE
            yield judged.found(what="file modes", file=file, mode=f"{mode:o}", right="600")
    for name, server in servers(settings):
        files = certificate_files(settings, server)
        if files is not None and (mode := _mode(files[1])) & stat.S_IRWXO:
            # A group for those who may read keys is usual.
            shown = {"file": files[1], "mode": f"{mode:o}", "right": "o="}
            yield FILE_MODE.found(what=f"{name} key", **shown)


def _secret_files(settings: Settings) -> Iterator[Path]:
    yield credential_path(settings)
    if settings.mail.password_file:
        yield settings.source.directory / settings.mail.password_file
    if settings.source.file is not None:
        # A password from the environment is not in the file.
        text = settings.source.file.read_text(encoding="utf-8", errors="replace")
        for _, server in servers(settings):
            if (password := urlsplit(server.database).password) and password in text:
                yield settings.source.file
                break


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
    "clock_synchronized", Level.OK, "this machine's clock", "The kernel says it is synchronized."
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
        yield (CLOCK_FREE if status & _UNSYNCHRONIZED else CLOCK_SYNCHRONIZED).found()


MACHINE_CHECKS = (
    MachineCheck("disk", disks, (DISK, DISK_FULL, DISK_GOOD)),
    MachineCheck("open_files", open_files, (OPEN_FILES, OPEN_FILES_GOOD)),
    MachineCheck("file_modes", file_modes, (FILE_MODE, FILE_MODE_OPEN)),
    MachineCheck("machine_clock", clock, (CLOCK_FREE, CLOCK_SYNCHRONIZED)),
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
            yield CERTIFICATE_UNREAD.found(server=name, file=files[0])
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
    return condition.found(server=server, day=day(until))


def orders(settings: Settings, _: Instant) -> Findings:
    """Report that the authority of `tls.acme` refused the last orders."""
    for name, server in servers(settings):
        if uses_acme(settings, server):
            times, last = failed_orders(settings, server)
            if times:
                shown = {"authority": settings.tls.acme, "times": times, "at": moment(last)}
                yield ACME.found(server=name, **shown)


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
    ),
    MachineCheck("orders", orders, (ACME,)),
)
