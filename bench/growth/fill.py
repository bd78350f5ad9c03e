"""Fills the authorization server's SQLite file: every row is a copy of one that the server wrote.

Only what tells rows apart is made anew. Nobody else may have the file open meanwhile, except in
`expire`.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw

_PRINT = "substr(hex(randomblob(22)), 1, 43)"
_ID = "substr(t.id, 1, 3) || substr(hex(randomblob(11)), 1, 22)"
_CHUNK = 2_000
_DAY = 86_400

Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to be."""

    grants: int
    users: int
    clients: int


def fill(path: Path, size: Size) -> None:
    """Add so many of each, with the sessions, consents and events that go with them."""
    raw = apsw.Connection(str(path))
    raw.pragma("journal_mode", "OFF")
    raw.pragma("synchronous", "OFF")
    raw.pragma("cache_size", -1_000_000)
    # Built once at the end, an index costs a tenth of what it costs row by row.
    found = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    indexes = raw.execute(found).fetchall()
    with raw:
        for name, _ in indexes:
            raw.execute(f"DROP INDEX {name}")
        for table, which, count, columns in _plan(size, int(time.time())):
            _copy(raw, table, which, count, columns)
        for _, sql in indexes:
            raw.execute(str(sql))
    raw.pragma("journal_mode", "WAL")
    raw.close()


def expire(path: Path, per_second: int, seconds: int) -> int:
    """Add rows of which so many expire in each of the next seconds, from the third on; how many.

    The server may be at work: others write in between.
    """
    raw = apsw.Connection(str(path))
    raw.set_busy_timeout(10_000)
    begins = int(time.time()) + 3
    each = per_second * seconds // len(_EXPIRING)
    for table, (late, columns) in _EXPIRING.items():
        for first in range(0, each, _CHUNK):
            ends = f"{begins - late} + (i + {first}) * {seconds} / {each}"
            with raw:
                _copy(raw, table, "1", min(_CHUNK, each - first), {**columns, "expires_at": ends})
            time.sleep(0.02)
    raw.close()
    return each * len(_EXPIRING)


def expired(path: Path) -> int:
    """How many rows of those tables have expired and are still there."""
    raw = apsw.Connection(str(path))
    now = int(time.time())
    count = 0
    for table, (late, _) in _EXPIRING.items():
        sql = f"SELECT count(*) FROM {table} WHERE expires_at <= ?"
        count += cast("int", raw.execute(sql, (now - late,)).fetchall()[0][0])
    raw.close()
    return count


# Seconds for which the server remembers what expired, and what tells the rows apart.
_EXPIRING: Mapping[str, tuple[int, Columns]] = {
    "vouchers": (3_600, {"fingerprint": _PRINT}),
    "access_tokens": (0, {"fingerprint": _PRINT, "id": _ID}),
    "grants": (3 * _DAY, {"id": _ID, "refresh_print": _PRINT}),
    "sessions": (0, {"id": _ID, "fingerprint": _PRINT}),
}


def _plan(size: Size, now: int) -> Iterator[tuple[str, str, int, Columns]]:
    """Table, which of its rows is copied, how often, and the columns that are told anew."""
    users, clients = max(1, size.users), max(1, size.clients)
    uid = "(i * 9007199254 + 1)"
    user = f"(i % {users})"
    of_user = f"({user} * 9007199254 + 1)"
    of_client = f"'client-' || (({user} * 7 + i / {users}) % {clients})"
    session = "'se_' || printf('%022d', {})"
    past = f"{now} - {170 * _DAY} + i * {169 * _DAY} / {max(1, size.grants)}"
    names = {"username": "'user' || i", "username_key": "'user' || i"}
    mails = {"email": "'user' || i || '@example.com'", "email_key": "'user' || i || '@example.com'"}
    yield "uids", "1", size.users, {"uid": uid}
    yield "users", "1", size.users, {"uid": uid, **names, **mails}
    yield "credentials", "kind = 'password'", size.users, {"id": _ID, "uid": uid}
    yield (
        "sessions",
        "1",
        size.users,
        {"id": session.format("i"), "fingerprint": _PRINT, "uid": uid},
    )
    yield "clients", "id = 'phone'", size.clients, {"id": "'client-' || i"}
    yield (
        "client_secrets",
        "1",
        size.clients,
        {"id": _ID, "client_id": "'client-' || i", "fingerprint": _PRINT},
    )
    owned = {"uid": of_user, "client_id": of_client}
    yield "consents", "1", size.grants, owned
    dated = {"created_at": past, "last_used_at": past, "expires_at": f"{past} + {180 * _DAY}"}
    prints = {"refresh_print": _PRINT, "sid": session.format(user)}
    yield "grants", "1", size.grants, {"id": _ID, **owned, **dated, **prints}
    yield "events", "uid IS NOT NULL", size.grants, {"id": _ID, **owned, "at": past}
    some_client = f"'client-' || (i % {clients})"
    told = {"session_id": session.format("i"), "client_id": some_client}
    yield "participants", "1", size.users, told
    later = {"expires_at": f"{now + _DAY}"}
    tokens = {"fingerprint": _PRINT, "id": _ID, **later}
    yield "access_tokens", "1", size.grants // 10, tokens
    yield "vouchers", "1", size.grants // 100, {"fingerprint": _PRINT, **later}


def _copy(raw: apsw.Connection, table: str, which: str, count: int, columns: Columns) -> None:
    if count <= 0:
        return
    names = [str(row[1]) for row in raw.execute(f"PRAGMA table_info({table})")]
    values = ", ".join(columns.get(name, f"t.{name}") for name in names)
    raw.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}),"
        f" t AS MATERIALIZED (SELECT * FROM {table} WHERE {which} LIMIT 1)"
        f" INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM n CROSS JOIN t"
    )
