"""Open a PostgreSQL connection; prepared, pipelined statements; the connection of a transaction.

Built on libpq's pipeline mode, because a psycopg cursor for each statement cost several times as
much as the statement. `send` queues a statement; `result` waits for the last one queued; `finish`
ends the pipeline with a Sync message and waits; `leave` ends it without waiting.
"""

import re
import select
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from math import inf
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader, Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from valetkey.database.engine import (
    NOTICES,
    ConstraintViolated,
    DatabaseUnavailable,
    Lock,
    ReadOnly,
    Row,
    Storable,
    TablesMissing,
    Timeouts,
    UnstorableValue,
    WorkCancelled,
    numbered,
    storable,
)
from valetkey.kernel.refusal import OperatorError

Raw = psycopg.Connection[Row]

_STATEMENTS_KEPT = 500
# One type for all integers and one for all text, so that a statement is planned once. The server
# infers the type of a NULL.
_INT8, _TEXT, _INFERRED = 20, 25, 0

# A statement and the types of its parameters: what the server plans.
_Plan = tuple[bytes, tuple[int, ...]]


class _PendingAnswer(Enum):
    """Pending answers other than those to Parse messages, which are represented by their plan."""

    STATEMENT = 1
    SYNC = 2


class PendingResult:
    """The result of a statement that is read after those of later ones; None until it is there."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None


class Channel:
    """The statements of one connection; used by one thread at a time.

    `send`, `result`, `finish` and `leave` raise `psycopg.OperationalError` when the connection is
    lost or an answer is late (see `limit`). The connection must then be closed. No cancel request
    is sent: a server that is frozen would not process it, and a working one ends statements by its
    own time limit. A commit is never cancelled: one that waits for its standby would become visible
    before it is safe.

    Unless `prepares`, every statement is parsed each time: a proxy that pools transactions sends
    each to another server, which lacks the statements prepared elsewhere. Unless `keeps_settings`,
    each transaction has to begin with its settings.
    """

    __slots__ = (
        "_counter",
        "_deadline",
        "_limit",
        "_owed",
        "_pgconn",
        "_plans",
        "_poll",
        "_raw",
        "_reader",
        "keeps_settings",
        "prepares",
    )

    def __init__(self, raw: Raw, *, prepares: bool = True) -> None:
        """Take over a connection in autocommit mode; its cursors must not be used any more."""
        self.prepares = prepares
        self.keeps_settings = True
        self._raw = raw
        self._pgconn = raw.pgconn
        self._reader = Transformer(raw)
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._plans: OrderedDict[_Plan, bytes] = OrderedDict()
        self._owed: deque[_PendingAnswer | PendingResult | _Plan] = deque()
        self._counter = 0
        self._limit = self._deadline = inf
        self._pgconn.enter_pipeline_mode()

    def limit(self, seconds: float) -> None:
        """Require all answers within `seconds` from now."""
        self._limit = seconds
        self._deadline = monotonic() + seconds

    def send(self, text: bytes, values: Sequence[Storable] = ()) -> None:
        """Queue a statement; its parameters are `$1`, `$2` and so on."""
        types: list[int] = []
        encoded: list[bytes | None] = []
        for value in values:
            if value is None:
                types.append(_INFERRED)
                encoded.append(None)
            elif isinstance(value, str):
                types.append(_TEXT)
                encoded.append(value.encode())
            else:
                types.append(_INT8)
                encoded.append(b"%d" % value)
        if not self.prepares:
            self._pgconn.send_query_params(text, encoded, types)
            self._owed.append(_PendingAnswer.STATEMENT)
            return
        plan = (text, tuple(types))
        name = self._plans.get(plan)
        if name is None:
            name = self._prepare(plan)
        else:
            self._plans.move_to_end(plan)
        self._pgconn.send_query_prepared(name, encoded)
        self._owed.append(_PendingAnswer.STATEMENT)

    def defer_result(self) -> PendingResult:
        """Keep the result of the statement queued last when it is received with later ones."""
        pending = PendingResult()
        self._owed[-1] = pending
        return pending

    def result(self) -> PGresult:
        """Wait for everything queued and return the last result. Raises `psycopg.Error`."""
        self._pgconn.send_flush_request()
        return self._last_result()

    def finish(self) -> PGresult:
        """Wait as `result` does and end the pipeline: what is sent next is another transaction."""
        self._sync()
        return self._last_result()

    def leave(self) -> None:
        """End the pipeline without waiting; `settle` waits before the next statement is sent."""
        self._sync()
        self._flush()

    def settle(self) -> psycopg.Error | None:
        """Read the answers that `leave` left pending; return the first error among them.

        A proxy that pools transactions reassigns the connection between two of them. If one began
        before the end of the previous one was read, its first statements could be lost.
        """
        return self._receive()[1] if self._owed else None

    def request_result(self) -> None:
        """Ask for everything queued without waiting; see `is_answered`."""
        self._pgconn.send_flush_request()
        self._flush()

    def is_answered(self) -> bool:
        """Return whether `result` would not wait, if one statement was queued since the last."""
        self._pgconn.consume_input()
        return not self._pgconn.is_busy()

    def rows(self, result: PGresult) -> list[Row]:
        """Return every row of a result, as tuples of text, integers and None."""
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._reader.set_pgresult(result)
        return self._reader.load_rows(0, result.ntuples, tuple)

    def recover(self) -> bool:
        """Roll back a failed transaction; return whether the connection can be used again."""
        try:
            self._sync()
            self._receive()
            if self._pgconn.transaction_status != TransactionStatus.IDLE:
                # Not by a prepared statement: that statement may be the one that is missing.
                self._pgconn.send_query_params(b"ROLLBACK", None)
                self._owed.append(_PendingAnswer.STATEMENT)
                self._sync()
                self._receive()
        except psycopg.Error:
            return False
        return self._pgconn.transaction_status == TransactionStatus.IDLE

    def is_silent(self) -> bool:
        """Return whether nothing has arrived since the last answer: no data and no close."""
        return not self._poll.poll(0)

    def close(self) -> None:
        """Disconnect."""
        self._raw.close()

    def _prepare(self, plan: _Plan) -> bytes:
        if len(self._plans) >= _STATEMENTS_KEPT:
            _, oldest = self._plans.popitem(last=False)
            # A rollback does not undo it; if the transaction fails before it, the server keeps one
            # more.
            self._pgconn.send_query_params(b"DEALLOCATE " + oldest, None)
            self._owed.append(_PendingAnswer.STATEMENT)
        self._counter += 1
        # The name is derived from the statement: behind a proxy, a statement of this name on
        # another connection must not be a different one. The number distinguishes those not yet
        # deallocated.
        digest = blake2b(repr(plan).encode(), digest_size=16).hexdigest()
        name = f"v{digest}_{self._counter}".encode()
        self._pgconn.send_prepare(name, plan[0], plan[1])
        self._plans[plan] = name
        self._owed.append(plan)
        return name

    def _sync(self) -> None:
        self._pgconn.pipeline_sync()
        self._owed.append(_PendingAnswer.SYNC)

    def _last_result(self) -> PGresult:
        last, problem = self._receive()
        if problem is not None:
            raise problem
        if last is None:
            message = "a result was asked for and no statement was sent"
            raise psycopg.InterfaceError(message)
        return last

    def _receive(self) -> tuple[PGresult | None, psycopg.Error | None]:
        """Read every pending answer; return the last statement's result and the first error."""
        self._flush()
        last: PGresult | None = None
        problem: psycopg.Error | None = None
        while self._owed:
            answer = self._answer()
            owed = self._owed.popleft()
            if owed is _PendingAnswer.SYNC:
                continue
            failed = answer.status in _FAILED
            if failed and problem is None:
                problem = self._error(answer)
            if owed is _PendingAnswer.STATEMENT:
                last = answer
            elif isinstance(owed, PendingResult):
                owed.result = last = answer
            elif failed:
                self._plans.pop(owed, None)
        return last, problem

    def _answer(self) -> PGresult:
        """Return the answer to the oldest message that has one."""
        last: PGresult | None = None
        while True:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN)
                self._pgconn.consume_input()
            answer = self._pgconn.get_result()
            if answer is None:
                if last is None:
                    raise psycopg.OperationalError("the connection gave no answer")
                return last
            if answer.status == ExecStatus.PIPELINE_SYNC:
                return answer
            last = answer

    def _flush(self) -> None:
        while self._pgconn.flush():
            # The server may write before it continues reading: if both sides only write, they
            # deadlock.
            self._wait(select.POLLIN | select.POLLOUT)
            self._pgconn.consume_input()

    def _wait(self, events: int) -> None:
        if events != select.POLLIN:
            self._poll.modify(self._pgconn.socket, events)
        try:
            left = max(0.0, self._deadline - monotonic())
            if not self._poll.poll(None if left == inf else left * 1_000):
                raise psycopg.OperationalError(f"no answer within {self._limit:g} s")
        finally:
            if events != select.POLLIN:
                self._poll.modify(self._pgconn.socket, select.POLLIN)

    def _error(self, result: PGresult) -> psycopg.Error:
        lost = self._pgconn.status == ConnStatus.BAD
        if lost and result.error_field(DiagnosticField.SQLSTATE) is None:
            return psycopg.OperationalError("the connection was lost")
        return error_from_result(result)


