"""Measure the tables of a SQLite database, which takes reading every page of it."""

from collections.abc import Mapping
from time import monotonic

import apsw

from valetkey.database.engine import Connection

LARGEST = 1 << 30
"""Bytes of the largest file that is read for this."""

IS_POSSIBLE = "ENABLE_DBSTAT_VTAB" in apsw.compile_options
"""Whether this SQLite counts its pages; a build of one's own may not."""

_EVERY = 60.0  # seconds
_SHARE = 1_000
"""The time of a measurement is at most one part in so many."""

# Of each page: B-trees with their overflow pages, indexes as parts of their tables.
_SIZES = (
    "SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize) FROM dbstat AS d"
    " LEFT JOIN sqlite_schema AS s ON s.name = d.name WHERE d.aggregate = TRUE GROUP BY 1"
)


class TableSizes:
    """The bytes of each table with its indexes, as measured last."""

    __slots__ = ("_due", "found")

    def __init__(self) -> None:
        """Start without sizes."""
        self.found: Mapping[str, int] = {}
        self._due = 0.0

    def is_due(self, size: int) -> bool:
        """Return whether to measure now; `size` is that of the file. Forgets what is too old."""
        if size > LARGEST or not IS_POSSIBLE:
            self.found = {}
            return False
        return monotonic() >= self._due

    def measure(self, db: Connection) -> None:
        """Read every page."""
        begun = monotonic()
        # Also after a failure.
        self._due = begun + _EVERY
        self.found = dict(db.rows(_SIZES))
        ended = monotonic()
        self._due = max(self._due, ended + _SHARE * (ended - begun))
