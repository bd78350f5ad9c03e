"""Test a PostgreSQL server before it is trusted, with two connections that try it on each other.

Databases exist that accept PostgreSQL's statements and do something else: advisory locks that lock
nothing, snapshots where PostgreSQL waits for a row. With them a revocation could take no effect,
without an error (docs/decisions/0053).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from time import monotonic, sleep
from typing import TypeVar

import psycopg
from psycopg import errors

from valetkey.database.engine import DatabaseUnavailable, Row, SelfTest, Storable, Timeouts
from valetkey.database.postgres_connection import (
    EXCLUDE,
    SETTINGS_OF_A_TRANSACTION,
    SHARE,
    Channel,
    locking,
    open_channel,
    translate_error,
)
from valetkey.database.postgres_pool import TransactionKind
from valetkey.kernel.refusal import OperatorError

T = TypeVar("T")

# Seconds that one side waits for a connection while the other one's transaction is open, at the
# first and at the last attempts: other tests may hold all connections of a pooler.
_PATIENCE = (0.1, 2.0)
_POLL_EVERY = 0.001
# Clients that compete may each time get back the connection that they had, by chance.
_ROUNDS = 10

# Locks of this test alone: users have positive numbers, and `Lock` has small negative ones.
_LOWEST, _NUMBERS = -2_000_000_000, 1_000_000_000
_LOCKED = "SELECT $1::bigint"
_LOCKS = (
    (EXCLUDE, EXCLUDE, "an exclusive advisory lock while another one held it"),
    (SHARE, EXCLUDE, "an exclusive advisory lock while another one shared it"),
    (EXCLUDE, SHARE, "a shared advisory lock while another one held it alone"),
)

_PID = b"SELECT pg_backend_pid()"
_IS_BLOCKED = b"SELECT ($1::bigint::int4 = ANY (pg_blocking_pids($2::bigint::int4)))::int4"
# The time of its start, in microseconds, tells a server from others, and every role may see it.
_SERVER = b"""
    SELECT pg_is_in_recovery()::int4,
           extract(epoch FROM pg_postmaster_start_time())::text,
           current_setting('synchronous_commit'),
           current_setting('fsync'),
           current_setting('full_page_writes')
