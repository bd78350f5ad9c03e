"""The authorization server's SQLite file, filled while nobody has it open."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw

from bench.growth.fill import Copies, Dialect, Expiring, Size, expiring, plan, settle

_CHUNK = 2_000
_SPEAKS = Dialect(
    fingerprint="substr(hex(randomblob(22)), 1, 43)",
    chance="substr(hex(randomblob(11)), 1, 22)",
    padded=lambda number: f"printf('%022d', {number})",
    hexed=lambda text: f"lower(hex({text}))",
)


@dataclass(frozen=True, slots=True)
class SQLiteFile:
    """It, at `path`."""

    path: Path

    def size(self) -> int:
        """Bytes of the file, without its log."""
        return self.path.stat().st_size

    def fill(self, size: Size) -> None:
        """Add so much, with what goes with it. Nobody else may have the file open."""
        raw = apsw.Connection(str(self.path))
        # A file that was never served may be lost: what it costs is to fill it again.
        raw.pragma("journal_mode", "OFF")
        raw.pragma("synchronous", "OFF")
        raw.pragma("cache_size", -1_000_000)
        # Built once at the end, an index costs a tenth of what it costs row by row.
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        indexes = raw.execute(query).fetchall()
        now = int(time.time())
        with raw:
            for name, _ in indexes:
                raw.execute(f"DROP INDEX {name}")
            for copies in plan(size, now, _SPEAKS):
                _copy(raw, copies)
            for statement in settle(now):
                raw.execute(statement)
            for _, sql in indexes:
                raw.execute(str(sql))
        raw.pragma("journal_mode", "WAL")
        raw.close()

    def expire(self, begins: int, per_second: int, seconds: int) -> None:
        """Add rows of which so many expire in each of `seconds` from `begins` on.

        The server may be at work: others write in between.
        """
        raw = apsw.Connection(str(self.path))
        raw.set_busy_timeout(10_000)
        raw.pragma("synchronous", "NORMAL")
        tables = expiring(_SPEAKS)
        table_rows = per_second * seconds // len(tables)
        for table in tables:
            for first in range(0, table_rows, _CHUNK):
                ends = f"{begins - table.late} + (i + {first}) * {seconds} / {table_rows}"
                columns = {**table.columns, "expires_at": ends}
                count = min(_CHUNK, table_rows - first)
                # At once: a read that turns into a write gives way to who wrote meanwhile.
                raw.execute("BEGIN IMMEDIATE")
                _copy(raw, Copies(table.table, "1 = 1", count, columns))
                raw.execute("COMMIT")
                time.sleep(0.02)
        raw.close()

    def expired(self) -> int:
        """How many rows of those tables have expired and are still there."""
        raw = apsw.Connection(str(self.path))
        now = int(time.time())
        count = sum(_count(raw, table, now) for table in expiring(_SPEAKS))
        raw.close()
        return count


def _count(raw: apsw.Connection, table: Expiring, now: int) -> int:
    sql = f"SELECT count(*) FROM {table.table} WHERE expires_at <= ?"
    return cast("int", raw.execute(sql, (now - table.late,)).fetchall()[0][0])


def _copy(raw: apsw.Connection, copies: Copies) -> None:
    if copies.count <= 0:
        return
    table = copies.table
    names = [str(row[1]) for row in raw.execute(f"PRAGMA table_info({table})")]
    values = ", ".join(copies.columns.get(name, f"t.{name}") for name in names)
    original = f"SELECT * FROM {table} WHERE {copies.of} LIMIT 1" if copies.of else "SELECT 1"
    raw.execute(
        f"WITH RECURSIVE n(i) AS"
        f" (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {copies.count - 1}),"
        f" t AS MATERIALIZED ({original})"
        f" INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM n CROSS JOIN t"
    )
