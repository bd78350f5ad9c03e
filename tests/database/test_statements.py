"""Every statement of the program means something to both engines, and is one SQL."""

import asyncio
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.statements import ROOT, Statement, statements
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine, parameters
from valetkey.database.migrate import migrate

# Casts, clocks, locks, and functions that the two engines define differently.
_NOT_SHARED = re.compile(
    r"::|\b(CAST|NOW|RANDOM|UPPER|STRFTIME|DATETIME|PRINTF|TYPEOF)\s*\("
    r"|\bCURRENT_(TIME|DATE|TIMESTAMP)\b|\bFOR\s+(UPDATE|SHARE)\b|\bCOLLATE\b|\bI?LIKE\b|\bGLOB\b",
    re.IGNORECASE,
)


# `doctor` reads the clock and the standbys of PostgreSQL; SQLite has neither.
_ONE_ENGINE_ONLY = (
    "database/identity.py:",
    "cli/commands/database.py:",
)


def _shared() -> list[Statement]:
    return [
        statement for statement in statements() if not statement.place.startswith(_ONE_ENGINE_ONLY)
    ]


# Names are sorted and searched without regard to case. SQLite folds letters of ASCII only, but both
# sides of each comparison are folded by the same engine.
_FOLDING = {
    "authorization/apis/storage.py",
    "authorization/storage/search.py",
    "authorization/storage/groups.py",
}


def _schemas() -> dict[str, str]:
    """Of each package that has tables, the package of their migrations, which finds all of them."""
    folders = {path.parent.relative_to(ROOT.parent) for path in ROOT.rglob("storage/schema/*.sql")}
    return {folder.parts[1]: ".".join(folder.parts) for folder in folders}


def test_more_than_twenty_statements_are_found() -> None:
    assert len(list(statements())) > 20


def test_a_statement_is_literal_text() -> None:
    assert [statement.place for statement in statements() if statement.sql is None] == []


def test_a_statement_uses_the_shared_sql_only() -> None:
    assert [
        statement for statement in _shared() if statement.sql and _NOT_SHARED.search(statement.sql)
    ] == []
    folding = {
        statement.place
        for statement in _shared()
        if re.search(r"(?i)\blower\(", statement.sql or "")
    }
    assert {position.partition(":")[0] for position in folding} == _FOLDING


def test_tables_are_text_and_bigint() -> None:
    for path in ROOT.rglob("*.sql"):
        script = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(INT|INTEGER|REAL|BOOLEAN|TIMESTAMP|BLOB|BYTEA|SERIAL)\b", script)


@pytest.mark.parametrize("package", sorted(_schemas()))
def test_an_engine_explains_every_statement(
    database_url: str, tmp_path: Path, package: str
) -> None:
    async def story(engine: Engine) -> list[str]:
        await migrate(engine, import_module(_schemas()[package]).__name__)
        # What has no tables of its own asks either database.
        elsewhere = set(_schemas()) - {package}
        own_statements = [
            statement for statement in _shared() if statement.package not in elsewhere
        ]
        refused = [await _refused(engine, statement) for statement in own_statements]
        await engine.close()
        return [text for text in refused if text]

    assert asyncio.run(story(connect(database_url, directory=tmp_path))) == []


def test_postgresql_explains_statements_of_its_own(postgres_url: str, tmp_path: Path) -> None:
    async def story(engine: Engine) -> list[str]:
        own_statements = [
            statement for statement in statements() if statement.place.startswith(_ONE_ENGINE_ONLY)
        ]
        refused = [await _refused(engine, statement) for statement in own_statements]
        await engine.close()
        return [text for text in refused if text]

    assert asyncio.run(story(connect(postgres_url, directory=tmp_path))) == []


async def _refused(engine: Engine, statement: Statement) -> str:
    sql = statement.sql or ""
    nothing = dict.fromkeys(parameters(sql))

    def explain(db: Connection) -> None:
        db.rows(f"EXPLAIN {sql}", **nothing)

    try:
        await engine.write(explain)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the statement is the reason
        return f"{statement.place}: {problem}"
    return ""
