"""The PostgreSQL engine: a pool of threads, each with a connection, and grouped transactions."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg

from valetkey.database.engine import (
    Connection,
    DatabaseUnavailable,
    Overloaded,
    ReplicaBehind,
    Row,
    SelfTest,
    T,
    Timeouts,
    WorkCancelled,
    refuse_nesting,
)
from valetkey.database.postgres_connection import Channel, open_channel, parse_url
from valetkey.database.postgres_pool import Pool, TransactionKind
from valetkey.database.postgres_self_test import self_test
from valetkey.kernel import metrics
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import IssuerThread

# Seconds between two reads of table `revision`.
_POLLED_EVERY = 0.5
# Seconds after which a server that does not respond may hide a change: a revocation takes effect
# within 5 s.
_SILENT_FOR = 2.0
_SIZES = (
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)
# Roles such as pg_monitor may; calling it fails for others.
_MAY_SEE_WAL = "SELECT CAST(has_function_privilege('pg_ls_waldir()', 'EXECUTE') AS INTEGER)"
_WAL = "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM pg_ls_waldir()"
_SUM = b"SELECT sum(number) FROM revision"
_TIMEOUTS = Timeouts()
# Seconds within which a replica answers; the primary, asked then, still answers in good time.
_REPLICA_ANSWERS = 0.5
# Seconds without a question to a replica that failed, and to one that was behind.
_FAILED_FOR = 5.0
_BEHIND_FOR = 0.05


class Postgres:
    """A PostgreSQL database, as an `engine.Engine`. Connects when it is first used."""

    def __init__(
        self,
        url: str,
        *,
        size: int,
        timeouts: Timeouts = _TIMEOUTS,
        replicas: Sequence[str] = (),
    ) -> None:
        """Use at most `size` connections, as many to each replica, and one more to notice changes.

        Raises `OperatorError`.
        """
        self._parameters = parameters = parse_url(url, timeouts)
        self._timeouts = timeouts
        self._revision = _Revision(parameters, timeouts)
        self._pool = Pool(parameters, size, timeouts, self._revision.advance)
        self._turn = 0
        self._replicas = [_Replica(replica_url, size, timeouts) for replica_url in replicas]

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read`. Raises `Overloaded`."""
        # Checked here and not in the coroutine: work that forgets to await it must fail too.
        refuse_nesting()
        return self._pool.run(TransactionKind.READ, work)

    def read_one(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read_one`. Raises `Overloaded`."""
        refuse_nesting()
        return self._pool.run(TransactionKind.LOOK, work)

    def row(self, sql: str, /, **params: object) -> Coroutine[Any, Any, Row | None]:
        """See `Engine.row`. Raises `Overloaded`."""
        refuse_nesting()
        return self._pool.run(TransactionKind.LOOK, lambda db: db.row(sql, **params))

    def scan(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.scan`. Raises `Overloaded`."""
        refuse_nesting()
        return self._pool.run(TransactionKind.SCAN, work)

    def has_replica(self) -> bool:
        """See `Engine.has_replica`."""
        return any(replica.is_ready() for replica in self._replicas)

    def read_replica(self, work: Callable[[Connection], T | None]) -> Coroutine[Any, Any, T | None]:
        """See `Engine.read_replica`; several replicas are asked by turns."""
        refuse_nesting()
        return self._read_replica(work)

    async def _read_replica(self, work: Callable[[Connection], T | None]) -> T | None:
        ready = [replica for replica in self._replicas if replica.is_ready()]
        if not ready:
            return None
        self._turn += 1
        return await ready[self._turn % len(ready)].read(work)

    def write(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.write`. Raises `Overloaded`."""
        refuse_nesting()
        return self._pool.run(TransactionKind.WRITE, work)

    def change_schema(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.change_schema`."""
        refuse_nesting()
        return self._pool.run(TransactionKind.SCHEMA, work)

    def changed(self) -> int:
        """See `Engine.changed`."""
        return self._revision.number()

    def mark(self) -> None:
        """See `Engine.mark`: always None, because asking the server costs as much as reading."""

    def check_identity(self) -> str:
        """Return why the database is refused, or "": the server guards its own files."""
        return self._pool.refused

    def failures(self) -> int:
        """See `Engine.failures`."""
        return self._pool.failures

    def refuse(self, why: str) -> None:
        """See `Engine.refuse`."""
        self._pool.refused = why

    async def self_test(self, random: Callable[[int], bytes]) -> SelfTest:
        """See `Engine.self_test`; on two connections of its own."""
        return await asyncio.to_thread(self_test, self._parameters, self._timeouts, random)

    async def sizes(self) -> Mapping[str, int]:
        """See `Engine.sizes`; a table's size includes its indexes and TOAST data."""
        return await self.scan(_sizes)

    async def backup(self, path: str) -> None:
        """Raise `OperatorError`: PostgreSQL has its own backup tools."""
        raise OperatorError(
            f"use PostgreSQL's own: pg_dump --format=custom --file={path} DATABASE_URL"
        )

    async def close(self) -> None:
        """See `Engine.close`."""
        await asyncio.to_thread(self._pool.close)
        for replica in self._replicas:
            await asyncio.to_thread(replica.close)
        await asyncio.to_thread(self._revision.close)


def _sizes(db: Connection) -> Mapping[str, int]:
    sizes: dict[str, int] = dict(db.rows(_SIZES))
    may = db.row(_MAY_SEE_WAL)
    wal = db.row(_WAL) if may is not None and may[0] else None
    return sizes if wal is None else {**sizes, "wal": wal[0]}


class _Replica:
    """A streaming replica; what it does not answer in time is asked of the primary."""

    def __init__(self, url: str, size: int, timeouts: Timeouts) -> None:
        """Connect when it is first asked. Raises `OperatorError`."""
        waits = Timeouts(
            connect=timeouts.connect,
            statement=_REPLICA_ANSWERS,
            lock=_REPLICA_ANSWERS,
            answer=_REPLICA_ANSWERS,
        )
        self._pool = Pool(parse_url(url, waits), size, waits, lambda: None, is_replica=True)
        self._rests_until = 0.0

    def is_ready(self) -> bool:
        """Return whether it did not fail and was not behind a moment ago."""
        return monotonic() >= self._rests_until

    async def read(self, work: Callable[[Connection], T | None]) -> T | None:
        """Run `work`; None if it fails, takes too long or is behind."""
        try:
            result: T | None = await self._pool.run(TransactionKind.READ, work)
        except ReplicaBehind:
            self._rest(_BEHIND_FOR, "behind")
            return None
        except WorkCancelled:
            raise
        except (DatabaseUnavailable, Overloaded, OperatorError, psycopg.Error):
            self._rest(_FAILED_FOR, "failed")
            return None
        metrics.REPLICA.add("undecided" if result is None else "answered")
        return result

    def close(self) -> None:
        """Disconnect. Blocks while a query is under way."""
        self._pool.close()

    def _rest(self, seconds: float, why: str) -> None:
        metrics.REPLICA.add(why)
        self._rests_until = monotonic() + seconds


class _Revision:
    """The number behind `Engine.changed`, with a thread and a connection that keep it current."""

    def __init__(self, parameters: Mapping[str, str], timeouts: Timeouts) -> None:
        """Connect with these parameters when the number is first needed."""
        self._parameters = parameters
        self._timeouts = timeouts
        self._number = 0
        self._true_until = 0.0
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def number(self) -> int:
        """Return the current number; the first call starts the thread."""
        if self._thread is None:
            self._start()
        # A table that cannot be read may have changed: an unnecessary reload is the safe choice.
        if monotonic() > self._true_until:
            self.advance()
        return self._number

    def advance(self) -> None:
        """Change the number: this process wrote to the table, or cannot read it."""
        with self._turn:
            self._number += 1

    def close(self) -> None:
        """Stop polling. Blocks while a query is under way."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self._turn:
            if self._thread is None and not self._closing.is_set():
                thread = IssuerThread(self._watch, "valetkey-revision")
                # The system may be out of threads: the next caller tries again.
                with suppress(RuntimeError, MemoryError):
                    thread.start()
                    self._thread = thread

    def _open(self) -> Channel:
        # Nothing is prepared: a proxy may send each query to another server.
        return open_channel(self._parameters, self._timeouts, prepares=False)

    def _watch(self) -> None:
        channel: Channel | None = None
        last: object = None
        while True:
            rows: object = None
            try:
                channel = channel or self._open()
                channel.limit(_SILENT_FOR)
                channel.send(_SUM)
                rows = channel.rows(channel.finish())
            except (psycopg.Error, OperatorError):
                if channel is not None and not channel.recover():
                    channel.close()
                    channel = None
            if rows is not None:
                self._true_until = monotonic() + _SILENT_FOR
                if rows != last:
                    last = rows
                    self.advance()
            if self._closing.wait(_POLLED_EVERY):
                break
        if channel is not None:
            channel.close()
