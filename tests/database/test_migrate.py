"""Numbered files, each applied once, in order, and never changed after."""

import asyncio
import re
import sqlite3
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from valetkey.cli.register.store import SCHEMAS
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, ConstraintViolated, Engine, split
from valetkey.database.migrate import find, migrate
from valetkey.kernel.refusal import OperatorError

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

    async def read_rows() -> list[object]:
        return await engine.read(work)

    return asyncio.run(read_rows())


def test_files_are_applied_in_order_and_once(engine: Engine, package: Package) -> None:
    name = package({"0002_note.sql": _SECOND, "0001_initial.sql": _FIRST})
    for _ in range(3):
        _migrate(engine, name)
    assert _ask(engine, "SELECT id, note FROM a") == [(1, "x;%:y")]
    assert _ask(engine, "SELECT number, package, name FROM migrations ORDER BY number") == [
        (1, name, "0001_initial.sql"),
        (2, name, "0002_note.sql"),
    ]


def test_later_file_is_applied_to_a_migrated_database(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST}))
    _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_note.sql": _SECOND}))
    assert _ask(engine, "SELECT id, note FROM a") == [(1, "x;%:y")]


def test_failed_file_rolls_back_all_files_of_the_run(engine: Engine, package: Package) -> None:
    broken = "CREATE TABLE b (id BIGINT); INSERT INTO a (id) VALUES (1)"
    with pytest.raises(ConstraintViolated):
        _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_broken.sql": broken}))
    _migrate(engine, package({"0001_initial.sql": "CREATE TABLE b (id BIGINT)"}))
    assert _ask(engine, "SELECT id FROM b") == []


def test_an_applied_file_must_not_change(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST}))
    with pytest.raises(OperatorError, match=r"0001_initial\.sql is not the file"):
        _migrate(engine, package({"0001_initial.sql": f"{_FIRST} "}))


def test_line_ends_do_not_count_as_a_change(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": f"{_FIRST}\n"}))
    _migrate(engine, package({"0001_initial.sql": f"{_FIRST}\r\n"}))


def test_a_database_of_newer_software_is_refused(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_note.sql": _SECOND}))
    with pytest.raises(OperatorError, match=r"newer software \(0002_note\.sql\)"):
        _migrate(engine, package({"0001_initial.sql": _FIRST}))


def test_database_of_newer_software_is_used_where_its_newer_file_may_overlap(
    engine: Engine, package: Package
) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST, "0002_before_note.sql": _SECOND}))
    _migrate(engine, package({"0001_initial.sql": _FIRST}))


def test_a_database_has_one_owner(engine: Engine, package: Package) -> None:
    _migrate(engine, package({"0001_initial.sql": _FIRST}))
    other = package({"0001_initial.sql": "CREATE TABLE c (id BIGINT)"}, "another_package")
    with pytest.raises(OperatorError, match="belongs to migrations_of_a_test"):
        _migrate(engine, other)


@pytest.mark.parametrize("name", ["1_initial.sql", "0001-initial.sql", "0001_.sql", "notes.sql"])
def test_invalid_migration_file_name_is_refused(name: str, package: Package) -> None:
    with pytest.raises(ValueError, match="is not called like"):
        find(package({name: _FIRST}))


def test_two_files_with_one_number_are_refused(package: Package) -> None:
    with pytest.raises(ValueError, match="have one number"):
        find(package({"0001_initial.sql": _FIRST, "0001_other.sql": _SECOND}))


@pytest.mark.parametrize("schema", SCHEMAS.values())
def test_numbers_of_a_schema_are_consecutive(schema: str) -> None:
    numbers = [migration.number for migration in find(schema)]
    assert numbers == list(range(1, len(numbers) + 1))


_EXPANDS = re.compile(
    r"CREATE TABLE |CREATE INDEX |INSERT INTO "
    r"|ALTER TABLE \w+ ADD COLUMN \w+ \w+( NOT NULL DEFAULT \S+| DEFAULT \S+)?"
    r"( CHECK .*| REFERENCES .*)?$"
)
_CONTRACTS = {
    "0027_before_one_outbox.sql": "its rows move to a table that the version before writes no more",
    "0039_before_access_to_apis.sql": "a name added to scopes, which the version before leaves out "
    "of tokens, as no API declares it",
    "0060_before_subjects_of_links.sql": "unique where the column that it adds is set, which the "
    "version before never does",
    "0051_before_apps_of_users.sql": "an index on a column with which the new index begins",
}
"""Migrations after which the version before runs on, though they do more than expand; and why."""


