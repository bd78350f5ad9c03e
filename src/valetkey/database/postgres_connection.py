"""Open a PostgreSQL connection; the connection object of a transaction."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq.abc import PGresult

from valetkey.database.engine import (
    NOTICES,
    ConstraintViolated,
    DatabaseUnavailable,
    Lock,
    ReadOnly,
    Row,
    TablesMissing,
    Timeouts,
    UnstorableValue,
    WorkCancelled,
)
from valetkey.database.postgres_channel import Channel, Raw
from valetkey.database.statement import numbered, storable
from valetkey.kernel.refusal import OperatorError

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
_SETTINGS_IF_DIRECT = _SETTINGS + b" WHERE pg_backend_pid() = $4"

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
    given = {name: str(value) for name, value in parameters.items() if value is not None}
    waits = {
        "connect_timeout": str(max(_LEAST_CONNECT_TIMEOUT, round(timeouts.connect))),
        "tcp_user_timeout": _milliseconds(timeouts.answer),
    }
    return {**_DEFAULTS, **waits, **given, "client_encoding": "UTF8"}


def open_channel(
    parameters: Mapping[str, str], timeouts: Timeouts, *, prepares: bool = True
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
        channel.keeps_settings = bool(channel.rows(channel.finish()))
        channel.prepares = prepares
        NOTICES.connected(f"{raw.info.host}:{raw.info.port}")
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
    # A server that became a standby raises the first of these for a write.
    if isinstance(problem, errors.ReadOnlySqlTransaction | psycopg.OperationalError):
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
    connection never makes. `last` are the statements to send before the commit. `known` caches the
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
        known: dict[str, Row | None],
        require: Callable[[], None],
        *,
        reading: bool,
        sure: bool,
    ) -> None:
        self._require = require
        self._known = known
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
        found = self.rows(sql, **params)
        return found[0] if found else None

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