_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED, ExecStatus.BAD_RESPONSE)


# Seconds as libpq expects them; the URL may override them.
_DEFAULTS: Mapping[str, str] = {
    "application_name": "valetkey",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_LEAST_CONNECT_TIMEOUT = 2  # seconds; libpq raises smaller values to this
# A transaction is confirmed after its commit is on disk. remote_apply, where configured, is
# stronger and is kept. Transactions that write say so in their BEGIN. Statements read few rows, but
# the estimate of one may be high: compiling it would take a hundred times as long as running it.
_SETTINGS = b"""
    SELECT set_config('statement_timeout', $1, false),
           set_config('lock_timeout', $2, false),
           set_config('idle_in_transaction_session_timeout', $3, false),
           set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                      WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
           set_config('jit', 'off', false),
           set_config('default_transaction_read_only', 'on', false)
"""
# The settings for one transaction, where a proxy assigns each to another server connection.
SETTINGS_OF_A_TRANSACTION = _SETTINGS.replace(b"false)", b"true)")
# A proxy names a process of its own. It may give the connection to others, who would then have
# these settings.
_SETTINGS_IF_DIRECT = (
    _SETTINGS
    + b", host(inet_server_addr()) || ':' || inet_server_port()"
    + b" WHERE pg_backend_pid() = $4"
)

_WROTE = (b"INSERT", b"UPDATE", b"DELETE", b"MERGE")
_REVISION = re.compile(r"\brevision\b", re.IGNORECASE)

# Advisory locks write nothing to disk, unlike row locks. They are taken in the pipeline before the
# statement that reads what they protect, so that its snapshot is newer than the lock. Two-number
# keys are a space of their own: other programs in this database use single numbers.
SHARE = "SELECT pg_advisory_xact_lock_shared(1448299630, (number % 2147483647)::int4) FROM ("
EXCLUDE = "SELECT pg_advisory_xact_lock(1448299630, (number % 2147483647)::int4) FROM ("
_HELD = ") AS held (number)"

# What a transaction took for granted is checked by the server in the same pipeline: a division by
# zero fails the transaction before its COMMIT, so its answer need not be awaited.
_ASSUMED = ("SELECT 1 / (COALESCE((", "), 0) = :assumed)::int")
_CLAIMED = ("WITH changed AS (", " RETURNING 1) SELECT 1 / count(*) FROM changed")


class _WholeNumber(Loader):
    """Sums are `numeric` here and integers on SQLite: return integers on both."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


class _BooleanLoader(Loader):
    """Comparisons are `boolean` here and 0 or 1 on SQLite: return 0 or 1 on both."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


def limits_of_session(timeouts: Timeouts) -> tuple[str, str, str]:
    """Return the parameters of `SETTINGS_OF_A_TRANSACTION`: milliseconds, as text."""
    idle = 2 * timeouts.statement
    return _milliseconds(timeouts.statement), _milliseconds(timeouts.lock), _milliseconds(idle)


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1_000))


