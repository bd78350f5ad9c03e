"""E17 allows a SQLite file to grow for live rows, but not beside the space of expired ones."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.reliability.tables.space import Reuse, Space, measure

_ROWS = 20_000
_BATCH = 500
_LOAD = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    " INSERT INTO {table} (fingerprint, expires_at, claims)"
    " SELECT hex(randomblob(32)), {at}, hex(randomblob(50)) FROM n"
)
_SWEEP = (
    "DELETE FROM tokens WHERE fingerprint IN"
    f" (SELECT fingerprint FROM tokens WHERE expires_at = 0 ORDER BY expires_at LIMIT {_BATCH})"
)


def _load(raw: apsw.Connection, count: int, *, table: str = "tokens", at: int = 1) -> None:
    raw.execute(_LOAD.format(table=table, count=count, at=at))


def _expire(raw: apsw.Connection, file: Path, *, live: int, into: str, sweeps: bool) -> Reuse:
    """Have half of the rows expire, in batches, while clients add `live` rows for each batch."""
    for table in ("tokens", "events"):
        raw.execute(
            f"CREATE TABLE {table} (fingerprint TEXT PRIMARY KEY, expires_at BIGINT, claims TEXT)"
        )
    raw.execute("CREATE INDEX tokens_expiring ON tokens (expires_at)")
    _load(raw, _ROWS)
    _load(raw, _ROWS, at=0)
    before, size = measure(raw, ("tokens",)), file.stat().st_size
    with raw:
        for _ in range(_ROWS // _BATCH):
            if sweeps:
                raw.execute(_SWEEP)
            _load(raw, live, table=into)
        if not sweeps:
            raw.execute("DELETE FROM tokens WHERE expires_at = 0")
    after = measure(raw, ("tokens",))
    return Reuse(before, after, before.rows // 2, file.stat().st_size - size)


@pytest.mark.parametrize("into", ["tokens", "events"])
@pytest.mark.parametrize("live", [_BATCH // 10, _BATCH, 2 * _BATCH])
def test_growth_for_live_rows_holds(tmp_path: Path, live: int, into: str) -> None:
    file = tmp_path / "auth.db"
    with closing(apsw.Connection(str(file))) as raw:
        reuse = _expire(raw, file, live=live, into=into, sweeps=True)
    assert reuse.held, reuse


@pytest.mark.parametrize("live", [_BATCH, 2 * _BATCH])
def test_growth_without_reuse_of_expired_rows_is_reported(tmp_path: Path, live: int) -> None:
    file = tmp_path / "auth.db"
    with closing(apsw.Connection(str(file))) as raw:
        reuse = _expire(raw, file, live=live, into="tokens", sweeps=False)
    assert not reuse.held, reuse


def test_empty_space_in_a_file_that_does_not_grow_holds() -> None:
    reuse = Reuse(Space(rows=80 << 20, empty=0), Space(rows=40 << 20, empty=40 << 20), 40 << 20, 0)
    assert reuse.held
    assert str(reuse) == "file +0.0 MiB, empty space in it +40.0 MiB after 40.0 MiB expired"
