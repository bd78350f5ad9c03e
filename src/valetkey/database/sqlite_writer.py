"""The single thread that writes to a SQLite database, committing many transactions at once."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import apsw

from valetkey.database.engine import (
    NOTICES,
    DatabaseUnavailable,
    Overloaded,
    Row,
    Timeouts,
    WorkCancelled,
    run_work,
)
from valetkey.database.queued import QueuedWork, Work, deliver_outcomes, group
from valetkey.database.sqlite_connection import (
    SQLiteConnection,
    open_writer,
    translate_error,
)
from valetkey.database.sqlite_files import OpenFiles
from valetkey.kernel import metrics

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
                thread = threading.Thread(target=self._run, name="valetkey-checkpoint", daemon=True)
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
        self._thread = threading.Thread(target=self._run, name="valetkey-sqlite", daemon=True)
        self._thread.start()

    async def write(self, work: Work, *, limited: bool = True) -> Any:
        """Run `work` in a transaction; if `limited`, for at most `Timeouts.answer`.

        Otherwise it waits for other processes for as long as they write. Raises `Overloaded` when
        2,000 are already waiting.
        """
        asked = QueuedWork(work, limited=limited)
        # The lock keeps work from being queued behind the entry that ends the thread.
        with self._queue_turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            if self._queue.qsize() + sum(map(len, self._coming.values())) >= _LONGEST_QUEUE:
                raise Overloaded("too many transactions wait")
            coming = self._coming.setdefault(asked.loop, [])
            coming.append(asked)
            if len(coming) == 1:
                asked.loop.call_soon(self._hand_over, asked.loop)
        try:
            return await asked.answer(self._timeouts.answer if limited else None)
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
            for asked in self._coming.pop(loop, ()):
                self._queue.put(asked)

    def close(self) -> None:
        """Finish the queue, then close. Blocks; call it from a thread that may."""
        with self._queue_turn:
            if not self._closed:
                self._closed = True
                for asked in chain.from_iterable(self._coming.values()):
                    self._queue.put(asked)
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
            asked = self._queue.get()
            while asked is not None:
                # The result of a caller that was cancelled or timed out is not needed any more.
                if not asked.future.done():
                    batch.append(asked)
                if len(batch) == _LARGEST_BATCH:
                    return batch, False
                asked = self._queue.get_nowait()
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
                for asked in batch:
                    self._one(asked, grouped=len(batch) > 1)
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
                for asked in batch:
                    asked.again()
                    self._transact([asked])
        except Exception as problem:  # noqa: BLE001 - a thread that dies leaves callers waiting
            self._roll_back()
            for asked in batch:
                asked.problem = DatabaseUnavailable(f"SQLite: {problem}")

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
                patient = any(asked.waits_for_lock for asked in batch)
                if time.monotonic() > deadline and not patient:
                    raise
                time.sleep(_ATTEMPT_EVERY)
            else:
                return

    def _all(self, batch: Sequence[QueuedWork]) -> bool:
        """Run all without savepoints; return False, all undone, if one raised after it wrote."""
        for asked in batch:
            if self._run_one(asked):
                self._raw.execute("ROLLBACK")
                self.failures += 1
                for each in batch:
                    each.again()
                self._begin(batch)
                return False
        return True

    def _one(self, asked: QueuedWork, *, grouped: bool) -> None:
        """Run one function; if it raises, undo only its own changes."""
        if grouped:
            self._raw.execute("SAVEPOINT work")
        self._run_one(asked)
        if asked.problem is not None:
            self._raw.execute("ROLLBACK TO work" if grouped else "ROLLBACK")
            self._known.clear()
        if grouped:
            self._raw.execute("RELEASE work")

    def _run_one(self, asked: QueuedWork) -> bool:
        """Run one function; return whether it raised after it wrote."""
        connection = SQLiteConnection(self._raw, self._known, asked.require_not_abandoned)
        try:
            asked.require_caller()
            asked.result = run_work(connection, asked.work)
            # A client that left would find a code or token spent for which it received no response.
            asked.require_caller()
        except BaseException as problem:
            asked.problem = problem
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
