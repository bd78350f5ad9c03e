"""The one thread that writes to a SQLite database: many transactions in one commit."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from valetkey.database.asked import Asked, Work, tell
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.database.sqlite_connection import in_our_words, open_writer, run_work

_LONGEST_QUEUE = 2_000
_LARGEST_BATCH = 256
# Seconds to wait for another process (the command line, a second server) to finish writing,
# and between two attempts. SQLite's own waiting grows to 100 ms and would starve a busy server.
_PATIENCE = 5.0
_ATTEMPT_EVERY = 0.001


class Writer:
    """Owns the writing connection of one database and the thread that uses it.

    The thread takes everything that waits, runs each function between SAVEPOINT and RELEASE,
    commits once, and only then tells the callers, waking each event loop once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = open_writer(path, patience=_PATIENCE)
        self._queue: SimpleQueue[Asked | None] = SimpleQueue()
        self._queue_turn = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="valetkey-sqlite", daemon=True)
        self._thread.start()

    async def write(self, work: Work) -> Any:
        """Run `work` in a transaction. Raises `Overloaded` when 2,000 wait already."""
        asked = Asked(work)
        # The lock keeps anything from being put behind the mark that ends the thread.
        with self._queue_turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            if self._queue.qsize() >= _LONGEST_QUEUE:
                raise Overloaded("too many transactions wait")
            self._queue.put(asked)
        return await asked.future

    def close(self) -> None:
        """Finish what waits, then close. Blocks; call it from a thread that may."""
        with self._queue_turn:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._waiting()
            if batch:
                self._transact(batch)
                tell(batch)
        self._raw.close()

    def _waiting(self) -> tuple[list[Asked], bool]:
        """Everything that waits, at least one; and whether it is the last of all."""
        batch: list[Asked] = []
        try:
            asked = self._queue.get()
            while asked is not None:
                # A caller that has gone before its turn wants nothing any more.
                if not asked.future.cancelled():
                    batch.append(asked)
                if len(batch) == _LARGEST_BATCH:
                    return batch, False
                asked = self._queue.get_nowait()
        except Empty:
            return batch, False
        return batch, True

    def _transact(self, batch: Sequence[Asked]) -> None:
        try:
            self._begin()
            grouped = len(batch) > 1
            for asked in batch:
                self._one(asked, grouped=grouped)
            if grouped or batch[0].problem is None:
                self._raw.execute("COMMIT")
        except apsw.ConstraintError as problem:
            # A deferred constraint speaks at the commit, for nobody in particular: ask each.
            self._roll_back()
            if len(batch) == 1:
                batch[0].problem = in_our_words(problem)
            else:
                for asked in batch:
                    asked.again()
                    self._transact([asked])
        except Exception as problem:  # noqa: BLE001 - a thread that dies leaves callers waiting
            self._roll_back()
            for asked in batch:
                asked.problem = DatabaseUnavailable(f"SQLite: {problem}")

    def _begin(self) -> None:
        """Take the write lock up front, waiting for other processes.

        IMMEDIATE, because a read that later turns into a write would fail with
        SQLITE_BUSY_SNAPSHOT, whatever the timeout.
        """
        deadline = time.monotonic() + _PATIENCE
        self._raw.set_busy_timeout(0)
        while True:
            try:
                self._raw.execute("BEGIN IMMEDIATE")
            except apsw.ConnectionClosedError:
                # An earlier failure took the connection with it.
                self._raw = open_writer(self._path, patience=_PATIENCE)
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_ATTEMPT_EVERY)
            else:
                return

    def _one(self, asked: Asked, *, grouped: bool) -> None:
        """Run one function; when it raises, undo what it did and nothing else."""
        if grouped:
            self._raw.execute("SAVEPOINT work")
        try:
            asked.result = run_work(self._raw, asked.work)
        except BaseException as problem:
            asked.problem = problem
            if not self._raw.in_transaction:
                # SQLite gave the whole transaction up (disk full, for one), or `work` ended it.
                message = f"the transaction was lost: {problem}"
                raise DatabaseUnavailable(message) from problem
            self._raw.execute("ROLLBACK TO work" if grouped else "ROLLBACK")
        if grouped:
            self._raw.execute("RELEASE work")

    def _roll_back(self) -> None:
        try:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        except apsw.Error:
            # A connection that cannot even undo is given up; its lock goes with it.
            self._raw.close()
