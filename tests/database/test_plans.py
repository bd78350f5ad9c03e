"""No statement looks for its rows one by one in a table that grows, on either engine."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import psycopg
import pytest

from tests.support.statements import Statement, statements
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine, parameters
from valetkey.database.migrate import migrate

_SCHEMA = "valetkey.authorization.storage.schema"

# These stay small: keys by the quarter of a year, what an operator handed out or named by hand,
# streams, of which there are a hundred at most, and the imports of a week; and the constant row of
# a SELECT without FROM.
_SMALL = frozenset(
    {
        "CONSTANT",
        "brand",
        "brand_logos",
        "nodes",
        "webhooks",
        "signal_streams",
        "signing_keys",
        "invitations",
        "revision",
        "migrations",
        "user_imports",
        "providers",
        "stored_settings",
        "apis",
    }
)

# All rows are wanted, or one names what no index can: an operator waits for it, no request of apps.
_WHOLE = (
    "SELECT id, sealed FROM client_secrets WHERE sealed IS NOT NULL",
    "SELECT count(*) FROM outbox",
    "SELECT max(number) FROM audit_blocks GROUP BY keep",
    "SELECT id FROM clients WHERE replace(openid, :quoted, '') <> openid",
    "SELECT count(*) FROM (SELECT id FROM user_groups WHERE deleted_at IS NULL AND (:part",
    (
        "SELECT user_groups.id, user_groups.name, user_groups.description, coalesce((SELECT p.name"
        " FROM user_groups p WHERE p.id = user_groups.parent_id), ''), user_groups.created_at"
        " FROM user_groups WHERE deleted_at IS NULL AND (created_at"
    ),
)

# Runs while the servers are stopped, and has to touch every row.
_OFFLINE = "restoration.py"
_RESTORED = frozenset({"DELETE FROM device_codes"})

# What a bounded question found, being counted or ordered.
_FOUND = frozenset({"counted", "due", "found"})

_ADVICE = f"give the table an index; if it stays small, add its name to `_SMALL` of {__file__}"

_Plan = Mapping[str, object]


def _asked() -> list[Statement]:
    return [
        statement
        for statement in statements()
        if statement.package == "authorization"
        and _OFFLINE not in statement.place
        and statement.sql
        and statement.sql not in _RESTORED
        and not statement.sql.startswith(_WHOLE)
    ]


def _ends_early(sql: str) -> bool:
    """Whether it walks along an index only until it has enough."""
    return ":limit" in sql or "LIMIT 1" in sql


def test_sqlite_reads_large_tables_by_an_index(tmp_path: Path) -> None:
    async def story(engine: Engine) -> list[str]:
        await migrate(engine, import_module(_SCHEMA).__name__)
        walks = [text for statement in _asked() for text in await _walks(engine, statement)]
        await engine.close()
        return walks

    walks = asyncio.run(story(connect(f"sqlite:///{tmp_path}/a.db", directory=tmp_path)))
    assert walks == [], _ADVICE


async def _walks(engine: Engine, statement: Statement) -> list[str]:
    sql = statement.sql or ""
    values = dict.fromkeys(parameters(sql), 1)

    def explain(db: Connection) -> list[str]:
        return [row[3] for row in db.rows(f"EXPLAIN QUERY PLAN {sql}", **values)]

    steps = await engine.write(explain)
    for step in list(steps):
        # A part that is read row by row may be called like the table it reads by an index.
        if step.startswith("CO-ROUTINE ") and (read := f"SCAN {step[11:]}") in steps:
            steps.remove(read)
    return [
        f"{statement.place}: {step}"
        for step in steps
        if (walk := re.match(r"SCAN (\w+)( USING)?", step))
        and walk[1] not in _SMALL
        and not ((walk[2] or walk[1] in _FOUND) and _ends_early(sql))
    ]


def test_postgresql_reads_large_tables_by_an_index(postgres_url: str, tmp_path: Path) -> None:
    async def prepare(engine: Engine) -> None:
        await migrate(engine, import_module(_SCHEMA).__name__)
        await engine.close()

    asyncio.run(prepare(connect(postgres_url, directory=tmp_path)))
    with psycopg.connect(postgres_url) as raw:
        # Of empty tables it would rather read the whole; and plans for a value tell of that value.
        raw.execute("SET enable_seqscan = off")
        raw.execute("SET plan_cache_mode = force_generic_plan")
        assert [text for statement in _asked() for text in _seen(raw, statement)] == [], _ADVICE


def _seen(raw: psycopg.Connection[tuple[object, ...]], statement: Statement) -> Iterator[str]:
    sql = statement.sql or ""
    names = list(parameters(sql))
    numbered = re.sub(r":(\w+)", lambda name: f"${names.index(name[1]) + 1}", sql)
    raw.execute(f"PREPARE asked AS {numbered}".encode())
    nothing = f"({', '.join(['NULL'] * len(names))})" if names else ""
    rows = raw.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked{nothing}".encode()).fetchall()
    raw.execute("DEALLOCATE asked")
    for node in _nodes(cast("_Plan", cast("list[_Plan]", rows[0][0])[0]["Plan"])):
        # Which of several indexes it takes, it cannot tell while the tables are empty.
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] not in _SMALL:
            yield f"{statement.place}: {json.dumps(node)}"


def _nodes(plan: _Plan) -> Iterator[_Plan]:
    yield plan
    for inner in cast("Sequence[_Plan]", plan.get("Plans", ())):
        yield from _nodes(inner)


@pytest.mark.parametrize(
    "sql", ["SELECT id FROM grants WHERE scope = :scope", "SELECT count(*) FROM users"]
)
def test_full_table_scan_is_detected(tmp_path: Path, sql: str) -> None:
    async def story(engine: Engine) -> list[str]:
        await migrate(engine, import_module(_SCHEMA).__name__)
        walks = await _walks(engine, Statement("here", "authorization", sql))
        await engine.close()
        return walks

    assert asyncio.run(story(connect(f"sqlite:///{tmp_path}/a.db", directory=tmp_path)))
