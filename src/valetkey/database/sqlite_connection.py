"""SQLite's files and connections: private modes, opening, transactions, replacement."""

import contextlib
import mmap
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import ClassVar

import apsw

from valetkey.database.engine import (
    NOTICES,
    ConstraintViolated,
    DatabaseUnavailable,
    ReadOnly,
    Row,
    UnstorableValue,
    WorkCancelled,
    storable,
)
from valetkey.kernel.refusal import OperatorError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ENDS = ("", "-wal", "-shm")
_LOOK_EVERY = 0.1  # seconds


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
            identity = (state.st_dev, state.st_ino)
            if self._known.setdefault(end, identity) != identity:
                return f"{file} was replaced by another file"
        return ""


# Bytes to which the write-ahead log is truncated once it has been copied into the database.
_LOG_KEPT = 64 * 1024 * 1024
_STATEMENTS_KEPT = 500
_PAUSE = 0.01
_LOG_HEAD = 48
_LOG_READY = 12  # the byte that marks the header as initialised

_UNAVAILABLE = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.ProtocolError,
    apsw.PermissionsError,
    apsw.InterruptError,
    apsw.ConnectionClosedError,
)


def open_writer(path: Path, *, patience: float) -> apsw.Connection:
    """Open the connection that writes; opening waits `patience` seconds for other processes.

    The file must exist: one that vanished is not replaced by an empty one.
    """
    raw = _open(path, apsw.SQLITE_OPEN_READWRITE, patience)
    _keep_a_log(raw, patience)
    # A database that is new or a backup got its log just now, and no lock on it before the first
    # read: another process whose last connection is closed would delete the log.
    raw.pragma("data_version")
    # FULL: a commit is on disk before it is confirmed. NORMAL could lose the latest commits.
    raw.pragma("synchronous", "FULL")
    raw.pragma("foreign_keys", "ON")
    # The writer does not stop to copy the log into the file: `Checkpoints` does.
    raw.pragma("wal_autocheckpoint", 0)
    raw.pragma("journal_size_limit", _LOG_KEPT)
    return raw


def _keep_a_log(raw: apsw.Connection, patience: float) -> None:
    # When several processes open a new database at once, SQLite refuses this switch without
    # waiting, because two waiting for each other would deadlock.
    for _ in range(round(patience / _PAUSE)):
        with contextlib.suppress(apsw.BusyError):
            raw.pragma("journal_mode", "WAL")
            return
        time.sleep(_PAUSE)
    raw.pragma("journal_mode", "WAL")


def open_reader(path: Path, *, patience: float) -> apsw.Connection:
    """Open a connection that cannot write; the file must exist."""
    raw = _open(path, apsw.SQLITE_OPEN_READONLY, patience)
    raw.pragma("query_only", "ON")
    return raw


class LogIndex:
    """The header of a write-ahead log's index in shared memory, which changes with every commit.

    The format is guaranteed by SQLite ("WAL-mode File Format", section 2): 48 bytes, twice, with
    the log's salts, its length and a checksum over all its frames. Reading it avoids the locks and
    the statement of `PRAGMA data_version`.

    One object serves each file in the process, until every connection is closed: closing any
    descriptor of a file releases all the locks that the process holds on it (POSIX).
    """

    _open: ClassVar[dict[tuple[int, int], "LogIndex"]] = {}
    _turn: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, descriptor: int, key: tuple[int, int]) -> None:
        """Map the header; create instances with `of`."""
        self._descriptor = descriptor
        self._key = key
        self._users = 0
        self._memory = mmap.mmap(descriptor, _LOG_HEAD, prot=mmap.PROT_READ)

    @staticmethod
    def for_database(path: Path) -> "LogIndex | None":
        """Return the index of the open database at `path`; None if there is none to read."""
        with LogIndex._turn:
            try:
                state = Path(f"{path}-shm").stat()
                key = (state.st_dev, state.st_ino)
                index = LogIndex._open.get(key)
                if index is None:
                    index = LogIndex(os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC), key)
                    LogIndex._open[key] = index
            except (OSError, ValueError):
                return None
            index._users += 1
            return index

    def head(self) -> bytes | None:
        """Return the 48 bytes; None while SQLite has not yet initialised them."""
        head = self._memory[:_LOG_HEAD]
        return head if head[_LOG_READY] else None

    def release(self) -> None:
        """Close it if it has no other user in this process; the caller's connections are closed."""
        with LogIndex._turn:
            self._users -= 1
            if not self._users:
                del LogIndex._open[self._key]
                self._memory.close()
                os.close(self._descriptor)


