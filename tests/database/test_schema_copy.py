"""The copy of the tables is what the migrations make."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import postgres, schema_copy
from valetkey.database.connect import connect
from valetkey.database.engine import Connection
from valetkey.database.migrate import migrate


def _made(url: str, package: str, file: Path) -> Sequence[object]:
    """Return everything that is in a database after `migrate`."""

    def everything(db: Connection) -> Sequence[object]:
        objects = db.rows("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid")
        tables = [name for kind, name, _, _ in objects if kind == "table"]
        return [*objects, *([*db.rows(f"SELECT * FROM {table}")] for table in tables)]

    async def make() -> Sequence[object]:
        engine = connect(url, directory=Path("/"))
        await migrate(engine, package)
        rows = await engine.scan(everything) if url.startswith("sqlite") else ()
        await engine.close()
        return rows

    rows = asyncio.run(make())
    if rows:
        return rows
    postgres.dump(url, file)
    # pg_dump writes a fresh key for psql into each file.
    return [line for line in file.read_text().splitlines() if not line.startswith("\\")]


@pytest.mark.parametrize("package", sorted(schema_copy.PACKAGES))
def test_copied_tables_equal_migrated_ones_on_sqlite(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(f"sqlite:///{tmp_path}/first.db", package, tmp_path)
    copied = _made(f"sqlite:///{tmp_path}/copied.db", package, tmp_path)
    monkeypatch.setattr("valetkey.database.migrate.apply_missing", schema_copy.migrated)

    assert copied == _made(f"sqlite:///{tmp_path}/migrated.db", package, tmp_path)


@pytest.mark.parametrize("package", sorted(schema_copy.PACKAGES))
def test_copied_tables_equal_migrated_ones_on_postgresql(
    package: str, postgres_url: str, another_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = postgres.server()
    copied = _made(postgres_url, package, folder / f"copied-{package}")
    monkeypatch.setattr("valetkey.database.migrate.apply_missing", schema_copy.migrated)

    assert copied == _made(another_postgres_url, package, folder / f"migrated-{package}")
