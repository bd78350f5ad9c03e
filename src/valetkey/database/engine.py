"""The interface of a database engine and of a transaction, and SQL that engines share.

A transaction is a plain function that receives a `Connection` and returns a value. It runs on one
thread from start to finish and cannot await, so it never holds a lock while waiting for the
network. Its result may depend only on its arguments, because it is run again if the database asks
for that. If it returns, its writes are committed; if it raises, they are undone.
"""

import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import UNIQUE, StrEnum, verify
from math import inf
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from valetkey.kernel.runtime import ISSUER

T = TypeVar("T")

# The columns in the order in which the statement names them: text, integers and None.
Row = tuple[Any, ...]


class Timeouts(Struct, frozen=True):
    """Time limits for the database, in seconds; `config` gives the reason for each."""

    connect: float = 5.0
    """For opening a connection."""
    statement: float = 5.0
    """For one statement, measured by the database."""
    lock: float = 3.0
    """For one lock; on SQLite, for the write lock."""
    report: float = 60.0
    """Replaces `answer` in `Engine.scan`."""
    answer: float = 10.0
    """For a whole transaction: queue, connection, statements and commit together."""


class DatabaseUnavailable(Exception):
    """The database cannot do this now: locked for too long, full, broken or gone. Try later.

    When `Engine.write` raises it, nothing was written, with one exception: a commit that was under
    way when the database stopped responding or went away may have succeeded. The outcome is then
    unknown, and the transaction is not run again.
    """


class WorkCancelled(DatabaseUnavailable):
    """The caller no longer waits, or has waited too long: nothing was written."""


class TablesMissing(DatabaseUnavailable):
    """The database has no such table: it was emptied, or is a different database."""


class Overloaded(Exception):
    """Too much work is already waiting: this was refused at once and not begun."""


class UnstorableValue(ValueError):
    """A value that the engines cannot store: not text, integer or None, or out of range."""


class ConstraintViolated(Exception):
    """A row violated a unique, foreign-key, NOT NULL or CHECK constraint."""


class ReplicaBehind(Exception):
    """A replica has not replayed what the caller requires, or is a replica of something else."""


class ReadOnly(Exception):
    """A statement inside `Engine.read` or `Engine.scan` tried to write."""


class SelfTest(Struct, frozen=True):
    """The result of `Engine.self_test`, which raises where something is wrong."""

    complete: bool = True
    """Whether everything was tested; what needs tables is not, before the first migration."""
    risks: tuple[str, ...] = ()
    """Settings with which a crash may lose what was committed, such as `fsync = off`."""
    pooling: str = ""
    """After what a pooler gives a connection to others: `session`, `transaction`, "" without."""


