"""Copy a database to another engine: preconditions, rows, the check at the end, the handover.

Source and target of a copy share a random id. The source refuses writes while it has that id. The
target refuses to be used until the copy is complete; before that happens, the source refuses to be
used ever again. Each step may be repeated by another process after a crash (docs/decisions/0037).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import TopologicalSorter
from hashlib import sha256
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from valetkey.database import identity
from valetkey.database.engine import Connection, Engine, Row
from valetkey.database.identity import Seen
from valetkey.database.migrate import (
    MOVED,
    UNFINISHED,
    add_mark,
    applied,
    apply_missing,
    find,
    pending,
    remove_mark,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace

SELF = frozenset({"installation", "migrations", "probe", "nodes", "backups"})
"""Tables that describe the database itself, the servers that use it and its backups; each database
has its own content in them."""

PROGRESS = "copy_progress"
"""The table with which an unfinished copy is continued; it exists only in such a target."""

_TYPES = frozenset({"TEXT", "BIGINT"})


class CopiedTable(Struct, frozen=True):
    """A table: columns by name, those with text, and the primary key."""

    name: str
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Return the positions of the key's columns in a row."""
        return tuple(self.columns.index(column) for column in self.key)


class CopiedColumn(Struct, frozen=True):
    """A column, its type, and its position in the primary key; a negative one if not in it."""

    table: str
    name: str
    type: str
    key_position: int


def tables_of(
    columns: Iterable[CopiedColumn], references: Iterable[tuple[str, str]]
) -> tuple[CopiedTable, ...]:
    """Return the tables; one that refers to others comes after them.

    Raises OperatorError for a column that is neither TEXT nor BIGINT, and for a table without a
    key.
    """
    table_columns: dict[str, list[CopiedColumn]] = {}
    for column in columns:
        if column.type.upper() not in _TYPES:
            message = f"column {column.table}.{column.name} is {column.type}: only text and bigint"
            raise OperatorError(f"{message} can be copied")
        table_columns.setdefault(column.table, []).append(column)
    parents: dict[str, set[str]] = {name: set() for name in sorted(table_columns)}
    for name, parent in references:
        if parent != name:
            parents[name].add(parent)
    return tuple(
        _table(name, table_columns[name]) for name in TopologicalSorter(parents).static_order()
    )


def copied(tables: Sequence[CopiedTable]) -> tuple[CopiedTable, ...]:
    """Return the tables whose rows are copied."""
    return tuple(table for table in tables if table.name not in SELF and table.name != PROGRESS)


def _table(name: str, columns: Sequence[CopiedColumn]) -> CopiedTable:
    # By name: a column that a migration added may stand elsewhere on another engine.
    named = sorted(columns, key=lambda column: column.name)
    key = sorted(
        (column for column in columns if column.key_position >= 0),
        key=lambda column: column.key_position,
    )
    if not key:
        raise OperatorError(f"table {name} has no primary key and cannot be copied")
    return CopiedTable(
        name,
        tuple(column.name for column in named),
        tuple(column.name for column in named if column.type.upper() == "TEXT"),
        tuple(column.name for column in key),
    )


_REFUSED = "this database is being copied to another one, or was: it accepts no writes"
_PREFIX = "copying_"


class Dialect(Protocol):
    """The SQL of one engine that is not in the shared subset."""

    def tables(self, db: Connection) -> Sequence[CopiedTable]:
        """Return all tables, those that others refer to first."""
        ...

    def refuse_writes(self, db: Connection, tables: Iterable[str]) -> None:
        """Let every write to these tables fail, whichever process tries it.

        Waits for transactions that write to them. Afterwards a write raises `DatabaseUnavailable`.
        """
        ...

    def accept_writes(self, db: Connection, tables: Iterable[str]) -> None:
        """Let writes to these tables succeed again."""
        ...