def parse_url(url: str, timeouts: Timeouts) -> Mapping[str, str]:
    """Return the libpq parameters for a URL.

    Raises `OperatorError`, which does not repeat the URL.
    """
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        text = "write postgresql://user@host/name, and %40 for an @ inside a password"
        raise OperatorError(text, "database") from None
    url_parameters = {name: str(value) for name, value in parameters.items() if value is not None}
    waits = {
        "connect_timeout": str(max(_LEAST_CONNECT_TIMEOUT, round(timeouts.connect))),
        "tcp_user_timeout": _milliseconds(timeouts.answer),
    }
    return {**_DEFAULTS, **waits, **url_parameters, "client_encoding": "UTF8"}


def open_channel(
    parameters: Mapping[str, str],
    timeouts: Timeouts,
    *,
    prepares: bool = True,
    is_replica: bool = False,
) -> Channel:
    """Open a connection with the given time limits. Raises `psycopg.Error` and `OperatorError`.

    Files that the URL names, such as `passfile`, `sslrootcert` and `sslcert`, are read each time.
    """
    try:
        raw: Raw = psycopg.connect(autocommit=True, **parameters)  # type: ignore[arg-type]  # libpq's names
    except (OSError, MemoryError) as problem:
        # Out of descriptors, for example.
        raise psycopg.OperationalError(f"cannot connect: {problem}") from problem
    try:
        _check_encoding(raw)
        raw.adapters.register_loader("numeric", _WholeNumber)
        raw.adapters.register_loader("bool", _BooleanLoader)
        # Not prepared: a proxy may have given this connection to another client before.
        channel = Channel(raw, prepares=False)
        channel.limit(timeouts.connect)
        values = (*limits_of_session(timeouts), raw.info.backend_pid)
        channel.send(_SETTINGS_IF_DIRECT, values)
        rows = channel.rows(channel.finish())
        channel.keeps_settings = bool(rows)
        channel.prepares = prepares
        if not is_replica:
            # None on a Unix socket.
            server = rows[0][-1] if rows else None
            NOTICES.connected(f"{raw.info.host}:{raw.info.port}", server or "")
    except BaseException:
        raw.close()
        raise
    return channel