class Connection(Protocol):
    """One transaction's access to the database; unusable once the transaction has ended.

    SQL is the shared subset with `:name` parameters; values are `str`, `int` within 64 bits and
    `None`. Anything else raises `UnstorableValue`. After a statement failed the transaction can
    only fail: catching the exception inside `work` does not rescue it. Once the caller of a write
    waits no longer, the next statement raises `WorkCancelled`.
    """

    def rows(self, sql: str, /, **params: object) -> Sequence[Row]:
        """Return every row of the result."""
        ...

    def row(self, sql: str, /, **params: object) -> Row | None:
        """Return the first row of the result, or None."""
        ...

    def ahead(self, sql: str, /, **params: object) -> Callable[[], Sequence[Row]]:
        """Execute a query now; the function returned gives its rows.

        Costs no round trip if a later statement is awaited before the rows are asked for.
        """
        ...

    def once(self, sql: str, /) -> Row | None:
        """Return the row of a statement that reads only table `revision`; cached per commit.

        The statement is sent once for all transactions that are committed together, and again after
        one of them wrote to that table. Inside `Engine.write` it shares the number -1 first (see
        `share`).
        """
        ...

    def assume(self, sql: str, number: int, /) -> bool:
        """Return whether the number that `once` returns for this statement is `number`.

        May return True without waiting for the answer. If the numbers then differ, the transaction
        is undone and run again with the real number. No row counts as 0.
        """
        ...

    def claim(self, sql: str, /, **params: object) -> bool:
        """Execute a statement that writes one row or none; return whether it wrote one.

        May return True without waiting for the answer. If it then wrote none, the transaction is
        undone and run again with the real outcome: for writes that almost always succeed.
        """
        ...

    def at_commit(self, sql: str, /) -> None:
        """Execute a statement just before the commit, once for all that are committed together.

        For a row that many transactions update: its lock is taken last and released first.
        """
        ...

    def share(self, sql: str, /, **params: object) -> None:
        """Take a shared lock on each number that the SELECT returns, until the transaction ends.

        Transactions that `exclude` one of the numbers wait meanwhile. Call it before reading
        anything that must still hold at the commit. Costs no round trip and no write. Does nothing
        in a read, or on an engine with a single writer.
        """
        ...

    def exclude(self, sql: str, /, **params: object) -> None:
        """Take an exclusive lock on these numbers; waits for transactions that hold one."""
        ...

    def run(self, sql: str, /, **params: object) -> int:
        """Execute, and return how many rows were inserted, updated or deleted."""
        ...

    def send(self, sql: str, /, **params: object) -> None:
        """Execute without waiting for the number of changed rows, which saves a round trip."""
        ...


