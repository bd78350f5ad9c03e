"""Read a table in pages of bounded size, write pages, and compute what two databases compare."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec import Struct

from valetkey.database.copying.dialect import PROGRESS, CopiedTable
from valetkey.database.engine import Connection, Engine, Row
from valetkey.kernel.refusal import OperatorError

_ROWS = 1_000
"""Rows of a page at most."""
_BYTES = 2 * 1024 * 1024
"""Bytes of text in a page at most, unless a single row has more."""
_PARAMETERS = 500
_MODULUS = 1 << 256

Key = tuple[object, ...]


class Digest(Struct, frozen=True):
    """The number of rows and the sum of their SHA-256: equal for equal rows in any order."""

    rows: int = 0
    sum: int = 0

    def plus(self, rows: Sequence[Row]) -> "Digest":
        """Return the digest with these rows added."""
        total = self.sum
        for row in rows:
            # Text, integers and None are written alike whichever engine they were read from.
            total += int.from_bytes(sha256(ascii(row).encode()).digest(), "big")
        return Digest(self.rows + len(rows), total % _MODULUS)

    @property
    def checksum(self) -> str:
        """Return the sum as 64 hexadecimal digits."""
        return f"{self.sum:064x}"


def read_page(db: Connection, table: CopiedTable, after: Key | None) -> Sequence[Row]:
    """Return the rows behind the key `after` in the order of the primary key; none at the end."""
    key = _names(table.key)
    start = f"WHERE ({key}) > ({_parameters(table.key, 'after')})" if after else ""
    size = " + ".join(f"coalesce(octet_length({each}), 0)" for each in table.texts) or "0"
    given = _values(after or (), "after")
    # Sizes first: they are known without reading long texts.
    sizes = db.rows(
        f"SELECT {key}, {size} FROM {table.name} {start} ORDER BY {key} LIMIT {_ROWS}", **given
    )
    if not sizes:
        return ()
    last, taken = sizes[0], 0
    for each in sizes:
        taken += each[-1]
        if taken > _BYTES and each is not sizes[0]:
            break
        last = each
    until = f"{'AND' if start else 'WHERE'} ({key}) <= ({_parameters(table.key, 'until')})"
    rows = db.rows(
        f"SELECT {_names(table.columns)} FROM {table.name} {start} {until} ORDER BY {key}",
        **given,
        **_values(last[:-1], "until"),
    )
    return [tuple(row) for row in rows]


def write_page(
    db: Connection, table: CopiedTable, rows: Sequence[Row], *, copy: str, after: Key | None
) -> None:
    """Insert rows and note the last one.

    Raises OperatorError if another process wrote this page.
    """
    last = tuple(rows[-1][place] for place in table.places)
    noted = db.run(
        f"UPDATE {PROGRESS} SET last = :last, amount = amount + :amount"
        " WHERE name = :name AND copy = :copy AND last = :after",
        name=table.name,
        copy=copy,
        last=_noted(last),
        amount=len(rows),
        after=_noted(after),
    )
    if not noted:
        raise OperatorError("another process works on this copy, or it was begun again")
    most = max(1, _PARAMETERS // len(table.columns))
    for first in range(0, len(rows), most):
        _insert(db, table, rows[first : first + most])


def copied_so_far(db: Connection, copy: str) -> dict[str, tuple[Key | None, int]]:
    """Return the last key that was copied of each table, and how many rows."""
    rows = db.rows(f"SELECT name, last, amount FROM {PROGRESS} WHERE copy = :copy", copy=copy)
    return {name: (tuple(json.loads(last)) or None, amount) for name, last, amount in rows}


def begin_progress(db: Connection, tables: Sequence[CopiedTable], copy: str) -> None:
    """Create the table in which the progress of a copy is noted."""
    db.send(f"DROP TABLE IF EXISTS {PROGRESS}")
    db.send(
        f"CREATE TABLE {PROGRESS} (name TEXT PRIMARY KEY, copy TEXT NOT NULL, last TEXT NOT NULL,"
        " amount BIGINT NOT NULL)"
    )
    for table in tables:
        db.send(
            f"INSERT INTO {PROGRESS} (name, copy, last, amount) VALUES (:name, :copy, :last, 0)",
            name=table.name,
            copy=copy,
            last=_noted(None),
        )


async def digest(engine: Engine, table: CopiedTable, report: Callable[[int], None]) -> Digest:
    """Return the digest of all rows of a table; `tell` is called with rows that were read."""
    found = Digest()
    after: Key | None = None

    def add(db: Connection) -> tuple[Digest, Key | None]:
        rows = read_page(db, table, after)
        last = tuple(rows[-1][place] for place in table.places) if rows else None
        return found.plus(rows), last

    while True:
        more, after = await engine.scan(add)
        report(more.rows - found.rows)
        found = more
        if after is None:
            return found


def count(table: CopiedTable, db: Connection) -> int:
    """Return the number of rows."""
    row = db.row(f"SELECT count(*) FROM {table.name}")
    return int(row[0]) if row else 0


def _insert(db: Connection, table: CopiedTable, rows: Sequence[Row]) -> None:
    values = ", ".join(
        f"({', '.join(f':v{at}_{place}' for place in range(len(table.columns)))})"
        for at in range(len(rows))
    )
    given = {
        f"v{at}_{place}": value for at, row in enumerate(rows) for place, value in enumerate(row)
    }
    db.send(f"INSERT INTO {table.name} ({_names(table.columns)}) VALUES {values}", **given)


def _names(columns: Sequence[str]) -> str:
    # Quoted: a column may be called like a word of SQL.
    return ", ".join(f'"{each}"' for each in columns)


def _parameters(key: Sequence[str], prefix: str) -> str:
    return ", ".join(f":{prefix}{place}" for place in range(len(key)))


def _values(key: Sequence[object], prefix: str) -> dict[str, object]:
    return {f"{prefix}{place}": value for place, value in enumerate(key)}


def _noted(key: Key | None) -> str:
    return json.dumps(list(key or ()))
