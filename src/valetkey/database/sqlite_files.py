"""The files of a SQLite database: require private modes, and detect their replacement."""

import os
import stat
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from valetkey.kernel.refusal import OperatorError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ENDS = ("", "-wal", "-shm")
_LOOK_EVERY = 0.1  # seconds
_SYNC_EVERY = 0.01  # seconds


def files_of(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Return those that exist of the database file, its write-ahead log and the log's index.

    Another process may delete the last two at any moment, when it closes its last connection: what
    `stat` says comes with each, because asking again could fail.
    """
    for end in _ENDS:
        file = Path(f"{path}{end}")
        with suppress(FileNotFoundError):
            yield file, file.stat()


def require_private(path: Path) -> None:
    """Raise OperatorError if group or others may read or write one of the files."""
    open_to_others = [str(file) for file, state in files_of(path) if state.st_mode & _OTHERS]
    if open_to_others:
        files = " ".join(open_to_others)
        message = (
            f"{path} holds a server's database and other users can read it; run: chmod 600 {files}"
        )
        raise OperatorError(message)


def rename_files(path: Path, ending: str) -> None:
    """Rename the database file and the files beside it: `ending` follows the database's name.

    The database is renamed first: from then on no process opens it and makes a log, which would be
    taken for the log of the next database of this name. A process that ends meanwhile may delete
    its log.
    """
    for end in ("", "-journal", *_ENDS[1:]):
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").rename(f"{path}{ending}{end}")


def create_file(path: Path) -> None:
    """Create an empty database file of mode 0600 and its folder, unless they exist."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    # The directory entry must survive a power cut as well, or acknowledged commits are lost.
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush the file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def sync_while_written(path: Path) -> Generator[None]:
    """Flush what is written to the file all the time while the block runs, on another thread.

    Flushing a large file only once it is complete delays every commit on the same disk meanwhile.
    """
    over = threading.Event()
    descriptor = os.open(path, os.O_RDONLY)

    def sync_often() -> None:
        while not over.wait(_SYNC_EVERY):
            os.fsync(descriptor)

    try:
        with ThreadPoolExecutor(1, "valetkey-sync") as thread:
            syncing = thread.submit(sync_often)
            try:
                yield
            finally:
                over.set()
        # The kernel reports a failure once: a later flush of this file may succeed.
        syncing.result()
    finally:
        os.close(descriptor)


class OpenFiles:
    """The open files by device and inode, to check that their names still lead to them.

    Writes to a deleted or replaced file are lost when the process ends, so the database is refused
    from then on. `lost` gives the reason, "" while the files are in place.
    """

    __slots__ = ("_due", "_known", "_path", "_refused", "lost")

    def __init__(self, path: Path) -> None:
        """Record the file at `path`, which is to be opened; call `opened` after that."""
        self._path = path
        file = path.stat()
        self._known = {"": (file.st_dev, file.st_ino)}
        self._refused = ""
        self._due = 0.0
        self.lost = ""

    def opened(self) -> None:
        """Record the log and its index, which a connection now keeps in place.

        Before that, another process may delete them: SQLite does so when its last connection to the
        database is closed.
        """
        self._known = {"": self._known[""]}
        self.compare_files()

    def compare_files(self) -> str:
        """Compare the files with those that were opened; return what is wrong."""
        self._due = time.monotonic() + _LOOK_EVERY
        self.lost = self._refused or self._compare()
        return self.lost

    def compare_occasionally(self) -> str:
        """Compare the files as `compare_files` does, at most ten times a second."""
        return self.compare_files() if time.monotonic() > self._due else self.lost

    def refuse(self, why: str) -> None:
        """Refuse the database for another reason; "" ends that."""
        self._refused = why
        self.compare_files()

    def _compare(self) -> str:
        for end in _ENDS:
            file = Path(f"{self._path}{end}")
            try:
                state = file.stat()
            except OSError:
                # The log and its index are created by the first commit.
                if end in self._known or not end:
                    return f"{file} is gone"
                continue
            found = (state.st_dev, state.st_ino)
            if self._known.setdefault(end, found) != found:
                return f"{file} was replaced by another file"
        return ""