# A megabyte: shorter than what delays a request that waits for the core or the disk.
_STEP_PAGES = 256
_STEP_CACHE = 16  # pages; what a step copied is written to the file by that step
_PAUSE_SHARE = 3.0  # times what a step took
_LONGEST_PAUSES = 60.0  # seconds, together


def copy(
    path: Path, target: Path, *, patience: float, pause: Callable[[float], object] = time.sleep
) -> None:
    """Write a consistent copy of the database to a new file, on disk when this returns.

    A step copies a megabyte and flushes it; then `pause` is called with three times the seconds
    that the step took, so that the copy uses a quarter of a core and of the disk. Pauses take a
    minute at most, together: the database's log cannot restart before the copy is complete.

    Raises `apsw.Error`, `FileExistsError` and other `OSError`; then there is no new file.
    """
    # Created empty here: SQLite would create it readable by other users.
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        raw = _open(path, apsw.SQLITE_OPEN_READWRITE, patience)
        try:
            # A backup outside a read transaction begins again after each write of another process.
            raw.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
            _copy_in_steps(raw, target, descriptor, pause)
        finally:
            raw.close()
        sync(target)
        sync(target.parent)
    except BaseException:
        target.unlink()
        raise
    finally:
        # Not before SQLite has closed the file: that would release its locks.
        os.close(descriptor)


def _copy_in_steps(
    source: apsw.Connection, target: Path, descriptor: int, pause: Callable[[float], object]
) -> None:
    raw = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # An incomplete copy is deleted: it needs no journal, and each step is flushed here.
        raw.pragma("locking_mode", "EXCLUSIVE")
        raw.pragma("journal_mode", "OFF")
        raw.pragma("synchronous", "OFF")
        raw.pragma("cache_size", _STEP_CACHE)
        left = _LONGEST_PAUSES
        with raw.backup("main", source, "main") as steps:
            while not steps.done:
                began = monotonic()
                steps.step(_STEP_PAGES)
                os.fsync(descriptor)
                seconds = min(_PAUSE_SHARE * (monotonic() - began), left)
                left -= seconds
                pause(seconds)
        # The copy says that it has a log beside it, as its source does.
        raw.pragma("journal_mode", "DELETE")
    finally:
        raw.close()


