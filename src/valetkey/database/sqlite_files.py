"""The files of a SQLite database: made for their owner alone, and refused when others read them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from valetkey.kernel.refusal import Mistake

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def files_of(path: Path) -> Iterator[Path]:
    """The database file, its write-ahead log and the log's index: those that exist."""
    for end in ("", "-wal", "-shm"):
        file = Path(f"{path}{end}")
        if file.exists():
            yield file


def require_private(path: Path) -> None:
    """Raise Mistake where the group or everybody may read or write one of the files."""
    open_to_others = [str(file) for file in files_of(path) if file.stat().st_mode & _OTHERS]
    if open_to_others:
        files = " ".join(open_to_others)
        message = f"{path} holds a server's database and others may read it; run: chmod 600 {files}"
        raise Mistake(message)


def create_file(path: Path) -> None:
    """Make an empty database file of mode 0600, and the folder it needs; leave what is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    # The new name itself must survive a power cut, or an acknowledged commit goes with it.
    sync(path.parent)


def sync(path: Path) -> None:
    """Have the system write the file or folder to its disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