class _SQLite:
    def tables(self, db: Connection) -> Sequence[CopiedTable]:
        """See `Dialect.tables`."""
        columns = db.rows(
            "SELECT s.name, c.name, c.type, c.pk - 1"
            " FROM sqlite_schema s JOIN pragma_table_xinfo(s.name) c"
            " WHERE s.type = 'table' AND substr(s.name, 1, 7) <> 'sqlite_'"
            # Of Litestream, which copies the database to a second place.
            " AND substr(s.name, 1, 12) <> '_litestream_'"
        )
        references = db.rows(
            'SELECT DISTINCT s.name, f."table"'
            " FROM sqlite_schema s JOIN pragma_foreign_key_list(s.name) f WHERE s.type = 'table'"
        )
        return tables_of(
            (CopiedColumn(*row) for row in columns), ((row[0], row[1]) for row in references)
        )

    def refuse_writes(self, db: Connection, tables: Iterable[str]) -> None:
        """See `Dialect.refuse_writes`: the transaction holds the only write lock."""
        for name in tables:
            for verb in _VERBS:
                db.send(
                    f"CREATE TRIGGER {_PREFIX}{verb}_{name} BEFORE {verb} ON {name}"
                    f" BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
                )

    def accept_writes(self, db: Connection, tables: Iterable[str]) -> None:
        """See `Dialect.accept_writes`."""
        for name in tables:
            for verb in _VERBS:
                db.send(f"DROP TRIGGER IF EXISTS {_PREFIX}{verb}_{name}")


class _Postgres:
    def tables(self, db: Connection) -> Sequence[CopiedTable]:
        """See `Dialect.tables`."""
        # A generated column or one with a sequence cannot be copied: its type is reported as
        # another one.
        columns = db.rows(
            "SELECT t.relname::text, c.attname::text,"
            " CASE WHEN c.attidentity <> '' OR c.attgenerated <> '' THEN 'generated'"
            " ELSE format_type(c.atttypid, c.atttypmod) END,"
            " coalesce(array_position(k.indkey::int2[], c.attnum), -1)"
            " FROM pg_class t"
            " JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped"
            " LEFT JOIN pg_index k ON k.indrelid = t.oid AND k.indisprimary"
            " WHERE t.relkind IN ('r', 'p') AND t.relnamespace = current_schema()::regnamespace"
        )
        references = db.rows(
            "SELECT DISTINCT t.relname::text, p.relname::text FROM pg_constraint f"
            " JOIN pg_class t ON t.oid = f.conrelid JOIN pg_class p ON p.oid = f.confrelid"
            " WHERE f.contype = 'f' AND t.relnamespace = current_schema()::regnamespace"
        )
        return tables_of(
            (CopiedColumn(*row) for row in columns), ((row[0], row[1]) for row in references)
        )

    def refuse_writes(self, db: Connection, tables: Iterable[str]) -> None:
        """See `Dialect.refuse_writes`: the locks wait for everything that was written before."""
        names = sorted(tables)
        db.send(f"LOCK TABLE {', '.join(names)} IN SHARE ROW EXCLUSIVE MODE")
        # 55000: the servers answer 503, and keep the connection.
        db.send(
            f"CREATE OR REPLACE FUNCTION {_PREFIX}refuses() RETURNS trigger LANGUAGE plpgsql AS"
            f" 'BEGIN RAISE EXCEPTION ''{_REFUSED}'' USING ERRCODE = ''55000''; END'"
        )
        for name in names:
            db.send(
                f"CREATE TRIGGER {_PREFIX}refuses BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE"
                f" ON {name} FOR EACH STATEMENT EXECUTE FUNCTION {_PREFIX}refuses()"
            )

    def accept_writes(self, db: Connection, tables: Iterable[str]) -> None:
        """See `Dialect.accept_writes`."""
        for name in sorted(tables):
            db.send(f"DROP TRIGGER IF EXISTS {_PREFIX}refuses ON {name}")


