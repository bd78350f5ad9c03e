"""The SQLite engine: one writer thread with group commit, readers on the calling thread."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, cast

import apsw

from valetkey.database.engine import (
    NOTICES,
    Connection,
    DatabaseUnavailable,
    Overloaded,
    Row,
    SelfTest,
    T,
    Timeouts,
    WorkCancelled,
    refuse_nesting,
    run_work,
    storable,
)
from valetkey.database.queued import QueuedWork, Work, deliver_outcomes, group
from valetkey.database.sqlite_connection import (
    LogIndex,
    OpenFiles,
    SingleSQLiteStatement,
    SQLiteConnection,
    copy,
    create_file,
    files_of,
    open_reader,
    open_writer,
    require_private,
    translate_error,
)
from valetkey.kernel import metrics
from valetkey.kernel.bounded_threads import BoundedThreads, Full
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import IssuerThread

_LONGEST_QUEUE = 2_000
_LARGEST_BATCH = 256
# Seconds between two attempts to begin while another process (the command line, a second server)
# writes. SQLite's own busy handler waits up to 100 ms, which would starve a busy server.
_ATTEMPT_EVERY = 0.001
# Pages of the log after which it is copied into the database, and after which it is to restart.
_LOG_PAGES = 1_000
_LONGEST_LOG = 8_000


class Checkpoints:
    """Copies the write-ahead log into the database, on a separate thread.

    SQLite would do it at the end of a commit and delay all writers: in a large database a thousand
    pages lie in a thousand places. A log restarts when a commit finds all of it copied, which may
    never happen under constant writes. Once the log is long, the writer therefore copies the small
    remainder itself.
    """

    def __init__(
        self,
        path: Path,
        *,
        patience: float,
        pages: int = _LOG_PAGES,
        longest: int = _LONGEST_LOG,
    ) -> None:
        """Copy after every `pages` pages; make the log restart once it has `longest` pages.

        Opening the database waits `patience` seconds for a lock.
        """
        self._path = path
        self._patience = patience
        self._pages = pages
        self._longest = longest
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked = 0
        self._rest = False

    def committed(self, raw: apsw.Connection) -> None:
        """Note a commit on the writer's connection `raw`; called on the writer's thread."""
        # Polled here: an SQLite hook would take Python's lock once more in every commit.
        try:
            written = raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        except apsw.ConnectionClosedError:
            # The connection was closed by an earlier failure; a new one counts from zero.
            self._asked = 0
            return
        if self._rest:
            self._rest = False
            self._copy(raw)
        elif written - self._asked >= self._pages:
            self._asked = written
            if self._thread is None:
                thread = IssuerThread(self._run, "valetkey-checkpoint")
                # The system may be out of threads: the writer must live, and a later commit tries
                # again.
                with contextlib.suppress(RuntimeError, MemoryError):
                    thread.start()
                    self._thread = thread
            self._due.set()

    def close(self) -> None:
        """End the thread; its connection is closed when this returns."""
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        raw: apsw.Connection | None = None
        while True:
            self._due.wait()
            self._due.clear()
            if self._closed:
                break
            # The database may be impossible to open now; a later commit tries again.
            with contextlib.suppress(apsw.Error, OSError):
                raw = raw or open_writer(self._path, patience=self._patience)
                if self._copy(raw) >= self._longest:
                    # Few pages came meanwhile, and even fewer come while those are copied.
                    self._copy(raw)
                    self._rest = True
        if raw is not None:
            raw.close()

    def _copy(self, raw: apsw.Connection) -> int:
        """Copy what is available, unless another process is copying; return the log's pages."""
        with contextlib.suppress(apsw.Error):
            return raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[0]
        return 0


