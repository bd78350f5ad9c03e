"""The temporary directory of one run of the servers: counters and sockets that workers share."""

import fcntl
import os
import shutil
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from valetkey.kernel.moment import Instant

_PREFIX = "valetkey-run-"
_LONGEST = 60
"""Characters of a directory in which the address of a worker's Unix socket fits (unix(7))."""
_MOST = 100  # directories of killed runs that one start removes
_NEW = 60  # seconds in which a directory may belong to a start that has not locked it yet


def begin(now: Instant) -> tuple[Path, int]:
    """Make the directory, which no other user can enter; return it and the descriptor of its lock.

    Directories of killed runs are removed: their locks are free.
    """
    parent = Path("/tmp" if len(gettempdir()) > _LONGEST else gettempdir())  # noqa: S108
    for old in islice(parent.glob(f"{_PREFIX}*"), _MOST):
        # Another user's, or removed by another start at this moment.
        with suppress(OSError):
            if old.lstat().st_mtime < now - _NEW:
                _remove_abandoned(old)
    folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
    return folder, _locked(folder)


def _remove_abandoned(folder: Path) -> None:
    descriptor = _locked(folder)
    try:
        if folder.stat().st_uid == os.geteuid():
            shutil.rmtree(folder)
    finally:
        os.close(descriptor)


def _locked(folder: Path) -> int:
    """Lock the directory; raises OSError while its run continues."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