_VERBS = ("insert", "update", "delete")
_POSTGRES = _Postgres()
DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {"sqlite": _SQLite(), "postgresql": _POSTGRES, "postgres": _POSTGRES}
)
"""The dialect of each URL scheme that can be copied from or to."""


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
    size = " + ".join(f"coalesce(octet_length({column}), 0)" for column in table.texts) or "0"
    parameters = _values(after or (), "after")
    # Sizes first: they are known without reading long texts.
    sizes = db.rows(
        f"SELECT {key}, {size} FROM {table.name} {start} ORDER BY {key} LIMIT {_ROWS}", **parameters
    )
    if not sizes:
        return ()
    last, taken = sizes[0], 0
    for row in sizes:
        taken += row[-1]
        if taken > _BYTES and row is not sizes[0]:
            break
        last = row
    until = f"{'AND' if start else 'WHERE'} ({key}) <= ({_parameters(table.key, 'until')})"
    rows = db.rows(
        f"SELECT {_names(table.columns)} FROM {table.name} {start} {until} ORDER BY {key}",
        **parameters,
        **_values(last[:-1], "until"),
    )
    return [tuple(row) for row in rows]


def write_page(
    db: Connection, table: CopiedTable, rows: Sequence[Row], *, copy: str, after: Key | None
) -> None:
    """Insert rows and note the last one.

    Raises OperatorError if another process wrote this page.
    """
    last = tuple(rows[-1][position] for position in table.places)
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
    total = Digest()
    after: Key | None = None

    def add(db: Connection) -> tuple[Digest, Key | None]:
        rows = read_page(db, table, after)
        last = tuple(rows[-1][position] for position in table.places) if rows else None
        return total.plus(rows), last

    while True:
        more, after = await engine.scan(add)
        report(more.rows - total.rows)
        total = more
        if after is None:
            return total


def count(table: CopiedTable, db: Connection) -> int:
    """Return the number of rows."""
    row = db.row(f"SELECT count(*) FROM {table.name}")
    return int(row[0]) if row else 0


def _insert(db: Connection, table: CopiedTable, rows: Sequence[Row]) -> None:
    values = ", ".join(
        f"({', '.join(f':v{at}_{position}' for position in range(len(table.columns)))})"
        for at in range(len(rows))
    )
    parameters = {
        f"v{at}_{position}": value
        for at, row in enumerate(rows)
        for position, value in enumerate(row)
    }
    db.send(f"INSERT INTO {table.name} ({_names(table.columns)}) VALUES {values}", **parameters)


def _names(columns: Sequence[str]) -> str:
    # Quoted: a column may be called like a word of SQL.
    return ", ".join(f'"{column}"' for column in columns)


def _parameters(key: Sequence[str], prefix: str) -> str:
    return ", ".join(f":{prefix}{position}" for position in range(len(key)))


def _values(key: Sequence[object], prefix: str) -> dict[str, object]:
    return {f"{prefix}{position}": value for position, value in enumerate(key)}


def _noted(key: Key | None) -> str:
    return json.dumps(list(key or ()))


_UNFROZEN = frozenset({"installation", "probe", "nodes"})
"""The writes of a server that only reads: that the database is present, and that it runs."""


def copy_of(db: Connection) -> str:
    """Return the id of the copy that this database takes part in; "" for none."""
    row = db.row("SELECT id FROM installation WHERE name = 'copy'")
    return "" if row is None else str(row[0])


def moved(db: Connection) -> Seen | None:
    """Return the identity that this database passed on; None if it still has it."""
    row = db.row("SELECT id, epoch, number, at FROM installation WHERE name = 'moved'")
    return None if row is None else Seen(row[0], row[1], row[2], Instant(row[3]))


def begin_target(
    db: Connection, dialect: Dialect, package: str, copy: str, now: Instant
) -> Sequence[CopiedTable]:
    """Make the tables, empty and marked, in an empty database or one of an unfinished copy.

    Return them. Raises OperatorError for any other database.
    """
    present = {target_table.name for target_table in dialect.tables(db)}
    if present:
        if PROGRESS not in present:
            raise OperatorError("the target is not empty; name an empty database")
        remove_mark(db, UNFINISHED)
    apply_missing(db, package)
    tables = copied(dialect.tables(db))
    for table in reversed(tables):
        db.send(f"DELETE FROM {table.name}")
    db.send("DELETE FROM installation")
    begin_progress(db, tables, copy)
    add_mark(db, package, UNFINISHED)
    _put_copy(db, copy, now)
    return tables


