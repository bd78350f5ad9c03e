"""The pool of threads with a PostgreSQL connection each: running transactions, and again.

Statements travel in a pipeline: BEGIN with the first statement, and one whose result is not needed
with the next one or with COMMIT. The answer to ROLLBACK after a read is not awaited.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import inf
from time import monotonic
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from valetkey.database.engine import (
    NOTICES,
    DatabaseUnavailable,
    Lock,
    Overloaded,
    Row,
    Timeouts,
    WorkCancelled,
    run_work,
)
from valetkey.database.postgres_connection import (
    EXCLUDE,
    SETTINGS_OF_A_TRANSACTION,
    Channel,
    PostgresConnection,
    SinglePostgresStatement,
    limits_of_session,
    locking,
    open_channel,
    translate_error,
)
from valetkey.database.queued import QueuedWork, Work, deliver_outcomes, group
from valetkey.kernel import metrics
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import IssuerThread

_RETRIES = 9
# A proxy gave a transaction another server connection, without the statements prepared before.
_POOLED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
_RUN_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, *_POOLED)
# See `Connection.assume` and `Connection.claim`.
_GUESSED_WRONG = errors.DivisionByZero
# Any number will do, as long as every process uses it.
_SCHEMA_LOCK = 8_206_115_104_117_014_902
_WRITE = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PATIENTLY = b"SELECT set_config('statement_timeout', $1, true)"


class TransactionKind(Enum):
    """The purpose of a transaction: how it begins, and whether it only reads."""

    # A single SELECT is its own transaction.
    LOOK = ((), True)
    READ = ((_READ,), True)
    SCAN = ((_READ, _PATIENTLY), True)
    # Every invariant is one conditional statement, so READ COMMITTED is enough.
    WRITE = ((_WRITE,), False)
    SCHEMA = (
        (
            _WRITE,
            b"SET LOCAL statement_timeout = 0",
            b"SET LOCAL lock_timeout = 0",
            b"SET LOCAL idle_in_transaction_session_timeout = 0",
            b"SELECT pg_advisory_xact_lock(%d)" % _SCHEMA_LOCK,
        ),
        False,
    )

    def __init__(self, begin: tuple[bytes, ...], reading: bool) -> None:
        self.begin = begin
        self.reading = reading

    def limit(self, timeouts: Timeouts) -> float | None:
        """Return the time limit in seconds; None without a limit."""
        if self is TransactionKind.SCAN:
            return timeouts.report
        return None if self is TransactionKind.SCHEMA else timeouts.answer


# Two groups may wait for each other's rows, because each locks the rows of many transactions in no
# particular order. A group gives up after this time, long before the server looks for a deadlock;
# its transactions then run one by one, each in the lock order that it keeps.
_IMPATIENT = b"SET LOCAL lock_timeout = 100"

# Transactions run again after a deadlock are serialised across processes: run together they would
# deadlock again, at a second each time, until no attempts are left.
_LOCK_AGAIN = b"SELECT set_config('lock_timeout', $1, true)"
_ONE_AFTER_THE_OTHER = (
    b"SET LOCAL lock_timeout = 0",
    locking(Lock.RETRIES, EXCLUDE).encode(),
)


class _OneByOne(psycopg.Error):
    """A member of a group raised after it wrote: undo the group and run its members one by one.

    A savepoint around each would avoid that, but costs each transaction a third of its time, and
    few raise once they have written: refusals are returned.
    """


class Unconnected(NamedTuple):
    """Transactions that did not begin because no connection could be opened, and why."""

    batch: Sequence[QueuedWork]
    problem: Exception


class PostgresSession:
    """A connection owned by one thread; opened when needed, replaced when it is lost."""

    def __init__(
        self,
        parameters: Mapping[str, str],
        timeouts: Timeouts,
        revised: Callable[[], None],
        undone: Callable[[], None],
        unconfirmed: Callable[[Channel], None],
        *,
        is_replica: bool = False,
    ) -> None:
        """Store the parameters; connect later. Call `revised` after a write to table `revision`.

        Call `undone` instead if it was not committed.
        `unconfirmed` receives a connection whose commit had no answer in time.
        """
        self._unconfirmed = unconfirmed
        self._is_replica = is_replica
        self._parameters = parameters
        self._timeouts = timeouts
        self._limits = limits_of_session(timeouts)
        self._report = (str(round(timeouts.report * 1_000)),)
        self._revised = revised
        self._undone = undone
        self._channel: Channel | None = None
        # Until a proxy that pools transactions is detected.
        self._prepares = True
        self._wrote_revision = False
        self._committing = False
        # The outcome of the last commit is unknown: the connection was lost meanwhile.
        self._unknown = False

    @property
    def is_connected(self) -> bool:
        """Whether it had a connection when it was last used; any thread may ask."""
        return self._channel is not None

    def run(self, kind: TransactionKind, batch: Sequence[QueuedWork]) -> Unconnected | None:
        """Run a batch, in one transaction if possible, and deliver the outcomes.

        Return those that did not begin, whose callers still wait.
        """
        sure = False
        if len(batch) > 1:
            if (problem := self._connect()) is not None:
                return Unconnected(batch, problem)
            error = self._transact(kind, batch)
            if error is None:
                deliver_outcomes(batch)
                return None
            if self._unknown:
                for queued in batch:
                    queued.problem = _unknown_outcome()
                deliver_outcomes(batch)
                return None
            sure = isinstance(error, _GUESSED_WRONG)
        for position, queued in enumerate(batch):
            if (problem := self._alone(kind, queued, sure=sure)) is not None:
                return Unconnected(batch[position:], problem)
            deliver_outcomes([queued])
        return None

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _connect(self) -> Exception | None:
        if self._channel is None:
            try:
                self._channel = open_channel(
                    self._parameters,
                    self._timeouts,
                    prepares=self._prepares,
                    is_replica=self._is_replica,
                )
            except psycopg.Error as problem:
                return DatabaseUnavailable(f"PostgreSQL: {problem}")
            except OperatorError as problem:
                return problem
        return None

    def _alone(self, kind: TransactionKind, queued: QueuedWork, *, sure: bool) -> Exception | None:
        """Run one transaction; again if the database asks for that or the connection was stale.

        Returns why no connection can be opened, which applies to the rest of the batch too.
        """
        was_deadlocked = False
        for attempt in range(1 + _RETRIES):
            queued.again()
            if queued.future.done():
                return None
            problem = self._connect()
            if problem is not None:
                return problem
            error = self._transact(kind, [queued], was_deadlocked=was_deadlocked, sure=sure)
            if error is None:
                return None
            guessed_wrong = isinstance(error, _GUESSED_WRONG) and not sure
            sure |= guessed_wrong
            was_deadlocked |= isinstance(error, errors.DeadlockDetected)
            if self._unknown:
                queued.problem = _unknown_outcome()
                return None
            if queued.problem is None:
                queued.problem = translate_error(error, reading=kind.reading)
            stale = attempt == 0 and self._channel is None
            if not stale and not guessed_wrong and not isinstance(error, _RUN_AGAIN):
                return None
        return None

    def _transact(
        self,
        kind: TransactionKind,
        batch: Sequence[QueuedWork],
        *,
        was_deadlocked: bool = False,
        sure: bool = False,
    ) -> psycopg.Error | None:
        """Run a batch in one transaction; return the database's error, if any.

        After an error nothing was written, unless `_unknown` is set.
        """
        channel = self._channel
        if channel is None:
            return psycopg.InterfaceError("not connected")
        self._unknown = self._committing = self._wrote_revision = False
        error: psycopg.Error | None = None
        limit = kind.limit(self._timeouts)
        channel.limit(inf if limit is None else limit)
        try:
            self._statements(channel, kind, batch, was_deadlocked=was_deadlocked, sure=sure)
        except psycopg.Error as problem:
            error = problem
            outcome_known = self._recover(channel, kind, error)
            self._unknown = self._committing and not outcome_known
        if self._wrote_revision:
            (self._revised if error is None or self._unknown else self._undone)()
        return error

    def _statements(
        self,
        channel: Channel,
        kind: TransactionKind,
        batch: Sequence[QueuedWork],
        *,
        was_deadlocked: bool,
        sure: bool,
    ) -> None:
        """Send everything from BEGIN to COMMIT, and wait for its answer."""
        begun = self._begin(channel, kind, was_deadlocked=was_deadlocked)
        cache: dict[str, Row | None] = {}
        keep = not kind.reading
        guessed = False
        last: set[str] = set()
        begin = SinglePostgresStatement if kind is TransactionKind.LOOK else PostgresConnection
        if len(batch) == 1:
            require = batch[0].require_not_abandoned
            connection = begin(channel, cache, require, reading=kind.reading, sure=sure)
            self._one(connection, batch[0])
            keep &= batch[0].problem is None
            guessed, last = connection.guessed, connection.last
        else:
            if not kind.reading:
                channel.send(_IMPATIENT)
            for queued in batch:
                require = queued.require_not_abandoned
                connection = begin(channel, cache, require, reading=kind.reading, sure=sure)
                self._one(connection, queued)
                if queued.problem is not None and connection.wrote:
                    raise _OneByOne
                if queued.problem is None:
                    last |= connection.last
        if keep:
            self._commit(channel, last)
            return
        if begun:
            channel.send(b"ROLLBACK")
        if guessed:
            # The exception may be a consequence of a wrong assumption.
            channel.finish()
        else:
            channel.leave()

    def _commit(self, channel: Channel, last: set[str]) -> None:
        for sql in sorted(last):
            channel.send(sql.encode())
        self._committing = True
        channel.send(b"COMMIT")
        began = monotonic()
        ended = channel.finish().command_status
        took = monotonic() - began
        if took >= NOTICES.slow:
            NOTICES.report_slow("COMMIT", took)
        if ended != b"COMMIT":
            raise psycopg.InternalError("the commit became a rollback")

    def _begin(self, channel: Channel, kind: TransactionKind, *, was_deadlocked: bool) -> bool:
        """Send what every transaction of this kind begins with; return whether there is one."""
        left = channel.settle()
        if isinstance(left, _POOLED):
            raise left
        # The failed transaction may be open: its ROLLBACK was skipped.
        if left is not None and not channel.recover():
            raise psycopg.OperationalError("the connection was lost")
        begin = kind.begin
        if not (channel.prepares and channel.keeps_settings):
            first, *rest = begin or TransactionKind.READ.begin
            begin = (first, SETTINGS_OF_A_TRANSACTION, *rest)
        again = _ONE_AFTER_THE_OTHER if was_deadlocked else ()
        # A schema change keeps waiting for locks without a limit.
        if was_deadlocked and kind is not TransactionKind.SCHEMA:
            again = (*again, _LOCK_AGAIN)
        for statement in (*begin, *again):
            channel.send(statement, self._values(statement))
        return bool(begin)

    def _values(self, statement: bytes) -> tuple[str, ...]:
        """Return the parameters of a statement that every transaction of its kind sends."""
        if statement is SETTINGS_OF_A_TRANSACTION:
            return self._limits
        if statement is _LOCK_AGAIN:
            return (self._limits[1],)
        return self._report if statement is _PATIENTLY else ()

    def _one(self, connection: PostgresConnection, queued: QueuedWork) -> None:
        """Run one function. Raises if the database reported an error: the transaction is lost."""
        try:
            queued.require_caller()
            queued.result = run_work(connection, queued.work)
            if connection.wrote:
                # A client that left would find a code or token spent for which it received no
                # response.
                queued.require_caller()
        except BaseException as problem:  # noqa: BLE001 - it belongs to the caller, not here
            queued.problem = problem
        if connection.error is not None:
            raise connection.error
        self._wrote_revision |= connection.revised

    def _recover(self, channel: Channel, kind: TransactionKind, error: psycopg.Error) -> bool:
        """Make the connection usable for the next transaction, or close it.

        Return whether the outcome of this one is known: nothing was written.
        """
        outcome_known = channel.recover()
        pooled = isinstance(error, _POOLED)
        if pooled:
            self._prepares = False
        # A plan outdated by a changed table, and a server that became a standby, are cured by a new
        # connection.
        outgrown = isinstance(error, errors.FeatureNotSupported)
        demoted = isinstance(error, errors.ReadOnlySqlTransaction) and not kind.reading
        if self._committing and not outcome_known and channel.is_silent():
            self._unconfirmed(channel)
            self._channel = None
        elif not outcome_known or pooled or outgrown or demoted:
            self.close()
        return outcome_known


def _unknown_outcome() -> DatabaseUnavailable:
    return DatabaseUnavailable("PostgreSQL went away during a commit: it may be done or not")


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
_UNUSED_FOR = 60.0  # seconds after which a connection is closed


class Pool:
    """Runs transactions on up to `size` threads, grouping several when more wait than are free.

    A thread starts when a transaction finds none free. Transactions of one kind begin in the order
    in which they arrived; those that arrive while a group of theirs is young form the next group.
    A thread that cannot connect passes its transactions on to those that are connected, and ends: a
    password may just be changing, or the server may have no connection left. One that had nothing
    to do for a minute disconnects and ends.
    """

    def __init__(
        self,
        parameters: Mapping[str, str],
        size: int,
        timeouts: Timeouts,
        revised: Callable[[], None],
        *,
        is_replica: bool = False,
    ) -> None:
        """Connect with these parameters; call `revised` after a write to table `revision`.

        The connections and failures of a replica are not those of the database in metrics and log.
        """
        self._parameters = parameters
        self._timeouts = timeouts
        self._size = size
        self._revised = revised
        self._is_replica = is_replica
        self._turn = threading.Lock()
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
        # Threads that wait and have not been woken, the one used last at the end.
        self._idle: list[threading.Condition] = []
        self._closed = False
        self.refused = ""
        self.failures = 0
        # Connections whose commit has no answer: a standby is missing, or the server is frozen.
        # Closing them would leave a server process each behind, until the server accepts no more
        # connections.
        self._unconfirmed: list[Channel] = []
        self._threads: dict[threading.Thread, PostgresSession] = {}
        self._grows_at = 0.0
        if is_replica:
            return
        metrics.POOL.read_from(lambda: len(self._idle), "idle")
        metrics.POOL.read_from(lambda: len(self._threads) - len(self._idle), "busy")
        metrics.POOL.set(size, "limit")
        for kind in TransactionKind:
            metrics.QUEUE.read_from(self._waiting[kind].__len__, f"database_{kind.name.lower()}")

    async def run(self, kind: TransactionKind, work: Work) -> Any:
        """Run `work`. Raises `Overloaded` when 2,000 of its kind wait, or 128 reports."""
        queued = QueuedWork(work)
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
            waiting.append((self._arrivals, queued))
            begins = self._wake()
            if not self._threads:
                waiting.pop()
                raise DatabaseUnavailable("the system starts no thread for a connection")
            if not begins:
                self._schedule_relief(queued.loop)
        try:
            return await queued.answer(kind.limit(self._timeouts))
        except WorkCancelled:
            raise
        except DatabaseUnavailable:
            self.failures += kind is TransactionKind.WRITE
            if not self._is_replica:
                metrics.DATABASE_FAILURES.add()
            raise

    def close(self) -> None:
        """Finish the queue, then disconnect. Blocks; call it from a thread that may."""
        with self._turn:
            self._closed = True
            for condition in self._idle:
                condition.notify()
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
        for channel in [candidate for candidate in self._unconfirmed if not candidate.is_silent()]:
            self._unconfirmed.remove(channel)
            channel.close()
        return len(self._unconfirmed) >= self._size

    def _wake(self) -> bool:
        """Let a thread take what may begin; return whether nothing had to be left waiting."""
        if self._next() is None:
            return False
        if self._idle:
            # The one used last: the others may be superfluous by now.
            self._idle.pop().notify()
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
            is_replica=self._is_replica,
        )
        thread = IssuerThread(self._serve, name, (session,))
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
                with group("replica" if self._is_replica else kind.name.lower(), batch):
                    left = session.run(kind, batch)
            except Exception as problem:  # noqa: BLE001 - a thread that dies leaves callers waiting
                session.close()
                for queued in batch:
                    queued.problem = problem
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
            others = not self._closed and any(
                session.is_connected for session in self._threads.values()
            )
            if others:
                del self._threads[threading.current_thread()]
                self._grows_at = monotonic() + _GROW_AGAIN
                # Number 0: these waited longer than everything in the queue.
                self._waiting[kind].extendleft((0, queued) for queued in reversed(left.batch))
                self._wake()
        if others:
            if not self._is_replica:
                NOTICES.refused(str(left.problem))
            return True
        for queued in left.batch:
            queued.problem = left.problem
        deliver_outcomes(left.batch)
        return False

    def _ended(self, kind: TransactionKind, count: int) -> None:
        with self._turn:
            self._running[kind] -= 1
            took = (monotonic() - self._began[kind]) / max(1, count)
            # One that waited long for a lock says nothing about the next.
            self._pace[kind] += (min(took, _GROUP_SECONDS / 4) - self._pace[kind]) / 4

    def _take(self) -> tuple[TransactionKind, list[QueuedWork]] | None:
        """Wait for the next batch of this thread; return None if it is to end.

        That is when the pool is closed and empty, or when nothing was left for it for a minute.
        """
        with self._turn:
            mine = threading.Condition(self._turn)
            while (kind := self._next()) is None:
                if self._closed:
                    return None
                self._idle.append(mine)
                mine.wait(_UNUSED_FOR)
                if mine in self._idle:
                    self._idle.remove(mine)
                    if self._has_no_use():
                        del self._threads[threading.current_thread()]
                        return None
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
        return kind, [queued for queued in batch if not queued.future.done()]

    def _has_no_use(self) -> bool:
        return not self._closed and self._next() is None

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
