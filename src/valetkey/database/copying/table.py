"""The tables of a database as its own catalogue describes them, in the order of references."""

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter

from msgspec import Struct

from valetkey.kernel.refusal import Mistake

SELF = frozenset({"installation", "migrations", "probe"})
"""Tables that describe the database itself; each database has its own content in them."""

PROGRESS = "copy_progress"
"""The table with which an unfinished copy is continued; it exists only in such a target."""

_TYPES = frozenset({"TEXT", "BIGINT"})


class Table(Struct, frozen=True):
    """A table: columns by name, those with text, the primary key, and the tables it refers to."""

    name: str
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    key: tuple[str, ...]
    parents: frozenset[str]

    @property
    def places(self) -> tuple[int, ...]:
        """Return the positions of the key's columns in a row."""
        return tuple(self.columns.index(each) for each in self.key)


class Column(Struct, frozen=True):
    """A column, its type, and its position in the primary key; a negative one if not in it."""

    table: str
    name: str
    type: str
    place: int


def tables_of(
    columns: Iterable[Column], references: Iterable[tuple[str, str]]
) -> tuple[Table, ...]:
    """Return the tables; one that refers to others comes after them.

    Raises Mistake for a column that is neither TEXT nor BIGINT, and for a table without a key.
    """
    found: dict[str, list[Column]] = {}
    for each in columns:
        if each.type.upper() not in _TYPES:
            message = f"column {each.table}.{each.name} is {each.type}: only text and bigint"
            raise Mistake(f"{message} can be copied")
        found.setdefault(each.table, []).append(each)
    parents: dict[str, set[str]] = {name: set() for name in sorted(found)}
    for name, parent in references:
        if parent != name:
            parents[name].add(parent)
    return tuple(
        _table(name, found[name], frozenset(parents[name]))
        for name in TopologicalSorter(parents).static_order()
    )


def copied(tables: Sequence[Table]) -> tuple[Table, ...]:
    """Return the tables whose rows are copied."""
    return tuple(each for each in tables if each.name not in SELF and each.name != PROGRESS)


def _table(name: str, columns: Sequence[Column], parents: frozenset[str]) -> Table:
    # By name: a column that a migration added may stand elsewhere on another engine.
    named = sorted(columns, key=lambda each: each.name)
    key = sorted((each for each in columns if each.place >= 0), key=lambda each: each.place)
    if not key:
        raise Mistake(f"table {name} has no primary key and cannot be copied")
    return Table(
        name,
        tuple(each.name for each in named),
        tuple(each.name for each in named if each.type.upper() == "TEXT"),
        tuple(each.name for each in key),
        parents,
    )
