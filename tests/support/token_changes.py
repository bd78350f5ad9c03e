"""Whether every change of what issued tokens depends on is followed by a change of `token_state`.

Caches of answers about tokens rely on it (docs/decisions/0025). Checked in every test that writes
through the store of the authorization server on SQLite, and in this process.
"""

import re
import sys
import traceback
from typing import Any

from valetkey.database.identity import CHANGE_TOKEN_STATE
from valetkey.database.sqlite_connection import SQLiteConnection

violations: list[str] = []
"""What was found since a test last emptied this list."""

_CHANGE = re.compile(
    r"(?:UPDATE|DELETE FROM) (?:users|grants|clients|sessions|access_tokens|app_generations"
    r"|revocations|apis|api_scopes|grant_apis|user_groups|group_members"
    r"|declarations|user_roles|group_roles)\b"
    r"|INSERT INTO (?:revocations|app_generations|user_groups|group_members"
    r"|declarations|user_roles|group_roles)\b"
)
_HARMLESS = re.compile(
    # Locks of a row.
    r"UPDATE (?:users|clients) SET changed_at = changed_at\b"
    r"|UPDATE sessions SET ended_at = NULL\b|UPDATE user_groups SET name = name\b"
    # What the resource server keeps of the feed.
    r"|INSERT INTO revocations \(kind, id,"
    # Refresh tokens: the access tokens that were issued before stay as they are.
    r"|UPDATE grants SET (?:refresh_print|refresh_expires_at|last_used_at) = "
    # A session that goes on; answers that say it ended are not cached.
    r"|UPDATE sessions SET (?:last_seen_at|auth_time|methods|fingerprint)"
    # Its IP addresses, which no answer about a token has.
    r"|UPDATE sessions SET (?:signed_in_from|last_seen_from)"
    # What has expired by itself.
    r"|DELETE FROM (?:grants|sessions|access_tokens|revocations) WHERE (?:\w+|\(kind, id\)) ?[<I(]"
    r"|DELETE FROM (?:grants|sessions|access_tokens|revocations) WHERE expires_at"
)
# What tests do with a store directly, no server does. No server uses a database that is filled.
_TEST = re.compile(r"/tests/|/valetkey/testing/|/database/copying\.py")

_changed: dict[int, str] = {}


def watch() -> None:
    """Note every change that caches are not told of, from now on."""
    ask, end, at_commit = SQLiteConnection._ask, SQLiteConnection.end, SQLiteConnection.at_commit

    def asked(connection: Any, sql: str, params: dict[str, object]) -> list[Any]:
        if not _CHANGE.match(sql) or _HARMLESS.match(sql):
            return ask(connection, sql, params)
        before = connection._open_raw().total_changes()
        rows = ask(connection, sql, params)
        if connection._open_raw().total_changes() != before:
            frames = traceback.extract_stack()[:-1]
            begun = max(at for at, frame in enumerate(frames) if frame.name == "run_work")
            inside = frames[begun:]
            if not any(_TEST.search(frame.filename) for frame in inside):
                where = [
                    f"{frame.filename.rpartition('/valetkey/')[2]}:{frame.lineno}"
                    for frame in inside
                ]
                _changed[id(connection)] = f"{sql} at {' > '.join(where[-5:])}"
        return rows

    def told(connection: Any, sql: str, /) -> None:
        if sql == CHANGE_TOKEN_STATE:
            _changed.pop(id(connection), None)
        at_commit(connection, sql)

    def ended(connection: Any) -> None:
        left = _changed.pop(id(connection), None)
        # What raises is rolled back.
        if left is not None and sys.exc_info()[0] is None:
            violations.append(left)
        end(connection)

    SQLiteConnection._ask = asked  # type: ignore[method-assign, assignment]
    SQLiteConnection.at_commit = told  # type: ignore[method-assign]
    SQLiteConnection.end = ended  # type: ignore[method-assign, assignment]