def _check_encoding(raw: Raw) -> None:
    if raw.info.parameter_status("server_encoding") != "UTF8":
        text = "it does not keep every text: create it with ENCODING 'UTF8'"
        raise OperatorError(text, "database")


def translate_error(problem: psycopg.Error, *, reading: bool) -> Exception:
    """Translate an error into one of `engine`, without the values it concerned."""
    state = f" (SQLSTATE {problem.sqlstate})" if problem.sqlstate else ""
    text = f"PostgreSQL: {problem.diag.message_primary or type(problem).__name__}{state}"
    if isinstance(problem, psycopg.IntegrityError):
        return ConstraintViolated(text)
    if isinstance(problem, errors.UndefinedTable):
        return TablesMissing(text)
    if isinstance(problem, errors.ReadOnlySqlTransaction) and reading:
        return ReadOnly("a read may not write")
    # A server that became a standby raises the first of these for a write, one that does not accept
    # writes yet, such as one that is just promoted, the second at the begin of a transaction.
    away = errors.ReadOnlySqlTransaction | errors.FeatureNotSupported | psycopg.OperationalError
    if isinstance(problem, away):
        return DatabaseUnavailable(text)
    return problem


class _Statement(NamedTuple):
    """A statement with numbered parameters, their names, and whether it writes."""

    text: bytes
    names: tuple[str, ...]
    writes: bool
    revises: bool


@lru_cache(maxsize=1024)
def _statement(sql: str) -> _Statement:
    text, names = numbered(sql)
    writes = not sql.lstrip().upper().startswith("SELECT")
    return _Statement(text.encode(), names, writes, writes and bool(_REVISION.search(sql)))


@lru_cache(maxsize=256)
def locking(sql: str, function: str) -> str:
    """Return a statement that locks the numbers which `sql` returns."""
    return function + sql + _HELD


@lru_cache(maxsize=256)
def _within(sql: str, around: tuple[str, str]) -> str:
    """Return `sql` as a part of another statement."""
    before, after = around
    return before + sql + after


