"""Throttles, on each engine: how long a bucket is kept."""

from contextlib import closing
from pathlib import Path

from valetkey.authorization.storage.credentials import Limit
from valetkey.kernel.moment import AHEAD, Instant, seconds
from valetkey.testing.storage_conformance import NOW, Memory


def test_bucket_is_kept_until_it_is_empty(database_url: str, tmp_path: Path) -> None:
    limit = Limit(attempts=7, window=seconds(50))
    with closing(Memory(database_url, tmp_path)) as memory:
        for _ in range(limit.attempts):
            assert memory.write(lambda tx: tx.throttles.take("a", limit, NOW)) == 0
            assert memory.write(lambda tx: tx.throttles.take("b", limit, NOW)) == 0
        # A third has leaked: room for two, as if nothing had been swept.
        assert memory.write(lambda tx: tx.throttles.take("a", limit, Instant(NOW + 15))) == 0
        empty = Instant(NOW + 51 + AHEAD)
        assert memory.write(lambda tx: tx.throttles.sweep(Instant(empty - 2), 10)) == 0
        assert memory.write(lambda tx: tx.throttles.sweep(empty, 10)) == 1
        assert memory.write(lambda tx: tx.throttles.take("b", limit, empty)) == 0
        assert memory.write(lambda tx: tx.throttles.sweep(Instant(empty + 15), 10)) == 1
        left = memory.read(lambda tx: tx.db.rows("SELECT bucket FROM throttles"))
        assert [tuple(row) for row in left] == [("b",)]
        # A server that does not say when its buckets are empty keeps them for a day.
        memory.write(
            lambda tx: tx.db.run(
                "INSERT INTO throttles (bucket, level, changed_at) VALUES ('old', 1, :now)", now=NOW
            )
        )
        assert memory.write(lambda tx: tx.throttles.sweep(Instant(NOW + 86_400), 10)) == 1