class Engine(Protocol):
    """A database that runs plain functions as transactions. Any event loop may call it."""

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """Run `work` against one consistent snapshot. For look-ups by key: microseconds."""
        ...

    def read_one(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """Run `work`, which sends a single SELECT, without a transaction: half the cost of `read`.

        A second statement raises RuntimeError: it would see another snapshot.
        """
        ...

    def row(self, sql: str, /, **params: object) -> Coroutine[Any, Any, Row | None]:
        """Return the first row of a single statement, as `read_one` does."""
        ...

    def scan(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """Run `work` as `read` does, for lists and reports: never on the event loop's thread."""
        ...

    def has_replica(self) -> bool:
        """Return whether a replica is configured and worth a try now. Costs microseconds."""
        ...

    def read_replica(self, work: Callable[[Connection], T | None]) -> Coroutine[Any, Any, T | None]:
        """Run `work` as `read` does, on a replica; None if no replica gives a result in time.

        The snapshot may be of any age: `work` checks that before it reads, and raises
        `ReplicaBehind`. It may return None, too, for what only the primary can tell.
        """
        ...

    def write(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """Run `work`; its writes are on disk when this returns, and undone if it raised.

        If the caller is cancelled while it waits, the work may or may not have been done.
        """
        ...

    def change_schema(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """Run `work` as `write` does, in one process at a time and without the time limits."""
        ...

    def changed(self) -> int:
        """Return a number that changes once any process wrote to table `revision`.

        Changes at once after writes of this process, within a second after others. Costs
        microseconds. While table `revision` is missing it may change after any write.
        """
        ...

    def mark(self) -> bytes | None:
        """Return a value that stays equal until any process commits something.

        None if that cannot be determined at once: nothing read before may then be reused. Take it
        before reading what is to be cached. Costs less than a microsecond.
        """
        ...

    def check_identity(self) -> str:
        """Check that the database is still the one that was opened; return what is wrong, or "".

        If a file was deleted or replaced, every operation raises `DatabaseUnavailable` until it is
        back. Costs microseconds.
        """
        ...

    def failures(self) -> int:
        """Return how many write transactions failed so far because of disk, lock or connection.

        Also counted are those undone together after one changed table `revision`, before any of
        them is run again: what they read is not to be kept.
        """
        ...

    def refuse(self, why: str) -> None:
        """Make every operation raise `DatabaseUnavailable` with this reason; "" ends that."""
        ...

    def self_test(self, random: Callable[[int], bytes]) -> Coroutine[Any, Any, SelfTest]:
        """Test what transactions rely on, with rows and locks of its own.

        Raises `OperatorError` for a database that must not be used, and `DatabaseUnavailable`.
        """
        ...

    def sizes(self) -> Coroutine[Any, Any, Mapping[str, int]]:
        """Return bytes on disk by part: `main`, `wal` and `shm` are files, others are tables.

        A table includes its indexes. On PostgreSQL `wal` is the server's, for a role that may see
        it; on SQLite tables are missing where measuring them would take too long.
        """
        ...

    def backup(self, path: str) -> Coroutine[Any, Any, None]:
        """Write a consistent copy to a new file at `path` while other transactions continue.

        Raises `OperatorError` if the engine has a better tool of its own for backups.
        """
        ...

    def close(self) -> Coroutine[Any, Any, None]:
        """Finish the accepted work, then release every file, socket and thread."""
        ...


class _ThisThread(threading.local):
    in_transaction = False


_this_thread = _ThisThread()


def refuse_nesting() -> None:
    """Raise RuntimeError inside a transaction: a second one would wait forever for the first."""
    if _this_thread.in_transaction:
        message = "a transaction may not open another"
        raise RuntimeError(message)


class outermost:  # noqa: N801 - reads as the statement it stands in: `with outermost():`
    """Mark this thread as inside a transaction for the duration of the block."""

    __slots__ = ()

    def __enter__(self) -> None:
        refuse_nesting()
        _this_thread.in_transaction = True

    def __exit__(self, *_: object) -> None:
        _this_thread.in_transaction = False


class OpenConnection(Connection, Protocol):
    """A connection inside a begun transaction; `failure` is why it can only fail."""

    failure: Exception | None

    def end(self) -> None:
        """Detach from the ended transaction, so that code keeping this object cannot use it."""
        ...


def run_work(connection: OpenConnection, work: Callable[[Connection], T]) -> T:
    """Call `work` inside a begun transaction; raise its exception, or a failure that it caught."""
    try:
        with outermost():
            result = work(connection)
    finally:
        connection.end()
    if connection.failure is not None:
        raise connection.failure
    return result


@verify(UNIQUE)
class Lock(StrEnum):
    """The SELECT that `Connection.share` and `Connection.exclude` are given for each lock.

    A user's number is the uid, which is positive. Servers of two versions may run at the same time,
    so a number is never given another meaning.
    """

    REGISTER = "SELECT -1"
    """The register of clients, shared by transactions that judge a client."""
    ENDINGS = "SELECT -2"
    """Bulk revocations that the background continues."""
    SCIM = "SELECT -3"
    """SCIM credentials, shared by transactions that use one."""
    WEBHOOKS = "SELECT -4"
    """Webhooks, while they are created and changed."""
    AUDIT_CHAIN = "SELECT -5"
    """The end of the audit log's chain."""
    RETRIES = "SELECT -6"
    """Transactions that are repeated after a deadlock, one after the other."""
    USER_IMPORTS = "SELECT -7"
    """The number of unfinished imports of users, while one begins."""
    SIGNALS = "SELECT -8"
    """Streams of security events, while they are created and changed."""


Report = Callable[[str, str, str], object]
"""Receives a level, the name of the event and its cause; any thread calls it."""

_LONGEST = 500


class NoticeReceiver:
    """The receiver of notices in this process; without one nothing is measured or remembered."""

    __slots__ = ("_hosts", "_report", "slow")

    def __init__(self) -> None:
        """Start without a receiver."""
        self.slow = inf
        """Seconds from which on a statement is reported."""
        self._report: Report | None = None
        # By issuer: each has a database of its own.
        self._hosts: dict[str, tuple[str, str]] = {}

    def begin(self, report: Report, slow: float) -> None:
        """Report to `tell`, and statements that take `slow` seconds or more."""
        self._report, self.slow, self._hosts = report, slow, {}

    def report_slow(self, what: str, seconds: float) -> None:
        """Report a statement, or a commit, that was slow; its text has no values."""
        if self._report is not None:
            self._report("warning", "database.slow", f"{seconds:.1f} s: {what[:_LONGEST]}")

    def connected(self, host: str, server: str = "") -> None:
        """Report a connection to another host, or behind it to another server, than the one before.

        `server` is the address that the server itself has, which a proxy hides; "" if unknown.
        """
        if self._report is not None:
            before, now = self._hosts.get(ISSUER.get(), ("", "")), (host, server)
            self._hosts[ISSUER.get()] = now
            changes = [
                f"from {old} to {new}"
                for old, new in zip(before, now, strict=True)
                if old and new and old != new
            ]
            if changes:
                self._report("warning", "database.failover", changes[0])

    def not_durable(self, settings: Sequence[str]) -> None:
        """Report settings of the server with which a crash may lose what was committed."""
        if self._report is not None and settings:
            self._report("warning", "database.not_durable", ", ".join(settings))

    def refused(self, why: str) -> None:
        """Report a connection that could not be opened beside others that are open."""
        if self._report is not None:
            self._report("warning", "database.connection_refused", why[:_LONGEST])


NOTICES = NoticeReceiver()


Storable = str | int | None

# Quoted text, quoted names and comments come first, so that their content is ignored.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?P<cast>::)
      | :(?P<name>[A-Za-z_][A-Za-z0-9_]*) | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def split(script: str) -> tuple[str, ...]:
    """Return the statements of a script, without semicolons and empty ones."""
    statements: list[str] = []
    start = 0
    for token in _TOKEN.finditer(script):
        if token["end"]:
            statements.append(script[start : token.start()])
            start = token.end()
    statements.append(script[start:])
    return tuple(text.strip() for text in statements if _COMMENT.sub("", text).strip())


def parameters(sql: str) -> tuple[str, ...]:
    """Return the names of a statement's `:name` parameters, each once, in order."""
    return tuple(dict.fromkeys(token["name"] for token in _TOKEN.finditer(sql) if token["name"]))


def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Turn each `:name` into PostgreSQL's `$1`, `$2`, …; return the text and the names in order."""
    names = parameters(sql)
    text: list[str] = []
    start = 0
    for token in _TOKEN.finditer(sql):
        if token["name"]:
            text += sql[start : token.start()], f"${names.index(token['name']) + 1}"
            start = token.end()
    text.append(sql[start:])
    return "".join(text), names


def storable(params: dict[str, object]) -> Mapping[str, Storable]:
    """Convert parameters to plain text, integers and None. Raises `UnstorableValue`.

    Each engine would refuse some values in its own way and silently change others. One rule for
    both allows data to be moved from one to the other.
    """
    for name, value in params.items():
        kind = type(value)
        if kind is str:
            # Checked inline for nearly all text: a function call would cost as much as the check.
            if value.isascii() and "\0" not in value:  # type: ignore[attr-defined, operator]
                continue
            _check_text(name, value)  # type: ignore[arg-type]  # kind says it
        elif kind is int:
            _check_integer(name, value)  # type: ignore[arg-type]  # kind says it
        elif value is not None:
            return {name: _plain(name, value) for name, value in params.items()}
    return params  # type: ignore[return-value]  # the loop above is the proof


def _plain(name: str, value: object) -> Storable:
    if value is None:
        return None
    if isinstance(value, str):
        # Not `str(value)`: the text of an enumeration may differ from its value.
        text = str.__str__(value)
        _check_text(name, text)
        return text
    if isinstance(value, int) and not isinstance(value, bool):
        number = int.__int__(value)
        _check_integer(name, number)
        return number
    raise UnstorableValue(
        f"{name} is a {type(value).__name__}: only text, integers and None are stored"
    )


def _check_text(name: str, text: str) -> None:
    if "\0" in text:
        raise UnstorableValue(f"{name} contains a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnstorableValue(f"{name} contains half of a surrogate pair") from None


def _check_integer(name: str, number: int) -> None:
    if not _SMALLEST <= number <= _LARGEST:
        raise UnstorableValue(f"{name} does not fit into 64 bits")
