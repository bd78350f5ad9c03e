"""The pool of threads with a PostgreSQL connection each, and the queue of transactions."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from valetkey.database.engine import (
    NOTICES,
    DatabaseUnavailable,
    Overloaded,
    Timeouts,
    WorkCancelled,
)
from valetkey.database.postgres_channel import Channel
from valetkey.database.postgres_session import PostgresSession, TransactionKind, Unconnected
from valetkey.database.queued import QueuedWork, Work, deliver_outcomes, group
from valetkey.kernel import metrics

_LONGEST_QUEUE = 2_000
_MOST_SCANS = 128
_LARGEST_GROUP = 32
_GROUPED = (TransactionKind.LOOK, TransactionKind.READ, TransactionKind.WRITE)
# Seconds during which transactions wait for the group that is under way, to form the next one. A
# second connection at once would halve the groups: twice as many commits and changes of thread.
_PATIENCE = 0.01
# Seconds that a group should take, estimated from those before it: on a distant server transactions
# are spread over the connections instead.
_GROUP_SECONDS = 0.02
# Seconds between two attempts to open another connection, while the open ones do the work.
_GROW_AGAIN = 0.25


class Pool:
    """Runs transactions on up to `size` threads, grouping several when more wait than are free.

    A thread starts when a transaction finds none free. Transactions of one kind begin in the order
    in which they arrived; those that arrive while a group of theirs is young form the next group.
    A thread that cannot connect passes its transactions on to those that are connected, and ends: a
    password may just be changing, or the server may have no connection left.
    """

    def __init__(
        self,
        parameters: Mapping[str, str],
        size: int,
        timeouts: Timeouts,
        revised: Callable[[], None],
    ) -> None:
        """Connect with these parameters; call `revised` after a write to table `revision`."""
        self._parameters = parameters
        self._timeouts = timeouts
        self._size = size
        self._revised = revised
        self._turn = threading.Condition()
        # Waiting transactions, each with its position in the order of arrival.
        self._waiting: dict[TransactionKind, deque[tuple[int, QueuedWork]]] = {
            kind: deque() for kind in TransactionKind
        }
        self._arrivals = 0
        # Of each kind: the groups under way, when the latest began, and the usual seconds for each
        # transaction.
        self._running = dict.fromkeys(TransactionKind, 0)
        self._began = dict.fromkeys(TransactionKind, 0.0)
        self._pace = dict.fromkeys(TransactionKind, 0.0)
        self._relief_due = 0.0
        # Threads that wait and have not been woken.
        self._idle = 0
        self._closed = False
        self.refused = ""
        self.failures = 0
        # Connections whose commit has no answer: a standby is missing, or the server is frozen.
        # Closing them would leave a server process each behind, until the server accepts no more
        # connections.
        self._unconfirmed: list[Channel] = []
        self._threads: dict[threading.Thread, PostgresSession] = {}
        self._grows_at = 0.0
        metrics.POOL.read_from(lambda: self._idle, "idle")
        metrics.POOL.read_from(lambda: len(self._threads) - self._idle, "busy")
        metrics.POOL.set(size, "limit")
        for kind in TransactionKind:
            metrics.QUEUE.read_from(self._waiting[kind].__len__, f"database_{kind.name.lower()}")

    async def run(self, kind: TransactionKind, work: Work) -> Any:
        """Run `work`. Raises `Overloaded` when 2,000 of its kind wait, or 128 reports."""
        asked = QueuedWork(work)
        with self._turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            if self.refused:
                raise DatabaseUnavailable(self.refused)
            if kind is TransactionKind.WRITE and self._confirms_nothing():
                self.failures += 1
                raise DatabaseUnavailable("PostgreSQL does not confirm commits: is a standby gone?")
            waiting = self._waiting[kind]
            if len(waiting) >= (_MOST_SCANS if kind is TransactionKind.SCAN else _LONGEST_QUEUE):
                raise Overloaded("too many transactions wait")
            self._arrivals += 1
            waiting.append((self._arrivals, asked))
            begins = self._wake()
            if not self._threads:
                waiting.pop()
                raise DatabaseUnavailable("the system starts no thread for a connection")
            if not begins:
                self._schedule_relief(asked.loop)
        try:
            return await asked.answer(kind.limit(self._timeouts))
        except WorkCancelled:
            raise
        except DatabaseUnavailable:
            self.failures += kind is TransactionKind.WRITE
            metrics.DATABASE_FAILURES.add()
            raise

    def close(self) -> None:
        """Finish the queue, then disconnect. Blocks; call it from a thread that may."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        for thread in list(self._threads):
            thread.join()
        for channel in self._unconfirmed:
            channel.close()

    def _count_failure(self) -> None:
        self.failures += 1

    def _keep_unconfirmed(self, channel: Channel) -> None:
        with self._turn:
            self._unconfirmed.append(channel)

    def _confirms_nothing(self) -> bool:
        """Return whether as many commits as there are threads have had no answer yet."""
        if len(self._unconfirmed) < self._size:
            return False
        for channel in [each for each in self._unconfirmed if not each.is_silent()]:
            self._unconfirmed.remove(channel)
            channel.close()
        return len(self._unconfirmed) >= self._size

    def _wake(self) -> bool:
        """Let a thread take what may begin; return whether nothing had to be left waiting."""
        if self._next() is None:
            return False
        if self._idle:
            self._idle -= 1
            self._turn.notify()
        elif len(self._threads) < self._size and monotonic() >= self._grows_at:
            self._start_thread()
        return True

    def _schedule_relief(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        # A loop that ended never calls back.
        if now > self._relief_due + _PATIENCE:
            self._relief_due = now + _PATIENCE
            loop.call_later(_PATIENCE, self._relieve, loop)

    def _relieve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin what waits for a group that takes long."""
        with self._turn:
            self._relief_due = 0.0
            self._wake()
            if any(self._waiting[kind] for kind in _GROUPED):
                self._schedule_relief(loop)

    def _start_thread(self) -> None:
        name = f"valetkey-postgres-{len(self._threads) + 1}"
        session = PostgresSession(
            self._parameters,
            self._timeouts,
            self._revised,
            self._count_failure,
            self._keep_unconfirmed,
        )
        thread = threading.Thread(target=self._serve, args=(session,), name=name, daemon=True)
        self._threads[thread] = session
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            # The system is out of threads or memory: those that run do the work.
            del self._threads[thread]
            self._grows_at = monotonic() + _GROW_AGAIN

    def _serve(self, session: PostgresSession) -> None:
        while (taken := self._take()) is not None:
            kind, batch = taken
            left: Unconnected | None = None
            try:
                with group(kind.name.lower(), batch):
                    left = session.run(kind, batch)
            except Exception as problem:  # noqa: BLE001 - a thread that dies leaves callers waiting
                session.close()
                for asked in batch:
                    asked.problem = problem
                deliver_outcomes(batch)
            finally:
                self._ended(kind, len(batch))
            if left is not None and self._pass_on(kind, left):
                return
        session.close()

    def _pass_on(self, kind: TransactionKind, left: Unconnected) -> bool:
        """Leave transactions to the threads that are connected; refuse them if there are none.

        Return whether they were left to others: the calling thread is then no longer in the pool.
        """
        with self._turn:
            others = not self._closed and any(each.is_connected for each in self._threads.values())
            if others:
                del self._threads[threading.current_thread()]
                self._grows_at = monotonic() + _GROW_AGAIN
                # Number 0: these waited longer than everything in the queue.
                self._waiting[kind].extendleft((0, asked) for asked in reversed(left.batch))
                self._wake()
        if others:
            NOTICES.refused(str(left.problem))
            return True
        for asked in left.batch:
            asked.problem = left.problem
        deliver_outcomes(left.batch)
        return False

    def _ended(self, kind: TransactionKind, count: int) -> None:
        with self._turn:
            self._running[kind] -= 1
            took = (monotonic() - self._began[kind]) / max(1, count)
            # One that waited long for a lock says nothing about the next.
            self._pace[kind] += (min(took, _GROUP_SECONDS / 4) - self._pace[kind]) / 4

    def _take(self) -> tuple[TransactionKind, list[QueuedWork]] | None:
        """Wait for the next batch of this thread; return None when the pool is closed and empty."""
        with self._turn:
            while (kind := self._next()) is None:
                if self._closed:
                    return None
                self._idle += 1
                self._turn.wait()
            waiting = self._waiting[kind]
            count = 1
            if kind in _GROUPED:
                usual = max(self._pace[kind], _GROUP_SECONDS / _LARGEST_GROUP)
                count = min(len(waiting), max(1, int(_GROUP_SECONDS / usual)))
            batch = [waiting.popleft()[1] for _ in range(count)]
            self._running[kind] += 1
            self._began[kind] = monotonic()
            self._wake()
        # The result of a caller that was cancelled or timed out is not needed any more.
        return kind, [asked for asked in batch if not asked.future.done()]

    def _next(self) -> TransactionKind | None:
        """Return the kind that has waited longest, of those that may begin."""
        ready = [kind for kind, waiting in self._waiting.items() if waiting and self._may(kind)]
        return min(ready, key=lambda kind: self._waiting[kind][0][0], default=None)

    def _may(self, kind: TransactionKind) -> bool:
        """Return whether the next of this kind may begin now."""
        running = self._running[kind]
        if kind is TransactionKind.SCAN:
            # Reports use at most half of the connections.
            return running < max(1, self._size // 2)
        if not running or kind not in _GROUPED:
            return True
        is_full = len(self._waiting[kind]) >= _LARGEST_GROUP
        return is_full or monotonic() - self._began[kind] >= _PATIENCE
