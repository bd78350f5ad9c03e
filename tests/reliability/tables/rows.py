"""Tokens and codes that are written into a database directly, many at once."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import apsw
import psycopg

from tests.reliability.tables.space import Space, measure
from valetkey.kernel.runtime import SYSTEM

MEMORY = 3_600
"""Seconds for which a code is remembered after it expired."""

_PATIENCE = 5_000  # milliseconds that a connection waits for a lock

_NUMBERS = {
    "SQLite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})",
    "PostgreSQL": "WITH n(i) AS (SELECT generate_series(1, {count}))",
}
_RANDOM = {"SQLite": "hex(randomblob(32))", "PostgreSQL": "md5(random()::text) || md5(i::text)"}
_FILL = (
    (
        "INSERT INTO access_tokens"
        " (fingerprint, id, client_id, scope, audience, issued_at, expires_at)"
        " {numbers} SELECT {random}, 'at_' || i, 'printer', 'notes:read', 'notes', {now},"
        " {due} + i * {spread} / {count} FROM n"
    ),
    (
        "INSERT INTO vouchers"
        " (kind, fingerprint, client_id, grant_id, payload, expires_at, redeemed_at)"
        " {numbers} SELECT 'code', {random}, 'printer', '', '{{}}',"
        " {due} - {memory} + i * {spread} / {count}, {now} - {memory} FROM n"
    ),
)


class Raw(Protocol):
    """A connection of the experiment's own."""

    def number(self, sql: str) -> int:
        """Return the only value that a query finds."""
        ...

    def run(self, sql: str) -> None:
        """Run a statement."""
        ...

    def space(self) -> Space | None:
        """Return how full the tables and indexes of these rows are; None on PostgreSQL."""
        ...


@dataclass(frozen=True, slots=True)
class _SQLite:
    raw: apsw.Connection

    def number(self, sql: str) -> int:
        ((value,),) = self.raw.execute(sql)
        return int(value)

    def run(self, sql: str) -> None:
        self.raw.execute(sql)

    def space(self) -> Space | None:
        return measure(self.raw, ("access_tokens", "vouchers"))


@dataclass(frozen=True, slots=True)
class _PostgreSQL:
    raw: "psycopg.Connection[tuple[int]]"

    def number(self, sql: str) -> int:
        row = self.raw.execute(sql.encode()).fetchone()
        assert row is not None
        return row[0]

    def run(self, sql: str) -> None:
        self.raw.execute(sql.encode())

    def space(self) -> Space | None:
        return None


def fill(raw: Raw, engine: str, count: int, due: int, spread: int) -> None:
    """Insert so many tokens, and as many codes, that expire from `due` on."""
    numbers = _NUMBERS[engine].format(count=count)
    for statement in _FILL:
        raw.run(
            statement.format(
                numbers=numbers,
                random=_RANDOM[engine],
                now=SYSTEM.now(),
                due=due,
                memory=MEMORY,
                spread=spread,
                count=count,
            )
        )
    if engine == "SQLite":
        raw.run("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def connected(file: Path | None, url: str) -> Generator[Raw]:
    """Connect to the SQLite database in `file`, or else to PostgreSQL at `url`."""
    if file is None:
        with psycopg.connect(url, autocommit=True) as raw:
            yield _PostgreSQL(raw)
    else:
        lite = apsw.Connection(str(file))
        lite.set_busy_timeout(_PATIENCE)
        with closing(lite):
            yield _SQLite(lite)
