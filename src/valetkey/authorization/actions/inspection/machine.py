"""Checks of the machine: clock, disk space, open files, modes of files with secrets."""

import shutil
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
)
from valetkey.config.agreement import servers
from valetkey.config.paths import (
    certificate_files,
    credential_path,
    database_file,
    last_seen_path,
)
from valetkey.config.settings import OTHER_DESCRIPTORS, Settings
from valetkey.kernel.moment import Instant
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


CHECKS = (
    MachineCheck("disk", disks, (DISK, DISK_FULL, DISK_GOOD)),
    MachineCheck("open_files", open_files, (OPEN_FILES, OPEN_FILES_GOOD)),
    MachineCheck("file_modes", file_modes, (FILE_MODE, FILE_MODE_OPEN)),
    MachineCheck("machine_clock", clock, (CLOCK_FREE, CLOCK_SYNCHRONIZED)),
)