class Writer:
    """Owns the write connection of one database and the thread that uses it.

    The thread takes everything that waits, runs the functions one after the other, commits once,
    and only then delivers the outcomes, waking each event loop once. If a function raised after it
    wrote, all are undone and run again, each between SAVEPOINT and RELEASE: savepoints cost more
    than most transactions.
    """

    def __init__(self, path: Path, files: OpenFiles, timeouts: Timeouts) -> None:
        self._path = path
        self._files = files
        self._timeouts = timeouts
        self._checkpoints = Checkpoints(path, patience=timeouts.lock)
        self._open()
        self._queue: SimpleQueue[QueuedWork | None] = SimpleQueue()
        self._queue_turn = threading.Lock()
        # The results of `once` in the current transaction.
        self._known: dict[str, Row | None] = {}
        self._coming: dict[asyncio.AbstractEventLoop, list[QueuedWork]] = {}
        self._closed = False
        metrics.QUEUE.read_from(self._queue.qsize, "database_write")
        # Transactions that could not be begun, run or committed in time, and groups undone.
        self.failures = 0
        self._thread = IssuerThread(self._run, "valetkey-sqlite")
        self._thread.start()

    async def write(self, work: Work, *, limited: bool = True) -> Any:
        """Run `work` in a transaction; if `limited`, for at most `Timeouts.answer`.

        Otherwise it waits for other processes for as long as they write. Raises `Overloaded` when
        2,000 are already waiting.
        """
        queued = QueuedWork(work, limited=limited)
        # The lock keeps work from being queued behind the entry that ends the thread.
        with self._queue_turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            if self._queue.qsize() + sum(map(len, self._coming.values())) >= _LONGEST_QUEUE:
                raise Overloaded("too many transactions wait")
            coming = self._coming.setdefault(queued.loop, [])
            coming.append(queued)
            if len(coming) == 1:
                queued.loop.call_soon(self._hand_over, queued.loop)
        try:
            return await queued.answer(self._timeouts.answer if limited else None)
        except WorkCancelled:
            raise
        except DatabaseUnavailable:
            self.failures += 1
            metrics.DATABASE_FAILURES.add()
            raise

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        # Everything requested in one turn of the loop is queued together: queued one by one, the
        # thread would commit the first before the others arrive.
        with self._queue_turn:
            for queued in self._coming.pop(loop, ()):
                self._queue.put(queued)

    def close(self) -> None:
        """Finish the queue, then close. Blocks; call it from a thread that may."""
        with self._queue_turn:
            if not self._closed:
                self._closed = True
                for queued in chain.from_iterable(self._coming.values()):
                    self._queue.put(queued)
                self._coming.clear()
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._waiting()
            if batch:
                with group("write", batch):
                    self._transact(batch)
                deliver_outcomes(batch)
                self._checkpoints.committed(self._raw)
        self._checkpoints.close()
        self._raw.close()

    def _waiting(self) -> tuple[list[QueuedWork], bool]:
        """Return everything that waits, at least one, and whether the queue has ended."""
        batch: list[QueuedWork] = []
        try:
            queued = self._queue.get()
            while queued is not None:
                # The result of a caller that was cancelled or timed out is not needed any more.
                if not queued.future.done():
                    batch.append(queued)
                if len(batch) == _LARGEST_BATCH:
                    return batch, False
                queued = self._queue.get_nowait()
        except Empty:
            return batch, False
        return batch, True

    def _open(self) -> None:
        self._raw = open_writer(self._path, patience=self._timeouts.lock)
        self._files.opened()
        # A connection to a file that took the place of the database is not kept.
        self._is_open = not self._files.lost

    def _transact(self, batch: Sequence[QueuedWork]) -> None:
        try:
            self._begin(batch)
            if len(batch) == 1 or not self._all(batch):
                for queued in batch:
                    self._one(queued, grouped=len(batch) > 1)
            if len(batch) > 1 or batch[0].problem is None:
                began = monotonic()
                self._raw.execute("COMMIT")
                took = monotonic() - began
                if took >= NOTICES.slow:
                    NOTICES.report_slow("COMMIT", took)
        except apsw.ConstraintError as problem:
            # A deferred constraint fails at the commit, for no particular function: run each alone.
            self._roll_back()
            if len(batch) == 1:
                batch[0].problem = translate_error(problem)
            else:
                for queued in batch:
                    queued.again()
                    self._transact([queued])
        except Exception as problem:  # noqa: BLE001 - a thread that dies leaves callers waiting
            self._roll_back()
            for queued in batch:
                queued.problem = DatabaseUnavailable(f"SQLite: {problem}")

    def _begin(self, batch: Sequence[QueuedWork]) -> None:
        """Take the write lock for `batch` up front, waiting for other processes.

        IMMEDIATE, because a read that later turns into a write would fail with
        SQLITE_BUSY_SNAPSHOT, with any timeout.
        """
        if not self._is_open:
            self._open()
        if lost := self._files.compare_occasionally():
            raise DatabaseUnavailable(lost)
        deadline = time.monotonic() + self._timeouts.lock
        self._known.clear()
        self._raw.set_busy_timeout(0)
        while True:
            try:
                self._raw.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                patient = any(queued.waits_for_lock for queued in batch)
                if time.monotonic() > deadline and not patient:
                    raise
                time.sleep(_ATTEMPT_EVERY)
            else:
                return

    def _all(self, batch: Sequence[QueuedWork]) -> bool:
        """Run all without savepoints; return False, all undone, if one raised after it wrote."""
        for queued in batch:
            if self._run_one(queued):
                self._raw.execute("ROLLBACK")
                self.failures += 1
                for work in batch:
                    work.again()
                self._begin(batch)
                return False
        return True

    def _one(self, queued: QueuedWork, *, grouped: bool) -> None:
        """Run one function; if it raises, undo only its own changes."""
        if grouped:
            self._raw.execute("SAVEPOINT work")
        self._run_one(queued)
        if queued.problem is not None:
            self._raw.execute("ROLLBACK TO work" if grouped else "ROLLBACK")
            self._known.clear()
        if grouped:
            self._raw.execute("RELEASE work")

    def _run_one(self, queued: QueuedWork) -> bool:
        """Run one function; return whether it raised after it wrote."""
        connection = SQLiteConnection(self._raw, self._known, queued.require_not_abandoned)
        try:
            queued.require_caller()
            queued.result = run_work(connection, queued.work)
            # A client that left would find a code or token spent for which it received no response.
            queued.require_caller()
        except BaseException as problem:
            queued.problem = problem
            if not self._raw.in_transaction:
                # SQLite rolled back the whole transaction (for example on a full disk), or `work`
                # ended it.
                message = f"the transaction was lost: {problem}"
                raise DatabaseUnavailable(message) from problem
            return connection.wrote
        return False

    def _roll_back(self) -> None:
        try:
            # Counted here, before the next transaction: callers are notified later.
            self.failures += 1
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        except apsw.Error:
            # A connection that cannot roll back is closed, which releases its lock.
            self._is_open = False
            self._raw.close()