def freeze_source(db: Connection, dialect: Dialect, copy: str, now: Instant) -> None:
    """Refuse writes from now on, for the copy of this id.

    Raises OperatorError if another one does.
    """
    other = copy_of(db)
    if other == copy:
        return
    if other:
        raise OperatorError(ELSEWHERE)
    dialect.refuse_writes(db, _frozen(db, dialect))
    _put_copy(db, copy, now)


def release_source(db: Connection, dialect: Dialect) -> bool:
    """Accept writes again, unless the copy was completed; return whether there was one."""
    if moved(db) is not None:
        raise OperatorError("the copy is complete: the servers use the other database")
    if not copy_of(db):
        return False
    dialect.accept_writes(db, _frozen(db, dialect))
    db.send("DELETE FROM installation WHERE name = 'copy'")
    return True


def retire_source(db: Connection, dialect: Dialect, package: str, copy: str) -> Seen:
    """Pass on the identity: no server uses this database from now on. Return the identity.

    Raises OperatorError if the copy was cancelled.
    """
    if copy_of(db) != copy:
        raise OperatorError("the copy was cancelled meanwhile; begin again")
    seen = moved(db)
    if seen is not None:
        return seen
    db.send("UPDATE installation SET name = 'moved' WHERE name = 'this'")
    dialect.accept_writes(db, ("migrations",))
    add_mark(db, package, MOVED)
    dialect.refuse_writes(db, ("migrations",))
    seen = moved(db)
    if seen is None:
        raise OperatorError("the source has no identity; start its servers once")
    return seen


def finish_target(db: Connection, copy: str, seen: Seen) -> Seen:
    """Let servers use the target, by the identity that the source passed on; return it."""
    if copy_of(db) != copy:
        raise OperatorError("the target belongs to another copy")
    remove_mark(db, UNFINISHED)
    db.send(f"DROP TABLE {PROGRESS}")
    db.send("DELETE FROM installation")
    # Later than anything that a server noted of the source.
    seen = replace(seen, number=seen.number + 1)
    identity.store_identity(db, seen)
    return seen


def _put_copy(db: Connection, copy: str, now: Instant) -> None:
    db.send(
        "INSERT INTO installation (name, id, epoch, number, at) VALUES ('copy', :id, 0, 0, :now)",
        id=copy,
        now=now,
    )


def _frozen(db: Connection, dialect: Dialect) -> Sequence[str]:
    return [table.name for table in dialect.tables(db) if table.name not in _UNFROZEN]


ELSEWHERE = (
    "this database is being copied to another one, whose copy is not finished; continue that with "
    "the same files, or give it up: valetkey database copy FROM TO --cancel"
)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two databases, with its dialect."""

    engine: Engine
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Digests of a table in both databases, to compare."""

    table: str
    rows: int
    checksum: str


