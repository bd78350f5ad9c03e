"""The authorization server's PostgreSQL database, filled while nobody is served."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from bench.growth.fill import Copies, Dialect, Size, expiring, plan, settle

_CHUNK = 2_000
_SPEAKS = Dialect(
    fingerprint="md5(random()::text || i) || substr(md5(random()::text), 1, 11)",
    chance="substr(md5(random()::text || i), 1, 22)",
    padded=lambda number: f"lpad(({number})::text, 22, '0')",
    hexed=lambda text: f"encode(convert_to({text}, 'UTF8'), 'hex')",
)
_CONSTRAINTS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND contype IN ('f', 'p', 'u')
    ORDER BY array_position(ARRAY['p', 'u', 'f'], contype::text), conrelid, conname
"""
_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"


@dataclass(frozen=True, slots=True)
class PostgreSQLDatabase:
    """It, at `url`, whose owner we are."""

    url: str

    def size(self) -> int:
        """Bytes of all its files."""
        with self._open() as raw:
            return int(_rows(raw, "SELECT pg_database_size(current_database())")[0][0])

    def fill(self, size: Size) -> None:
        """Add so much, with what goes with it. Nobody else may be at work."""
        now = int(time.time())
        with self._open() as raw:
            _run(raw, "SET synchronous_commit = off")
            _run(raw, "SET maintenance_work_mem = '1GB'")
            # Built once at the end, an index costs a tenth of what it costs row by row.
            constraints = _rows(raw, _CONSTRAINTS)
            for table, name, _ in reversed(constraints):
                _run(raw, f"ALTER TABLE {table} DROP CONSTRAINT {name}")
            indexes = _rows(raw, _INDEXES)
            for name, _ in indexes:
                _run(raw, f"DROP INDEX {name}")
            for copies in plan(size, now, _SPEAKS):
                _copy(raw, copies)
            for statement in settle(now):
                _run(raw, statement)
            for table, name, definition in constraints:
                _run(raw, f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
            for _, definition in indexes:
                _run(raw, definition)
            # What autovacuum would do a minute later, beside the requests.
            _run(raw, "VACUUM (FREEZE, ANALYZE)")
            _run(raw, "CHECKPOINT")

    def expire(self, begins: int, per_second: int, seconds: int) -> None:
        """Add rows of which so many expire in each of `seconds` from `begins` on."""
        tables = expiring(_SPEAKS)
        table_rows = per_second * seconds // len(tables)
        with self._open() as raw:
            for table in tables:
                for first in range(0, table_rows, _CHUNK):
                    ends = f"{begins - table.late} + (i + {first}) * {seconds} / {table_rows}"
                    columns = {**table.columns, "expires_at": ends}
                    count = min(_CHUNK, table_rows - first)
                    _copy(raw, Copies(table.table, "1 = 1", count, columns))

    def expired(self) -> int:
        """How many rows of those tables have expired and are still there."""
        now, count = int(time.time()), 0
        with self._open() as raw:
            for table in expiring(_SPEAKS):
                sql = f"SELECT count(*) FROM {table.table} WHERE expires_at <= {now - table.late}"
                count += int(_rows(raw, sql)[0][0])
        return count

    @contextmanager
    def _open(self) -> Generator[psycopg.Connection]:
        with psycopg.connect(self.url, autocommit=True) as raw:
            yield raw


def _run(raw: psycopg.Connection, sql: str) -> None:
    # Put together here, from names that the database told and numbers.
    raw.execute(sql.encode())


def _rows(raw: psycopg.Connection, sql: str) -> list[tuple[str, ...]]:
    return raw.execute(sql.encode()).fetchall()


def _copy(raw: psycopg.Connection, copies: Copies) -> None:
    if copies.count <= 0:
        return
    rows = _rows(
        raw,
        "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
        f" AND attrelid = '{copies.table}'::regclass ORDER BY attnum",
    )
    names = [name for (name,) in rows]
    values = ", ".join(copies.columns.get(name, f"t.{name}") for name in names)
    table = copies.table
    original = f"SELECT * FROM {table} WHERE {copies.of} LIMIT 1" if copies.of else "SELECT 1"
    _run(
        raw,
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {values}"
        f" FROM generate_series(0::bigint, {copies.count - 1}) AS n(i)"
        f" CROSS JOIN ({original}) AS t",
    )
