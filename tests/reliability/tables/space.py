"""How much of a SQLite file is empty, and whether the space of expired rows was used again."""

from collections.abc import Sequence
from dataclasses import dataclass

import apsw

_MOST_GROWTH = 2**20
_MOST_EMPTY = 0.5
"""Of the space that expired rows took.

About a quarter of it is in an index of random keys, whose pages only serve other rows of the table.
"""

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes of a file at one moment."""

    rows: int
    """Of the rows in the tables whose rows expire, and of their entries in indexes."""
    empty: int
    """In pages of these tables and indexes, and in pages that belong to no table."""


def measure(raw: apsw.Connection, tables: Sequence[str]) -> Space:
    """Read every page of the file. Tables without expired rows may be as empty as they are."""
    named = ", ".join(f"'{table}'" for table in tables)
    ((used, unused),) = raw.execute(
        "SELECT sum(d.pgsize - d.unused), sum(d.unused) FROM dbstat AS d"
        " JOIN sqlite_schema AS s ON s.name = d.name"
        f" WHERE d.aggregate = TRUE AND s.tbl_name IN ({named})"
    )
    free = int(raw.pragma("freelist_count")) * int(raw.pragma("page_size"))
    return Space(rows=int(used), empty=int(unused) + free)


@dataclass(frozen=True, slots=True)
class Reuse:
    """A file whose rows expired while clients added others."""

    before: Space
    after: Space
    expired: int
    """Bytes of the rows that expired."""
    grown: int
    """Bytes by which the file grew."""

    @property
    def emptied(self) -> int:
        """Bytes that became empty and stayed so."""
        return self.after.empty - self.before.empty

    @property
    def held(self) -> bool:
        """Whether the file grew only for rows that had no room in the space of expired ones."""
        return self.grown < _MOST_GROWTH or self.emptied < max(
            _MOST_GROWTH, _MOST_EMPTY * self.expired
        )

    def __str__(self) -> str:
        """Return the sizes for a row of the table."""
        return (
            f"file {self.grown / _MIB:+.1f} MiB, empty space in it {self.emptied / _MIB:+.1f} MiB "
            f"after {self.expired / _MIB:.1f} MiB expired"
        )