def test_newest_migrations_let_the_version_before_serve_on() -> None:
    """Expand, migrate, contract: what nodes of the version before read or write stays as it is.

    A table or column that is no longer used is removed a version later, with a line in
    `_CONTRACTS`.
    """
    newest = [migration for schema in SCHEMAS.values() for migration in find(schema)[25:]]
    wrong: list[str] = []
    for migration in newest:
        own = set(re.findall(r"CREATE TABLE (\w+)", migration.script))
        for statement in split(migration.script):
            text = " ".join(re.sub(r"--.*", "", statement).split())
            unique = re.match(r"CREATE UNIQUE INDEX \w+ ON (\w+)", text)
            # The version before knows nothing of a table that this migration makes.
            if not (_EXPANDS.match(text) or (unique and unique[1] in own)):
                wrong.append(f"{migration.name}: {text}")
    wrong = [line for line in wrong if line.partition(":")[0] not in _CONTRACTS]
    assert newest
    assert not wrong


_DELETES = {
    "0015_people.sql": {"team_invitations"},  # of users who no longer own the app
    "0027_before_one_outbox.sql": {"mails", "deliveries"},  # moved into one table
}


@pytest.mark.parametrize("schema", SCHEMAS.values())
def test_every_migration_keeps_the_rows_that_it_finds(
    schema: str, database_url: str, tmp_path: Path, package: Package
) -> None:
    """From the oldest schema on, with rows in every table as soon as it exists."""
    files: dict[str, str] = {}
    before: dict[str, int] = {}
    for migration in find(schema):
        files[migration.name] = migration.script
        engine = connect(database_url, directory=tmp_path)
        _migrate(engine, package(files))
        asyncio.run(engine.close())
        with _raw(database_url) as ask:
            tables = _tables(ask)
            counts = {table: _count(ask, table) for table in tables}
            gone = {name for name, rows in before.items() if counts.get(name, 0) < rows}
            assert gone == _DELETES.get(migration.name, set()), migration.name
            _fill(ask, {name: columns for name, columns in tables.items() if name not in before})
            before = {table: _count(ask, table) for table in tables}
    empty = {table for table, rows in before.items() if rows < 2}
    assert empty <= {name for names in _DELETES.values() for name in names}
    assert len(before) > 3


Ask = Callable[[str], list[tuple[object, ...]]]


@contextmanager
def _raw(url: str) -> Generator[Ask]:
    """Statements as another program sends them; the answer is every row."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as server:

            def ask(sql: str) -> list[tuple[object, ...]]:
                answer = server.execute(sql.encode())
                return answer.fetchall() if answer.description else []

            yield ask
        return
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA foreign_keys = ON")
        yield lambda sql: file.execute(sql).fetchall()


_COLUMNS = {
    "sqlite": "SELECT m.name, c.name, c.type FROM sqlite_master m, pragma_table_info(m.name) c"
    " WHERE m.type = 'table'",
    "postgres": "SELECT c.table_name, c.column_name, c.data_type"
    " FROM information_schema.columns c JOIN information_schema.tables t"
    " ON t.table_schema = c.table_schema AND t.table_name = c.table_name"
    " WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'",
}


def _tables(ask: Ask) -> dict[str, dict[str, str]]:
    """The columns of each table and their types; the table of migrations is no schema's."""
    tables: dict[str, dict[str, str]] = {}
    try:
        rows = ask(_COLUMNS["sqlite"])
    except psycopg.errors.UndefinedTable:
        rows = ask(_COLUMNS["postgres"])
    for table, column, kind in rows:
        tables.setdefault(str(table), {})[str(column)] = str(kind).lower()
    return {name: columns for name, columns in tables.items() if name != "migrations"}


def _count(ask: Ask, table: str) -> int:
    ((rows,),) = ask(f"SELECT count(*) FROM {table}")
    return int(str(rows))


def _fill(ask: Ask, tables: dict[str, dict[str, str]]) -> None:
    """Add two rows to each: 1 and 2 in all columns, so that references find their rows."""
    waiting = dict(tables)
    while waiting:
        done = [table for table, columns in waiting.items() if _insert(ask, table, columns)]
        assert done, f"no row fits into {sorted(waiting)}"
        for table in done:
            del waiting[table]


def _insert(ask: Ask, table: str, columns: dict[str, str]) -> bool:
    for number in (1, 2):
        values = {
            column: f"'{number}'" if kind == "text" else str(number)
            for column, kind in columns.items()
        }
        if table == "deliveries":
            values["id"] = f"'lt_{number}'"  # never that of an email
        try:
            ask(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(values.values())})")
        except (sqlite3.IntegrityError, psycopg.IntegrityError) as failed:
            # The schema's own row may have number 1 already; others wait for what they refer to.
            if "unique" not in str(failed).lower():
                return False
    return True
