"""Sizes for metrics: tables on both engines, files of SQLite, the write-ahead log of PostgreSQL."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from valetkey.database import sqlite
from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.database.sqlite import SQLite

_ROWS = 200


async def _fill(engine: Engine) -> None:
    await engine.write(lambda db: db.run("CREATE TABLE large (id INTEGER PRIMARY KEY, t TEXT)"))
    await engine.write(lambda db: db.run("CREATE INDEX large_by_t ON large (t)"))
    await engine.write(lambda db: db.run("CREATE TABLE small (id INTEGER PRIMARY KEY)"))
    insert = (
        f"WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {_ROWS})"
        f" INSERT INTO large (id, t) SELECT id, '{'x' * 1_000}' FROM n"
    )
    await engine.write(lambda db: db.run(insert))


def _sizes(url: str, folder: Path) -> Mapping[str, int]:
    async def story() -> Mapping[str, int]:
        engine = connect(url, directory=folder)
        try:
            await _fill(engine)
            return await engine.sizes()
        finally:
            await engine.close()

    return asyncio.run(story())


def test_each_table_has_its_size_with_its_indexes(database_url: str, tmp_path: Path) -> None:
    sizes = _sizes(database_url, tmp_path)
    # The text is in the table and in its index; PostgreSQL compresses it.
    at_least = 2 * _ROWS * 1_000 if database_url.startswith("sqlite") else 2 * 8_192
    assert sizes["large"] > at_least
    assert 0 < sizes["small"] < sizes["large"]
    assert "large_by_t" not in sizes
    assert sizes["wal"] > 0
    assert ("main" in sizes) == database_url.startswith("sqlite")


def test_write_ahead_log_is_absent_for_a_role_that_may_not_see_it(
    postgres_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS sees_no_log")
        admin.execute("CREATE ROLE sees_no_log LOGIN")
        admin.execute("GRANT ALL ON SCHEMA public TO sees_no_log")
    parts = urlsplit(postgres_url)
    as_role = f"{parts.query}&options=-c%20role%3Dsees_no_log".lstrip("&")
    try:
        sizes = _sizes(urlunsplit(parts._replace(query=as_role)), tmp_path)
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("DROP OWNED BY sees_no_log")
            admin.execute("DROP ROLE sees_no_log")
    assert sizes["large"] > 0
    assert "wal" not in sizes


@pytest.mark.parametrize("reason", ["large", "no dbstat"])
def test_files_are_measured_where_tables_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "large":
        monkeypatch.setattr(sqlite, "LARGEST", 0)
    else:
        monkeypatch.setattr(sqlite, "IS_POSSIBLE", False)
    sizes = _sizes(f"sqlite:///{tmp_path}/a.db", tmp_path)
    assert sizes.keys() == {"main", "wal", "shm"}


def test_tables_are_measured_once_a_minute(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        try:
            await _fill(engine)
            first = await engine.sizes()
            await engine.write(lambda db: db.run("DROP TABLE large"))
            assert (await engine.sizes())["large"] == first["large"]
        finally:
            await engine.close()

    asyncio.run(story())
