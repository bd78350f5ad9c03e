"""Check the machine: disk space, open files, modes of files with secrets."""

import shutil
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

from valetkey.cli.doctoring.finding import Finding, bad, good, mind
from valetkey.cli.serving.worker import DESCRIPTORS
from valetkey.config.agreement import servers
from valetkey.config.paths import credential_path, database_file
from valetkey.config.settings import Settings

_LITTLE = 0.10  # of a disk
_HARDLY_ANY = 0.02
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MANY = 1 << 30  # bytes; with this much free a small share is no warning


async def machine(settings: Settings) -> AsyncIterator[Finding]:
    """Check this machine for what can stop a server or expose its secrets."""
    for finding in (*_disks(settings), *_descriptors(settings), *_modes(settings)):
        yield finding


def _disks(settings: Settings) -> Iterator[Finding]:
    folders = {
        (file.parent if file else settings.source.directory): name
        for name, server in servers(settings)
        for file in (database_file(settings, server),)
    }
    for folder, name in folders.items():
        if folder.is_dir():
            total, _, free = shutil.disk_usage(folder)
            yield judged_disk(f"{name} disk", folder, free, total)


def judged_disk(about: str, folder: Path, free: int, total: int) -> Finding:
    """Return the finding for `free` of `total` bytes."""
    found = f"{free / (1 << 30):.1f} GiB of {total / (1 << 30):.1f} GiB are free at {folder}"
    advice = "Without room nothing can be written, and sign-ins get 503. Free some, or grow it."
    if free < total * _HARDLY_ANY and free < _MANY:
        return bad(about, found, advice)
    if free < total * _LITTLE and free < 10 * _MANY:
        return mind(about, found, advice)
    return good(about, found)


def _descriptors(settings: Settings) -> Iterator[Finding]:
    _, hard = getrlimit(RLIMIT_NOFILE)
    wanted = settings.limits.connections + DESCRIPTORS
    if hard == RLIM_INFINITY or hard >= wanted:
        yield good("open files", f"a worker may open enough for {settings.limits.connections}")
        return
    yield mind(
        "open files",
        f"this user may open {hard}, and limits.connections needs {wanted}: workers take fewer",
        "LimitNOFILE= in the unit, or ulimit -Hn; or lower limits.connections",
    )


def _modes(settings: Settings) -> Iterator[Finding]:
    # The mode of the keyring is checked when it is opened: see `register`.
    secret = [credential_path(settings)]
    if settings.mail.password_file:
        secret.append(settings.source.directory / settings.mail.password_file)
    if settings.source.file is not None and "://" in settings.authorization.database:
        address = settings.authorization.database.partition("://")[2].partition("@")[0]
        if ":" in address and "/" not in address:
            # The database URL contains a password.
            secret.append(settings.source.file)
    for file in secret:
        try:
            mode = file.stat().st_mode
        except OSError:
            continue
        if mode & _OTHERS:
            found = f"others may use {file} (mode {stat.S_IMODE(mode):o}), which holds a secret"
            judged = bad if mode & (stat.S_IRWXO | stat.S_IWGRP) else mind
            yield judged("file modes", found, f"chmod 600 {file}")
