"""What a database must be able to do for us, whichever one it is.

A transaction is a plain function: it is handed a `Connection` and returns a value. It runs
on one thread from start to finish; it cannot await, so it cannot hold a lock while it waits
for the network; it must be a function of its arguments, because it may be run again when the
database asks for that. What it returned is written; when it raised, nothing happened.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# The columns in the order in which the statement names them: text, integers and None.
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The longest waits for a database, in seconds. `config` says why each is as it is."""

    connect: float = 5.0
    """For a new connection."""
    statement: float = 5.0
    """For one statement, by the clock of the database."""
    lock: float = 3.0
    """For one lock; on SQLite, for the turn to write."""
    report: float = 60.0
    """For the same as `answer` in `Engine.scan`."""
    answer: float = 10.0
    """For the outcome of a transaction: queue, connection, statements and commit together."""


class DatabaseUnavailable(Exception):
    """The database cannot do this now: locked for too long, full, broken or gone. Try later.

    When it is raised by `Engine.write`, nothing was written, except that a commit that was
    under way when the database fell silent or went away may be finished: then nobody can know,
    and nothing is run a second time.
    """


class GivenUp(DatabaseUnavailable):
    """The caller no longer waits, or has waited too long: nothing was written."""


class TablesMissing(DatabaseUnavailable):
    """The database has no table of that name: it was emptied, or is another one."""


class Overloaded(Exception):
    """Too much work waits already, so this was refused at once and not begun."""


class UnstorableValue(ValueError):
    """A value that neither engine keeps: not text, integer or None, or out of their range."""


class ConstraintViolated(Exception):
    """A row broke a unique, foreign-key, NOT NULL or CHECK constraint."""


class ReadOnly(Exception):
    """A statement inside `Engine.read` or `Engine.scan` tried to write."""


class Connection(Protocol):
    """One transaction's view of the database; of no use once that transaction has ended.

    SQL is the shared subset with `:name` parameters; values are `str`, `int` within 64 bits
    and `None`. Anything else is `UnstorableValue`. After any statement failed the transaction
    can only fail: swallowing the exception inside `work` does not save it.
    """

    def rows(self, sql: str, /, **params: object) -> Sequence[Row]:
        """Every row of the answer."""
        ...

    def row(self, sql: str, /, **params: object) -> Row | None:
        """The first row of the answer, if there is one."""
        ...

    def once(self, sql: str, /) -> Row | None:
        """The same for a statement that reads nothing but table `revision`.

        It is asked once for all transactions that are committed together, and again after one of
        them wrote to that table. Inside `Engine.write` it shares the number -1 first (see `share`).
        """
        ...

    def share(self, sql: str, /, **params: object) -> None:
        """Hold the numbers that this SELECT finds until the transaction ends, beside other sharers.

        Transactions that `exclude` one of them wait meanwhile. Call it before reading what must
        still be so at the commit. Costs no round trip and no write; does nothing in a read, and
        nothing on an engine that has one writer at a time.
        """
        ...

    def exclude(self, sql: str, /, **params: object) -> None:
        """Hold these numbers alone: wait for every transaction that shares or excludes one."""
        ...

    def run(self, sql: str, /, **params: object) -> int:
        """Execute, and return how many rows were inserted, updated or deleted."""
        ...

    def send(self, sql: str, /, **params: object) -> None:
        """Execute; nobody waits for how many rows changed, which spares a round trip."""
        ...


class Engine(Protocol):
    """A database that runs plain functions as transactions. Any event loop may call it."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` against one consistent snapshot. For look-ups by key: microseconds."""
        ...

    async def row(self, sql: str, /, **params: object) -> Row | None:
        """The first row that one statement finds: `read` at half the price, for a single look."""
        ...

    async def scan(self, work: Callable[[Connection], T]) -> T:
        """The same for lists and reports: never on the event loop's thread."""
        ...

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work`; what it wrote is on disk when this returns, undone if it raised.

        A caller that is cancelled while it waits may find its work done or not done.
        """
        ...

    async def change_schema(self, work: Callable[[Connection], T]) -> T:
        """The same as `write`, in one process at a time and without its time limits."""
        ...

    def changed(self) -> int:
        """A number that differs once anyone, in any process, wrote to table `revision`.

        At once for writes of this process, within a second for others. Costs microseconds.
        While there is no table `revision` it may differ after any write.
        """
        ...

    def mark(self) -> bytes | None:
        """What is equal for as long as nobody, in any process, has committed anything.

        None where that cannot be told at once: then nothing read before may be used again. Take it
        before you read what you want to keep. Costs less than a microsecond.
        """
        ...

    def look(self) -> str:
        """Look whether the database is still the one that was opened; what is wrong, or "".

        Where a file was deleted or replaced, everything raises `DatabaseUnavailable` until it is
        back. Costs microseconds.
        """
        ...

    def failures(self) -> int:
        """How many write transactions failed so far for want of disk, lock or connection."""
        ...

    def refuse(self, why: str) -> None:
        """Raise `DatabaseUnavailable` from everything from now on, for this reason; "" ends it."""
        ...

    async def sizes(self) -> Mapping[str, int]:
        """Bytes on disk, by part: `main` and `wal` of a file, or each table of a server."""
        ...

    async def backup(self, path: str) -> None:
        """Write a consistent copy to a new file at `path` while others go on working.

        Raises `Mistake` where the engine has a better tool of its own for that.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of every file, socket and thread."""
        ...


class _ThisThread(threading.local):
    in_transaction = False


_this_thread = _ThisThread()


def refuse_nesting() -> None:
    """Raise at once inside a transaction: a second one would wait for the first, forever."""
    if _this_thread.in_transaction:
        message = "a transaction may not open another"
        raise RuntimeError(message)


class outermost:  # noqa: N801 - reads as the statement it stands in: `with outermost():`
    """Mark this thread as inside a transaction for as long as the block runs."""

    __slots__ = ()

    def __enter__(self) -> None:
        refuse_nesting()
        _this_thread.in_transaction = True

    def __exit__(self, *_: object) -> None:
        _this_thread.in_transaction = False