def check_backup(backup: Path, package: str) -> None:
    """Raise OperatorError unless the file is a sound database with the tables of `package`."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        raw = apsw.Connection(f"{backup.absolute().as_uri()}?immutable=1", flags=flags)
        try:
            owners = raw.execute("SELECT DISTINCT package FROM migrations").fetchall()
            sound = raw.pragma("quick_check")
        finally:
            raw.close()
    except apsw.Error:
        raise OperatorError(f"{backup} is not a backup of a Valetkey database") from None
    if owners != [(package,)]:
        raise OperatorError(f"{backup} is a backup of the other server's database")
    if sound != "ok":
        raise OperatorError(f"{backup} is damaged: {sound}")


def _open(path: Path, flags: int, patience: float) -> apsw.Connection:
    raw = apsw.Connection(str(path), flags=flags, statementcachesize=_STATEMENTS_KEPT)
    raw.set_busy_timeout(round(patience * 1000))
    # SQLite reads "name" as text if there is no such column: a typo would go unnoticed.
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    raw.pragma("trusted_schema", "OFF")
    raw.pragma("cell_size_check", "ON")
    return raw


def translate_error(problem: apsw.Error) -> Exception:
    """Translate an error into one of `engine`; programming errors stay as they are."""
    if isinstance(problem, apsw.ConstraintError):
        # The only triggers are those of a copy, which refuse every write.
        if getattr(problem, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_TRIGGER:
            return DatabaseUnavailable(f"SQLite: {problem}")
        return ConstraintViolated(str(problem))
    if isinstance(problem, apsw.ReadOnlyError):
        return ReadOnly("a read may not write")
    if isinstance(problem, _UNAVAILABLE):
        return DatabaseUnavailable(f"SQLite: {problem}")
    return problem


class SQLiteConnection:
    """The `engine.Connection` given to `work`. One object serves one transaction.

    `wrote` is true after anything but SELECT, whether or not it succeeded. `cache` keeps the
    results of `once` for all transactions that are committed together. `require` raises
    `WorkCancelled` once nothing waits for the outcome.
    """

    __slots__ = ("_known", "_raw", "_require", "failure", "wrote")

    def __init__(
        self,
        raw: apsw.Connection,
        cache: dict[str, Row | None],
        require: Callable[[], None] | None = None,
    ) -> None:
        self._require = require
        self._raw: apsw.Connection | None = raw
        self._known = cache
        self.failure: Exception | None = None
        self.wrote = False

    def rows(self, sql: str, /, **params: object) -> Sequence[Row]:
        """See `Connection.rows`."""
        return self._ask(sql, params)

    def row(self, sql: str, /, **params: object) -> Row | None:
        """See `Connection.row`."""
        # All rows, not one: a statement with RETURNING must be run to its end.
        all_rows = self._ask(sql, params)
        return all_rows[0] if all_rows else None

    def ahead(self, sql: str, /, **params: object) -> Callable[[], Sequence[Row]]:
        """See `Connection.ahead`: the rows are there at once."""
        all_rows = self._ask(sql, params)
        return lambda: all_rows

    def once(self, sql: str, /) -> Row | None:
        """See `Connection.once`."""
        if sql not in self._known:
            self._known[sql] = self.row(sql)
        return self._known[sql]

    def assume(self, sql: str, number: int, /) -> bool:
        """See `Connection.assume`: asking costs no more than assuming."""
        row = self.once(sql)
        return (0 if row is None else row[0]) == number

    def claim(self, sql: str, /, **params: object) -> bool:
        """See `Connection.claim`: the answer is there at once."""
        return self.run(sql, **params) == 1

    def run(self, sql: str, /, **params: object) -> int:
        """See `Connection.run`."""
        raw = self._raw or self._open_raw()
        before = raw.total_changes()
        self._ask(sql, params)
        # `changes()` keeps the count of an earlier statement if this one was not a write.
        return raw.changes() if raw.total_changes() != before else 0

    def send(self, sql: str, /, **params: object) -> None:
        """See `Connection.send`."""
        self._ask(sql, params)

    def _ask(self, sql: str, params: dict[str, object]) -> list[Row]:
        raw = self._raw
        if raw is None or self.failure is not None:
            raw = self._open_raw()
        if self._require is not None:
            try:
                self._require()
            except WorkCancelled as problem:
                self.failure = problem
                raise
        if not sql.startswith("SELECT"):
            self.wrote = True
            if "revision" in sql:
                self._known.clear()
        try:
            began = monotonic()
            all_rows = raw.execute(sql, storable(params)).fetchall()
            took = monotonic() - began
            if took >= NOTICES.slow:
                NOTICES.report_slow(sql, took)
            return all_rows
        except UnstorableValue as problem:
            self.failure = problem
            raise
        except apsw.Error as problem:
            raise self._failed(problem) from problem

    def at_commit(self, sql: str, /) -> None:
        """See `Connection.at_commit`: at once, because there is only one writer."""
        self._ask(sql, {})

    def share(self, sql: str, /, **params: object) -> None:
        """See `Connection.share`: nothing to do, because there is only one writer."""

    def exclude(self, sql: str, /, **params: object) -> None:
        """See `Connection.exclude`: nothing to do, because there is only one writer."""

    def end(self) -> None:
        """Detach from the ended transaction, so that code keeping this object cannot use it."""
        self._raw = None

    def _open_raw(self) -> apsw.Connection:
        if self._raw is None:
            raise RuntimeError("this transaction has ended")
        if self.failure is not None:
            raise self.failure
        return self._raw

    def _failed(self, problem: apsw.Error) -> Exception:
        self.failure = translate_error(problem)
        return self.failure


class SingleSQLiteStatement(SQLiteConnection):
    """The connection given to the work of `Engine.read_one`: it ends with the first statement."""

    __slots__ = ()

    def _ask(self, sql: str, params: dict[str, object]) -> list[Row]:
        all_rows = super()._ask(sql, params)
        self.end()
        return all_rows


def replace_with_backup(backup: Path, path: Path, *, package: str, aside: str) -> None:
    """Copy `backup` to `path`, mode 0600; the previous file is kept with `aside` appended.

    Raises OperatorError if the backup is not a database of `package`, and OSError.
    """
    check_backup(backup, package)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.restoring")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as target, backup.open("rb") as source:
        owner = path.parent.stat()
        if os.geteuid() == 0:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(descriptor)
    rename_files(path, aside)
    draft.rename(path)
    sync(path.parent)