"""
_DURABLE = {
    "synchronous_commit": ("on", "remote_apply"),
    "fsync": ("on",),
    "full_page_writes": ("on",),
}

# What is written here has no value: a commit need not wait for a disk or a standby.
_UNIMPORTANT = b"SET LOCAL synchronous_commit = off"
_HAS_TABLE = b"SELECT (to_regclass('probe') IS NOT NULL)::int4"
_NAME = b"SELECT 'self-test ' || extract(epoch FROM now())::bigint || ' ' || $1"
_INSERT = (
    b"INSERT INTO probe (name, text) VALUES ($1, 'first') ON CONFLICT (name) DO NOTHING"
    b" RETURNING text"
)
_UPDATE = b"UPDATE probe SET text = $1 WHERE name = $2 AND text = 'first'"
_TEXT = b"SELECT text FROM probe WHERE name = $1"
# Also what a test left behind that was killed, an hour ago or earlier.
_DELETE = (
    b"DELETE FROM probe WHERE name = $1 OR (name LIKE 'self-test %'"
    b" AND split_part(name, ' ', 2)::bigint < extract(epoch FROM now()) - 3600)"
)


class _Crowded(Exception):
    """No second connection or transaction was available beside the first one."""


class _Side:
    """One of the two connections, and its transaction."""

    def __init__(self, channel: Channel, until: float, timeouts: Timeouts) -> None:
        """Require every answer before `until`."""
        self.channel = channel
        self._until = until
        limit = str(round(timeouts.answer * 1_000))
        # No limit for a lock: which of the two ends the wait must not depend on the time.
        self._limits = (limit, "0", limit)
        channel.limit(self.left())

    def left(self) -> float:
        """Return the seconds that are left."""
        return max(0.0, self._until - monotonic())

    def begin(self, kind: TransactionKind = TransactionKind.WRITE) -> int:
        """Begin a transaction; return its server process."""
        for statement in kind.begin:
            self.channel.send(statement)
        self.channel.send(SETTINGS_OF_A_TRANSACTION, self._limits)
        return int(self.ask(_PID)[0])

    def within(self, seconds: float, ask: Callable[[], T]) -> T:
        """Ask while the other side has a transaction open. Raises `_Crowded`.

        Two tests that each hold a connection and wait for another would wait for each other.
        """
        self.channel.limit(min(seconds, self.left()))
        try:
            return ask()
        except psycopg.OperationalError as problem:
            if problem.sqlstate is not None:
                raise
            raise _Crowded(str(problem)) from None
        finally:
            self.channel.limit(self.left())

    def ask(self, text: bytes, values: Sequence[Storable] = ()) -> Row:
        """Return the first row of a statement in a transaction; an empty one for none."""
        self.channel.send(text, values)
        rows = self.channel.rows(self.channel.result())
        return rows[0] if rows else ()

    def ask_alone(self, text: bytes, values: Sequence[Storable] = ()) -> Row:
        """Return the row of a statement that is a transaction of its own."""
        self.channel.send(text, values)
        return self.channel.rows(self.channel.finish())[0]

    def changed(self) -> int:
        """Wait for the statement sent last; return how many rows it changed."""
        try:
            return self.channel.result().command_tuples or 0
        except errors.SerializationFailure as problem:
            raise _refused(f"READ COMMITTED is not what it offers ({_message(problem)})") from None

    def end(self, statement: bytes = b"ROLLBACK") -> None:
        """End the transaction."""
        self.channel.send(statement)
        self.channel.finish()


class _Pair:
    """Two connections to what should be one server."""

    def __init__(self, first: _Side, second: _Side, patience: float) -> None:
        """Wait `patience` seconds for one side while the other one has a transaction open."""
        self.first = first
        self.second = second
        self._patience = patience

    def begin_second(self) -> int:
        """Begin the second transaction; return its server process. Raises `_Crowded`."""
        return self.second.within(self._patience, self.second.begin)

    def first_process(self) -> Row:
        """Return the server process of the first side, outside transactions. Raises `_Crowded`."""
        return self.first.within(self._patience, partial(self.first.ask_alone, _PID))

    def must_wait(self, first: int, text: bytes, values: Sequence[Storable]) -> bool:
        """Return whether a statement waits for the first transaction, of server process `first`.

        It is the second transaction's, which begins with it.
        """
        second = self.begin_second()
        self.second.channel.send(text, values)
        self.second.channel.request_result()
        while not self.second.channel.is_answered():
            if self.first.ask(_IS_BLOCKED, (first, second)) == (1,):
                return True
            sleep(_POLL_EVERY)
        # Raises its error, if it failed.
        self.second.changed()
        return False


def self_test(
    parameters: Mapping[str, str], timeouts: Timeouts, random: Callable[[int], bytes]
) -> SelfTest:
    """Test the server within `timeouts.answer`; it takes some 60 round trips.

    Any number of processes may do this at once. Raises `OperatorError` if it does not behave as
    PostgreSQL does, and `DatabaseUnavailable` if that cannot be determined now: a standby, two
    servers behind one address, no second connection.
    """
    until = monotonic() + timeouts.answer
    patience, most = _PATIENCE
    crowded = ""
    while True:
        try:
            with _connections(parameters, timeouts, until, patience) as pair:
                return _examine(pair, random)
        except _Crowded as problem:
            crowded = str(problem)
        except (psycopg.OperationalError, errors.ReadOnlySqlTransaction) as problem:
            if not crowded or monotonic() < until:
                raise _unavailable(problem) from None
        except psycopg.Error as problem:
            raise OperatorError(f"its self-test failed: {_message(problem)}", "database") from None
        if monotonic() >= until:
            raise DatabaseUnavailable(
                f"PostgreSQL: no second transaction began while one was open ({crowded}); give a "
                "pooler at least two server connections, and PostgreSQL more connections than the "
                "servers use"
            )
        # Tests that each hold a connection and wait for a second one must not retry in step.
        sleep(patience * (1 + random(1)[0] / 64))
        patience = min(2 * patience, most)


@contextmanager
def _connections(
    parameters: Mapping[str, str], timeouts: Timeouts, until: float, patience: float
) -> Generator[_Pair]:
    with closing(open_channel(parameters, timeouts, prepares=False)) as first:
        try:
            another = open_channel(parameters, timeouts, prepares=False)
        except psycopg.OperationalError as problem:
            raise _Crowded(str(problem)) from None
        with closing(another) as second:
            yield _Pair(_Side(first, until, timeouts), _Side(second, until, timeouts), patience)


def _examine(pair: _Pair, random: Callable[[int], bytes]) -> SelfTest:
    pooling = _pooling(pair)
    risks = _server(pair)
    for held, key, what in _LOCKS:
        number = _LOWEST + int.from_bytes(random(4), "big") % _NUMBERS
        _try_lock(pair, held, key, number, what)
    complete = pair.first.ask_alone(_HAS_TABLE) == (1,)
    if complete:
        _try_rows(pair, random(16).hex())
    return SelfTest(complete=complete, risks=risks, pooling=pooling)


def _pooling(pair: _Pair) -> str:
    """Return after what a pooler gives a connection to others: a "session", a "transaction"."""
    if pair.first.channel.keeps_settings and pair.second.channel.keeps_settings:
        return ""
    for _ in range(_ROUNDS):
        pid = pair.first.ask_alone(_PID)
        if pair.first.ask_alone(_PID) != pid:
            return "transaction"
        # The pooler gives it the connection used last or the one unused for longest: in either
        # case this or the next statement of the first one runs elsewhere.
        is_same = pair.begin_second() == pid[0]
        _require_transactions(pair.second)
        is_other = is_same or pair.first_process() != pid
        pair.second.end()
        if is_other:
            return "transaction"
    return "session"


def _require_transactions(side: _Side) -> None:
    """Require that a transaction goes on after its first statements were answered."""
    try:
        side.ask_alone(_PID)
    except psycopg.OperationalError:
        if not side.left():
            raise
        raise DatabaseUnavailable(
            "PostgreSQL: a pooler closed the connection within a transaction; set its pool_mode to "
            "transaction or session, not to statement"
        ) from None


def _server(pair: _Pair) -> tuple[str, ...]:
    """Require one primary for statements of all kinds; return what is not durable."""
    rows: list[Row] = []
    # A proxy may send to a standby what seems to read only.
    for side in (pair.first, pair.second):
        rows.append(_of_primary(side.ask_alone(_SERVER)))
        for kind in (TransactionKind.READ, TransactionKind.WRITE):
            side.begin(kind)
            rows.append(_of_primary(side.ask(_SERVER)))
            side.end()
    if len({row[1] for row in rows}) > 1:
        raise DatabaseUnavailable(
            "PostgreSQL: two connections reached two servers; name an address in the setting "
            "database that leads to the primary only"
        )
    # The last one was asked in a transaction that writes, with its settings.
    values = zip(_DURABLE.items(), rows[-1][2:], strict=True)
    return tuple(f"{name} = {value}" for (name, good), value in values if value not in good)


def _of_primary(row: Row) -> Row:
    if row[0]:
        raise DatabaseUnavailable(
            "PostgreSQL: this is a standby, which accepts no writes; name the primary in the "
            "setting database, or all hosts with target_session_attrs=read-write"
        )
    return row


def _try_lock(pair: _Pair, held: str, key: str, number: int, what: str) -> None:
    """Require that a second transaction waits for the lock until the first is rolled back."""
    pid = pair.first.begin()
    pair.first.ask(locking(_LOCKED, held).encode(), (number,))
    if not pair.must_wait(pid, locking(_LOCKED, key).encode(), (number,)):
        raise _refused(f"a transaction did not wait for {what}")
    pair.first.end()
    try:
        pair.second.changed()
    except psycopg.OperationalError:
        raise _refused("ROLLBACK did not release an advisory lock") from None
    pair.second.end()


def _try_rows(pair: _Pair, unique: str) -> None:
    """Require that a statement waits for a row of another transaction, and then reads it again."""
    name: str = pair.first.ask_alone(_NAME, (unique,))[0]
    try:
        _try_insert(pair, name)
        _try_update(pair, name)
    finally:
        with suppress(psycopg.Error):
            # The second may still have changed the row.
            for side in (pair.first, pair.second):
                side.channel.recover()
            pair.first.begin()
            pair.first.channel.send(_UNIMPORTANT)
            pair.first.channel.send(_DELETE, (name,))
            pair.first.end(b"COMMIT")


def _try_insert(pair: _Pair, name: str) -> None:
    pid = pair.first.begin()
    pair.first.channel.send(_UNIMPORTANT)
    if pair.first.ask(_INSERT, (name,)) != ("first",):
        raise _refused("INSERT … RETURNING did not return the row")
    if not pair.must_wait(pid, _INSERT, (name,)):
        raise _refused("INSERT … ON CONFLICT did not wait for a row that was being inserted")
    pair.first.end(b"COMMIT")
    if pair.second.changed():
        raise _refused("two transactions inserted the same row")
    if pair.second.ask(_TEXT, (name,)) != ("first",):
        raise _refused("a statement did not read what was committed before it began")
    pair.second.end()


def _try_update(pair: _Pair, name: str) -> None:
    pid = pair.first.begin()
    pair.first.channel.send(_UNIMPORTANT)
    pair.first.channel.send(_UPDATE, ("second", name))
    if pair.first.changed() != 1:
        raise _refused("an UPDATE did not count the row that it changed")
    if not pair.must_wait(pid, _UPDATE, ("third", name)):
        raise _refused("an UPDATE did not wait for a row that was being changed")
    pair.first.end(b"COMMIT")
    if pair.second.changed():
        raise _refused("an UPDATE changed a row that no longer met its condition")
    pair.second.end()


def _refused(what: str) -> OperatorError:
    return OperatorError(
        f"it does not behave as PostgreSQL does, so that a revocation could take no effect: {what}."
        " Use PostgreSQL 15 or newer, without a proxy that changes statements",
        "database",
    )


def _unavailable(problem: psycopg.Error) -> Exception:
    if problem.sqlstate is None:
        # Of libpq or of this program: no values of a statement are in it.
        return DatabaseUnavailable(f"PostgreSQL: {str(problem).strip()}")
    return translate_error(problem, reading=False)


def _message(problem: psycopg.Error) -> str:
    return problem.diag.message_primary or type(problem).__name__