LARGEST = 1 << 30
"""Bytes of the largest file that is read for this."""

IS_POSSIBLE = "ENABLE_DBSTAT_VTAB" in apsw.compile_options
"""Whether this SQLite counts its pages; a build of one's own may not."""

_EVERY = 60.0  # seconds
_SHARE = 1_000
"""The time of a measurement is at most one part in so many."""

# Of each page: B-trees with their overflow pages, indexes as parts of their tables.
_SIZES = (
    "SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize) FROM dbstat AS d"
    " LEFT JOIN sqlite_schema AS s ON s.name = d.name WHERE d.aggregate = TRUE GROUP BY 1"
)


class TableSizes:
    """The bytes of each table with its indexes, as measured last."""

    __slots__ = ("_due", "found")

    def __init__(self) -> None:
        """Start without sizes."""
        self.found: Mapping[str, int] = {}
        self._due = 0.0

    def is_due(self, size: int) -> bool:
        """Return whether to measure now; `size` is that of the file. Forgets what is too old."""
        if size > LARGEST or not IS_POSSIBLE:
            self.found = {}
            return False
        return monotonic() >= self._due

    def measure(self, db: Connection) -> None:
        """Read every page."""
        begun = monotonic()
        # Also after a failure.
        self._due = begun + _EVERY
        self.found = dict(db.rows(_SIZES))
        ended = monotonic()
        self._due = max(self._due, ended + _SHARE * (ended - begun))