@dataclass(slots=True)
class DatabaseCopy:
    """A copy of the database of one server, whose tables are those of `package`.

    `total` and `done` count rows, from `begin` on.
    """

    source: Side
    target: Side
    package: str
    total: int = field(default=0, init=False)
    done: int = field(default=0, init=False)
    complete: bool = field(default=False, init=False)
    _id: str = field(default="", init=False)
    _tables: Sequence[CopiedTable] = field(default=(), init=False)

    async def inspect(self) -> None:
        """Raise OperatorError if this source cannot be copied to this target; changes nothing."""
        handed = await self._handed()
        self._id = await self.source.engine.scan(copy_of)
        present = {
            table.name for table in await self.target.engine.scan(self.target.dialect.tables)
        }
        if PROGRESS in present:
            if self._id not in ("", await self.target.engine.scan(copy_of)):
                raise OperatorError(ELSEWHERE)
        elif present:
            seen = await self.target.engine.scan(identity.find) if handed else None
            if handed is None or seen is None or seen.database != handed.database:
                raise OperatorError("the target is not empty; name an empty database")
            self.complete = True
        elif self._id:
            raise OperatorError(ELSEWHERE)

    async def identity(self) -> Seen | None:
        """Return the identity of the source, or the one that it passed on."""
        return await self.source.engine.scan(lambda db: identity.find(db) or moved(db))

    async def begin(self, fresh: str, now: Instant) -> None:
        """Begin a copy with the id `fresh`, or continue one; the source refuses writes from now on.

        Raises OperatorError if the two databases differ in their tables.
        """
        source, target = self.source, self.target
        if not self._id:
            self._id = fresh
            await target.engine.change_schema(
                lambda db: begin_target(db, target.dialect, self.package, fresh, now)
            )
        await source.engine.change_schema(
            lambda db: freeze_source(db, source.dialect, self._id, now)
        )
        self._tables = copied(await source.engine.scan(source.dialect.tables))
        theirs = copied(await target.engine.scan(target.dialect.tables))
        if sorted(self._tables, key=_name) != sorted(theirs, key=_name):
            raise OperatorError("the tables of the two databases differ: one version made both?")
        for table in self._tables:
            self.total += await source.engine.scan(partial(count, table))

    async def copy(self, report: Callable[[str], None]) -> None:
        """Copy the rows that are missing; call `tell` with the table after each page."""
        progress = await self.target.engine.scan(lambda db: copied_so_far(db, self._id))
        self.done = sum(amount for _, amount in progress.values())
        for table in self._tables:
            report(table.name)
            after = progress[table.name][0]
            while rows := await self._page(table, after):
                await self._store(table, rows, after)
                after = tuple(rows[-1][position] for position in table.places)
                self.done += len(rows)
                report(table.name)

    async def check(self, report: Callable[[str], None]) -> Sequence[TableCheck]:
        """Compare what both databases have of each table. Raises OperatorError for a difference."""
        checks: list[TableCheck] = []
        self.done = 0
        for table in self._tables:

            def add(rows: int, name: str = table.name) -> None:
                self.done += rows
                report(name)

            ours = await digest(self.source.engine, table, add)
            theirs = await digest(self.target.engine, table, lambda _: None)
            if ours != theirs:
                raise OperatorError(_difference(table.name, ours, theirs))
            checks.append(TableCheck(table.name, ours.rows, ours.checksum))
        if self.done != self.total:
            raise OperatorError(f"the source has {self.total} rows, and {self.done} were copied")
        return checks

    async def retire(self) -> Seen:
        """Let no server use the source any more; return the identity that it passed on."""
        source = self.source
        return await source.engine.change_schema(
            lambda db: retire_source(db, source.dialect, self.package, self._id)
        )

    async def finish(self, seen: Seen) -> Seen:
        """Let the servers use the target; return its identity."""
        if self.complete:
            return seen
        return await self.target.engine.change_schema(lambda db: finish_target(db, self._id, seen))

    async def _handed(self) -> Seen | None:
        """Return the identity that the source passed on; None before.

        Raises OperatorError unless its tables are those of this version.
        """
        present = await self.source.engine.scan(self.source.dialect.tables)
        if not present:
            raise OperatorError("the source has no tables")
        numbers = {migration.number for migration in find(self.package)}
        if "installation" in {table.name for table in present}:
            handed = await self.source.engine.scan(moved)
            if handed is not None:
                return handed
        if missing := await pending(self.source.engine, self.package):
            names = ", ".join(migration.name for migration in missing)
            message = f"the source's tables are older than this version ({names}); run: "
            raise OperatorError(f"{message}valetkey database migrate")
        if await self.source.engine.scan(applied) - numbers:
            raise OperatorError(
                "the source's tables are those of a newer version: copy it with that one"
            )
        return None

    async def _page(self, table: CopiedTable, after: Key | None) -> Sequence[Row]:
        return await self.source.engine.scan(lambda db: read_page(db, table, after))

    async def _store(self, table: CopiedTable, rows: Sequence[Row], after: Key | None) -> None:
        # Without time limits: a slow disk is no reason to give up.
        await self.target.engine.change_schema(
            lambda db: write_page(db, table, rows, copy=self._id, after=after)
        )


def _name(table: CopiedTable) -> str:
    return table.name


def _difference(table: str, ours: Digest, theirs: Digest) -> str:
    difference = f"{ours.rows} rows here and {theirs.rows} there"
    if ours.rows == theirs.rows:
        difference = f"{ours.rows} rows with different content"
    return (
        f"table {table} was not copied exactly: {difference}. Neither database was switched; give "
        "the copy up with --cancel, and begin again"
    )
