"""Whether every transaction takes its locks in the one order that decision 0015 gives.

SQLite has one writer and takes none of these locks, but its connection is asked for them all the
same. So a transaction that can deadlock on PostgreSQL is found by any test that runs on SQLite.
"""

import re
import traceback
from typing import Any

from valetkey.database.engine import Lock
from valetkey.database.sqlite_connection import SQLiteConnection

violations: list[str] = []
"""What was found since a test last emptied this list."""

_REGISTER, _REVISION, _ENDINGS, _USERS, _ROWS = range(5)
_NUMBERS = {Lock.REGISTER: (_REGISTER, 0), Lock.ENDINGS: (_ENDINGS, 0)}
_CHANGE = re.compile(r"(?:UPDATE|DELETE FROM) (\w+)")
_EXCEPTION = ("authorization/authentication/session.py", "sign_in")
"""It ends the session that another user had in the same browser (decision 0015)."""

_REGISTER_CHANGE = "UPDATE revision SET number = number + 1 WHERE name = 'directory'"


class _Locks:
    """The locks of one transaction: whether each is exclusive, and the last one in the order."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], bool] = {}
        self.last = (_REGISTER, 0, "")

    def take(self, lock: tuple[int, int], what: str, *, exclusive: bool) -> None:
        """Note one more, and complain where it comes too late."""
        if lock[0] == _REVISION and self.held.get((_REGISTER, 0)):
            # Everyone who changes this row holds the register: nobody else can have it.
            return
        if lock in self.held:
            if exclusive and not self.held[lock]:
                _complain(f"{what} after the same lock was shared")
        elif lock < self.last[:2]:
            _complain(f"{what} after {self.last[2]}")
        else:
            self.last = (*lock, what)
        self.held[lock] = exclusive or self.held.get(lock, False)


_transactions: dict[int, _Locks] = {}


def _of(connection: Any) -> _Locks:
    return _transactions.setdefault(id(connection), _Locks())


def _complain(text: str) -> None:
    frames = traceback.extract_stack()[:-3]
    begun = max(at for at, frame in enumerate(frames) if frame.name == "run_work")
    inside = [(frame.filename.rpartition("/valetkey/")[2], frame) for frame in frames[begun:]]
    if any("/tests/" in frame.filename for _, frame in inside):
        # Tests do in one transaction what the program does in several.
        return
    if any((path, frame.name) == _EXCEPTION for path, frame in inside):
        return
    where = [f"{path}:{frame.lineno}" for path, frame in inside if path.startswith("authori")]
    violations.append(f"{text} at {' > '.join(where[-5:])}")


def _number(sql: str, params: dict[str, object]) -> tuple[int, int]:
    if isinstance(sql, Lock):
        return _NUMBERS.get(sql, (_USERS, int(sql.removeprefix("SELECT "))))
    # A number that is looked up in a row is a user's, here an unknown one.
    number = params.get("uid", 0)
    return _USERS, number if isinstance(number, int) else 0


def _share(connection: Any, sql: str, /, **params: object) -> None:
    _of(connection).take(_number(sql, params), f"share {sql} {params}", exclusive=False)


def _exclude(connection: Any, sql: str, /, **params: object) -> None:
    _of(connection).take(_number(sql, params), f"exclude {sql} {params}", exclusive=True)


def watch() -> None:
    """Note every lock that transactions on SQLite would take on PostgreSQL, from now on."""
    ask, end = SQLiteConnection._ask, SQLiteConnection.end

    def asked(connection: Any, sql: str, params: dict[str, object]) -> list[Any]:
        match = _CHANGE.match(sql)
        if match is None:
            return ask(connection, sql, params)
        if sql == _REGISTER_CHANGE:
            _of(connection).take((_REVISION, 0), sql, exclusive=True)
            return ask(connection, sql, params)
        before = connection._open_raw().total_changes()
        rows = ask(connection, sql, params)
        if connection._open_raw().total_changes() != before:
            # Rows come last, whichever: their order among themselves is not judged.
            _of(connection).take((_ROWS, 0), sql, exclusive=True)
        return rows

    def ended(connection: Any) -> None:
        _transactions.pop(id(connection), None)
        end(connection)

    SQLiteConnection._ask = asked  # type: ignore[method-assign, assignment]
    SQLiteConnection.end = ended  # type: ignore[method-assign, assignment]
    SQLiteConnection.share = _share  # type: ignore[method-assign]
    SQLiteConnection.exclude = _exclude  # type: ignore[method-assign]
