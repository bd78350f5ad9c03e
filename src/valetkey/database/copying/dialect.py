"""Differences between the engines: catalogue, tables, and refusing writes."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.kernel.refusal import OperatorError

SELF = frozenset({"installation", "migrations", "probe"})
"""Tables that describe the database itself; each database has its own content in them."""

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
        return tuple(self.columns.index(each) for each in self.key)


class CopiedColumn(Struct, frozen=True):
    """A column, its type, and its position in the primary key; a negative one if not in it."""

    table: str
    name: str
    type: str
    place: int


def tables_of(
    columns: Iterable[CopiedColumn], references: Iterable[tuple[str, str]]
) -> tuple[CopiedTable, ...]:
    """Return the tables; one that refers to others comes after them.

    Raises OperatorError for a column that is neither TEXT nor BIGINT, and for a table without a
    key.
    """
    found: dict[str, list[CopiedColumn]] = {}
    for each in columns:
        if each.type.upper() not in _TYPES:
            message = f"column {each.table}.{each.name} is {each.type}: only text and bigint"
            raise OperatorError(f"{message} can be copied")
        found.setdefault(each.table, []).append(each)
    parents: dict[str, set[str]] = {name: set() for name in sorted(found)}
    for name, parent in references:
        if parent != name:
            parents[name].add(parent)
    return tuple(_table(name, found[name]) for name in TopologicalSorter(parents).static_order())


def copied(tables: Sequence[CopiedTable]) -> tuple[CopiedTable, ...]:
    """Return the tables whose rows are copied."""
    return tuple(each for each in tables if each.name not in SELF and each.name != PROGRESS)


def _table(name: str, columns: Sequence[CopiedColumn]) -> CopiedTable:
    # By name: a column that a migration added may stand elsewhere on another engine.
    named = sorted(columns, key=lambda each: each.name)
    key = sorted((each for each in columns if each.place >= 0), key=lambda each: each.place)
    if not key:
        raise OperatorError(f"table {name} has no primary key and cannot be copied")
    return CopiedTable(
        name,
        tuple(each.name for each in named),
        tuple(each.name for each in named if each.type.upper() == "TEXT"),
        tuple(each.name for each in key),
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
