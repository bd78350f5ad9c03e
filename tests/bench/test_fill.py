"""A full database holds what it says, and nothing in it contradicts the rest."""

import time
from pathlib import Path

import apsw

from bench.growth.fill import Size
from bench.growth.on_sqlite import SQLiteFile
from bench.growth.site import begin


def test_filled_database_is_consistent_and_expired_rows_are_counted(tmp_path: Path) -> None:
    begin(tmp_path)
    database = SQLiteFile(tmp_path / "valetkey" / "authorization.db")
    database.fill(Size(200, 100, 10))
    raw = apsw.Connection(str(database.path))
    assert raw.pragma("integrity_check") == "ok"
    assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    counted = {
        table: raw.execute(f"SELECT count(*) FROM {table}").get
        for table in ("grants", "consents", "users", "access_tokens")
    }
    assert counted == {
        "grants": 201,
        "consents": 201,
        "users": 102,
        "access_tokens": 21,
    }
    raw.close()
    assert not database.expired()
    database.expire(int(time.time()) - 100, per_second=8, seconds=10)
    assert database.expired() == 80
