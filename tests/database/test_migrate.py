"""Numbered files, each applied once, in order, and never changed after."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from valetkey.database.engine import Connection, ConstraintViolated, Engine
from valetkey.database.migrate import find, migrate
from valetkey.kernel.refusal import Mistake

Package = Callable[..., str]
_FIRST = "CREATE TABLE a (id BIGINT PRIMARY KEY); INSERT INTO a (id) VALUES (1);"
_SECOND = "-- a; comment\nALTER TABLE a ADD COLUMN note TEXT;\nUPDATE a SET note = 'x;%:y';"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Writes the files of a package and gives its name; `name` makes it another package."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(files: dict[str, str], name: str = "migrations_of_a_test") -> str:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        for old in folder.glob("*.sql"):
            old.unlink()
        for file, script in files.items():
            (folder / file).write_bytes(script.encode())
        sys.modules.pop(name, None)
        return name

    return made


def _migrate(engine: Engine, package: str) -> None:
    asyncio.run(migrate(engine, package))


def _ask(engine: Engine, sql: str) -> list[object]:
    def work(db: Connection) -> list[object]:
        return list(db.rows(sql))

    async def asked() -> list[object]:
        return await engine.read(work)

    return asyncio.run(asked())


def test_files_are_applied_in_order_and_once(engine: Engine, package: Package) -> None:
    name = package({"0002_note.sql": _SECOND, "0001_initial.sql": _FIRST})
    for _ in range(3):
        _migrate(engine, name)
    assert _ask(engine, "SELECT id, note FROM a") == [(1, "x;%:y")]
    assert _ask(engine, "SELECT number, package, name FROM migrations ORDER BY number") == [
        (1, name, "0001_initial.sql"),
        (2, name, "0002_note.sql"),
    ]


def test_a_later_file_is_applied_later(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST}))
    _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_note.sql": _SECOND}))
    assert _ask(engine, "SELECT id, note FROM a") == [(1, "x;%:y")]


def test_a_file_that_fails_leaves_nothing_of_any_file(engine: Engine, package: Package) -> None:
    broken = "CREATE TABLE b (id BIGINT); INSERT INTO a (id) VALUES (1)"
    with pytest.raises(ConstraintViolated):
        _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_broken.sql": broken}))
    _migrate(engine, package({"0001_initial.sql": "CREATE TABLE b (id BIGINT)"}))
    assert _ask(engine, "SELECT id FROM b") == []


def test_an_applied_file_must_not_change(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST}))
    with pytest.raises(Mistake, match=r"0001_initial\.sql is not the file"):
        _migrate(engine, package({"0001_initial.sql": f"{_FIRST} "}))


def test_line_ends_do_not_count_as_a_change(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": f"{_FIRST}\n"}))
    _migrate(engine, package({"0001_initial.sql": f"{_FIRST}\r\n"}))


def test_a_database_of_newer_software_is_refused(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_note.sql": _SECOND}))
    with pytest.raises(Mistake, match=r"newer software \(0002_note\.sql\)"):
        _migrate(engine, package({"0001_initial.sql": _FIRST}))


def test_unless_the_newer_file_was_made_to_overlap(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_before_note.sql": _SECOND}))
    _migrate(engine, package({"0001_initial.sql": _FIRST}))


def test_a_database_has_one_owner(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST}))
    other = package({"0001_initial.sql": "CREATE TABLE c (id BIGINT)"}, "another_package")
    with pytest.raises(Mistake, match="belongs to migrations_of_a_test"):
        _migrate(engine, other)


@pytest.mark.parametrize("name", ["1_initial.sql", "0001-initial.sql", "0001_.sql", "notes.sql"])
def test_a_file_with_another_kind_of_name_is_refused(name: str, package: Package) -> None:
    with pytest.raises(ValueError, match="is not called like"):
        find(package({name: _FIRST}))


def test_two_files_with_one_number_are_refused(package: Package) -> None:
    with pytest.raises(ValueError, match="have one number"):
        find(package({"0001_initial.sql": _FIRST, "0001_other.sql": _SECOND}))