class PostgresConnection:
    """The `engine.Connection` given to `work`. One object serves one transaction.

    `error` is the first error of the database; `failure` its translation, or an unstorable value,
    which was never sent. `wrote` is true after anything but SELECT, `revised` if that named table
    `revision`, `guessed` after an assumption or claim whose answer was not awaited, which a `sure`
    connection never makes. `last` are the statements to send before the commit. `cache` keeps the
    results of `once` for all transactions that are committed together. `require` raises
    `WorkCancelled` once nothing waits for the outcome.
    """

    __slots__ = (
        "_channel",
        "_known",
        "_reading",
        "_require",
        "_sure",
        "error",
        "failure",
        "guessed",
        "last",
        "revised",
        "wrote",
    )

    def __init__(
        self,
        channel: Channel,
        cache: dict[str, Row | None],
        require: Callable[[], None],
        *,
        reading: bool,
        sure: bool,
    ) -> None:
        self._require = require
        self._known = cache
        self._channel: Channel | None = channel
        self._reading = reading
        # The end of a read is not awaited, so a wrong guess would go unnoticed.
        self._sure = sure or reading
        self.guessed = False
        self.last: set[str] = set()
        self.error: psycopg.Error | None = None
        self.failure: Exception | None = None
        self.revised = False
        self.wrote = False

    def rows(self, sql: str, /, **params: object) -> Sequence[Row]:
        """See `Connection.rows`."""
        channel = self._send(sql, params)
        return channel.rows(self._result(channel, sql))

    def row(self, sql: str, /, **params: object) -> Row | None:
        """See `Connection.row`."""
        all_rows = self.rows(sql, **params)
        return all_rows[0] if all_rows else None

    def ahead(self, sql: str, /, **params: object) -> Callable[[], Sequence[Row]]:
        """See `Connection.ahead`."""
        channel = self._send(sql, params)
        kept = channel.defer_result()

        def rows() -> Sequence[Row]:
            if self._channel is None:
                raise RuntimeError("this transaction has ended")
            if kept.result is None and self.failure is None:
                self._result(channel, sql)
            if self.failure is not None or kept.result is None:
                raise self.failure or DatabaseUnavailable("the connection gave no answer")
            return channel.rows(kept.result)

        return rows

    def once(self, sql: str, /) -> Row | None:
        """See `Connection.once`."""
        if sql not in self._known:
            self.share(Lock.REGISTER)
            self._known[sql] = self.row(sql)
        return self._known[sql]

    def assume(self, sql: str, number: int, /) -> bool:
        """See `Connection.assume`."""
        if self._sure or sql in self._known:
            row = self.once(sql)
            return (0 if row is None else row[0]) == number
        self.share(Lock.REGISTER)
        self._send(_within(sql, _ASSUMED), {"assumed": number})
        self._known[sql] = (number,)
        self.guessed = True
        return True

    def claim(self, sql: str, /, **params: object) -> bool:
        """See `Connection.claim`."""
        if self._sure:
            return self.run(sql, **params) == 1
        self._send(_within(sql, _CLAIMED), params)
        self.guessed = True
        return True

    def at_commit(self, sql: str, /) -> None:
        """See `Connection.at_commit`."""
        self.last.add(sql)

    def share(self, sql: str, /, **params: object) -> None:
        """See `Connection.share`."""
        if not self._reading:
            self._send(locking(sql, SHARE), params)

    def exclude(self, sql: str, /, **params: object) -> None:
        """See `Connection.exclude`."""
        if not self._reading:
            self._send(locking(sql, EXCLUDE), params)

    def run(self, sql: str, /, **params: object) -> int:
        """See `Connection.run`."""
        result = self._result(self._send(sql, params), sql)
        return (
            result.command_tuples or 0 if (result.command_status or b"").startswith(_WROTE) else 0
        )

    def send(self, sql: str, /, **params: object) -> None:
        """See `Connection.send`; an error is raised by a later statement or the commit."""
        channel = self._send(sql, params)
        if self._reading:
            # The end of a read is not awaited, so an error would be lost.
            self._result(channel, sql)

    def end(self) -> None:
        """Detach from the ended transaction, so that code keeping this object cannot use it."""
        self._channel = None

    def _send(self, sql: str, params: dict[str, object]) -> Channel:
        channel = self._channel
        if channel is None:
            raise RuntimeError("this transaction has ended")
        if self.failure is not None:
            raise self.failure
        try:
            self._require()
            values = storable(params)
        except (UnstorableValue, WorkCancelled) as problem:
            self.failure = problem
            raise
        statement = _statement(sql)
        self.wrote |= statement.writes
        if statement.revises:
            self.revised = True
            self._known.clear()
        try:
            channel.send(statement.text, [values[name] for name in statement.names])
        except psycopg.Error as problem:
            raise self._failed(problem) from None
        return channel

    def _result(self, channel: Channel, sql: str) -> PGresult:
        try:
            began = monotonic()
            result = channel.result()
            took = monotonic() - began
            if took >= NOTICES.slow:
                NOTICES.report_slow(sql, took)
            return result
        except psycopg.Error as problem:
            # Not `from problem`: its text repeats values, which a log would print.
            raise self._failed(problem) from None

    def _failed(self, problem: psycopg.Error) -> Exception:
        self.error = problem
        self.failure = translate_error(problem, reading=self._reading)
        return self.failure


class SinglePostgresStatement(PostgresConnection):
    """The connection given to the work of `Engine.read_one`: it ends with the first statement."""

    __slots__ = ()

    def _send(self, sql: str, params: dict[str, object]) -> Channel:
        channel = super()._send(sql, params)
        self.end()
        return channel