# Seconds a read may wait for a lock. Readers of a write-ahead log do not wait, except while another
# process recovers or truncates it.
_READ_PATIENCE = 0.05
_COPY_PATIENCE = 5.0
_SCANNERS = 2
# Of half a second each, the last of these waits as long as half of the time limit for reports.
_MOST_SCANS = 128
_TIMEOUTS = Timeouts()


class _Reader:
    """A read connection and its cached state of `changed`. Belongs to one thread."""

    __slots__ = ("mark", "number", "raw", "version")

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self.version = -1
        self.mark: bytes | None = None
        self.number = 0


class SQLite:
    """A SQLite database in a file, as an `engine.Engine`."""

    def __init__(self, path: Path, *, begins: bool = True, timeouts: Timeouts = _TIMEOUTS) -> None:
        """Open the file; if it is missing, create it if this `begins` the database.

        Raises `DatabaseUnavailable`, and `OperatorError` if other users may read its files.
        """
        self._path = path
        try:
            if begins:
                create_file(path)
            require_private(path)
            self._files = OpenFiles(path)
            self._writer = Writer(path, self._files, timeouts)
        except (apsw.Error, OSError) as problem:
            raise DatabaseUnavailable(f"cannot open {path}: {problem}") from problem
        self._this_thread = threading.local()
        self._readers: list[_Reader] = []
        self._readers_turn = threading.Lock()
        self._closed = False
        self._tables = TableSizes()
        self._index: LogIndex | None = None
        self._scanners = BoundedThreads(_SCANNERS, _MOST_SCANS - _SCANNERS, "valetkey-scan")
        self._ordinal = count(1)

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read`; runs on the calling thread: a hop costs more than a look-up."""
        # Checked here and not in the coroutine: work that forgets to await it must fail too.
        refuse_nesting()
        return self._read(work)

    def read_one(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read_one`; on the calling thread."""
        refuse_nesting()
        return self._read_one(work)

    def row(self, sql: str, /, **params: object) -> Coroutine[Any, Any, Row | None]:
        """See `Engine.row`; on the calling thread. A single statement is its own snapshot."""
        refuse_nesting()
        return self._row(sql, params)

    def scan(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.scan`; runs on one of two separate threads. Raises `Overloaded`."""
        refuse_nesting()
        return self._on_scanner(lambda: self._snapshot(work))

    def write(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.write`. Raises `Overloaded`."""
        refuse_nesting()
        return self._writer.write(work)

    def change_schema(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.change_schema`."""
        # The write lock is the only lock, and it is not timed once it is taken.
        refuse_nesting()
        return self._writer.write(work, limited=False)

    def has_replica(self) -> bool:
        """Return False: a file has no replicas."""
        return False

    async def read_replica(self, work: Callable[[Connection], T | None]) -> T | None:
        """Return None: a file has no replicas."""
        del work
        return None

    def mark(self) -> bytes | None:
        """See `Engine.mark`."""
        index = self._index
        return None if index is None or self._files.lost else index.head()

    def changed(self) -> int:
        """See `Engine.changed`."""
        reader = self._reader()
        mark = self.mark()
        if mark is not None and mark == reader.mark:
            return reader.number
        try:
            version = cast("int", reader.raw.pragma("data_version"))
            if version != reader.version:
                reader.version = version
                reader.number = self._revision(reader, version)
            reader.mark = mark
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        return reader.number

    def check_identity(self) -> str:
        """See `Engine.check_identity`."""
        return self._files.compare_files()

    def failures(self) -> int:
        """See `Engine.failures`."""
        return self._writer.failures

    def refuse(self, why: str) -> None:
        """See `Engine.refuse`."""
        self._files.refuse(why)

    async def self_test(self, random: Callable[[int], bytes]) -> SelfTest:
        """See `Engine.self_test`: nothing to test, because SQLite is part of the program."""
        return SelfTest()

    async def sizes(self) -> Mapping[str, int]:
        """See `Engine.sizes`; tables in files of up to 1 GiB, now and then, as far as possible."""
        files = {
            str(file).removeprefix(str(self._path)).removeprefix("-") or "main": state.st_size
            for file, state in files_of(self._path)
        }
        if self._tables.is_due(files.get("main", 0)):
            with suppress(DatabaseUnavailable, Overloaded):
                await self.scan(self._tables.measure)
        return {**self._tables.found, **files}

    def backup(self, path: str) -> Coroutine[Any, Any, None]:
        """See `Engine.backup`; raises `OperatorError` if there is a file at `path`."""
        refuse_nesting()
        return self._on_scanner(lambda: self._copy(Path(path)))

    async def close(self) -> None:
        """See `Engine.close`."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return self._snapshot(work)

    async def _read_one(self, work: Callable[[Connection], T]) -> T:
        return run_work(SingleSQLiteStatement(self._reader().raw, {}), work)

    async def _row(self, sql: str, params: dict[str, object]) -> Row | None:
        try:
            all_rows = self._reader().raw.execute(sql, storable(params)).fetchall()
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        return all_rows[0] if all_rows else None

    def _snapshot(self, work: Callable[[Connection], T]) -> T:
        raw = self._reader().raw
        try:
            raw.execute("BEGIN")
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        try:
            return run_work(SQLiteConnection(raw, {}), work)
        finally:
            if raw.in_transaction:
                raw.execute("ROLLBACK")

    def _reader(self) -> _Reader:
        if self._files.lost:
            raise DatabaseUnavailable(self._files.lost)
        try:
            reader: _Reader = self._this_thread.reader
        except AttributeError:
            return self._new_reader()
        return reader

    def _new_reader(self) -> _Reader:
        with self._readers_turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            try:
                reader = _Reader(open_reader(self._path, patience=_READ_PATIENCE))
                # The first read keeps the log's index open for as long as this connection exists.
                reader.raw.pragma("data_version")
                if self._index is None:
                    self._index = LogIndex.for_database(self._path)
            except apsw.Error as problem:
                raise translate_error(problem) from problem
            self._readers.append(reader)
        self._this_thread.reader = reader
        return reader

    def _revision(self, reader: _Reader, version: int) -> int:
        try:
            rows = reader.raw.execute("SELECT sum(number) FROM revision").fetchall()
        except apsw.SQLError:
            # The table does not exist yet. Two connections may report equal versions: keep them
            # apart.
            return (next(self._ordinal) << 40) + version
        return cast("int", rows[0][0] or 0)

    async def _on_scanner(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise DatabaseUnavailable("the database is closed")
        try:
            return await self._scanners.run(job)
        except Full:
            raise Overloaded("too many reports wait") from None

    def _copy(self, target: Path) -> None:
        try:
            copy(self._path, target, patience=_COPY_PATIENCE, pause=self._pause)
        except FileExistsError as problem:
            raise OperatorError(
                f"{target} exists already: name a new file for the backup"
            ) from problem
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        except OSError as problem:
            raise DatabaseUnavailable(f"cannot write {target}: {problem.strerror}") from problem

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        # Closing the database waits for its copies.
        if self._closed:
            raise DatabaseUnavailable("the database was closed")

    def _close(self) -> None:
        self._scanners.close(drop=False)
        with self._readers_turn:
            for reader in self._readers:
                reader.raw.close()
        # Last, because the last connection to close checkpoints the log, and a reader may not
        # write.
        self._writer.close()
        if self._index is not None:
            self._index.release()
