"""The apps of a user are found by few rows, however many grants there are and were counted."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import apsw
import psycopg
import pytest

from tests.support.statements import statements
from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.database.migrate import migrate
from valetkey.database.statement import parameters

_SCHEMA = import_module("valetkey.authorization.storage.schema").__name__
_GRANTS = 40_000
_ADA, _GRACE = 5, 6
_APPS = ("phone", "tablet")
# The newest of both apps have ended.
_ENDED = (
    f"UPDATE grants SET user_generation = 7 WHERE uid = {_ADA} AND created_at >"
    f" (SELECT max(created_at) FROM grants WHERE uid = {_ADA}) - 6"
)
# Of each app those and a live one, the one after all, and what each depends on, twice.
_MOST_ROWS = 200
_VALUES: Mapping[str, int] = {"uid": _ADA, "now": 1, "limit": 1_000, "steps": 2_000}
# As many numbers, on either engine.
_NUMBERS = (
    "WITH RECURSIVE numbers (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM numbers"
    " WHERE i < {last})"
)

_Plan = Mapping[str, object]


def _statement() -> str:
    (sql,) = {each.sql for each in statements() if "grants older" in (each.sql or "")}
    assert sql is not None
    return sql


def _grants(uid: int, first: int, last: int) -> str:
    """Return the statement that inserts grants of a user, for one app and the other in turn."""
    return (
        "INSERT INTO grants (id, client_id, uid, session_id, scope, audience, grant_type,"
        " auth_time, created_at, last_used_at, expires_at, generation) "
        + _NUMBERS.format(first=first, last=last)
        + f" SELECT 'gr_' || i || '_{uid}', CASE i % 2 WHEN 0 THEN 'phone' ELSE"
        f" 'tablet' END, {uid}, '', 'openid', 'api', 'authorization_code', 0, i, i, {_GRANTS}, 0"
        " FROM numbers"
    )


def _register(required: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return the statements that insert users and clients with all columns that are `required`."""
    for uid in (_ADA, _GRACE):
        given = {"uid": str(uid)}
        values = [given.get(column, f"'{uid}'") for column in required["users"]]
        yield f"INSERT INTO users ({', '.join(required['users'])}) VALUES ({', '.join(values)})"
    for app in _APPS:
        given = {"id": f"'{app}'"}
        values = [given.get(column, "'0'") for column in required["clients"]]
        yield f"INSERT INTO clients ({', '.join(required['clients'])}) VALUES ({', '.join(values)})"


async def _prepare(engine: Engine) -> None:
    await migrate(engine, _SCHEMA)
    await engine.close()


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("counted", [0, 30, _GRANTS])
@pytest.mark.parametrize("owner", [_ADA, _GRACE])
def test_postgresql_reads_few_rows_whatever_its_statistics(
    postgres_url: str, tmp_path: Path, mode: str, counted: int, owner: int
) -> None:
    asyncio.run(_prepare(connect(postgres_url, directory=tmp_path)))
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute("SET session_replication_role = replica")
        required = {
            table: [
                str(row[0])
                for row in raw.execute(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                    " AND is_nullable = 'NO' AND column_default IS NULL",
                    (table,),
                )
            ]
            for table in ("users", "clients")
        }
        for sql in (*_register(required), _grants(_ADA, 1, 10), _grants(_GRACE, 1, 10)):
            raw.execute(sql.encode())
        for first, last in ((11, 30), (31, _GRANTS)):
            raw.execute(_grants(owner, first, last).encode())
            if last == counted:
                raw.execute("ANALYZE")
        raw.execute(_ENDED.encode())
        rows, apps = _read(raw, mode)
    assert apps == [*_APPS]
    assert rows < _MOST_ROWS


def _read(raw: psycopg.Connection[tuple[object, ...]], mode: str) -> tuple[float, list[object]]:
    """Return how many rows were read by scans of any kind, and the ids that were found."""
    names = list(parameters(_statement()))
    numbered = re.sub(r":(\w+)", lambda name: f"${names.index(name[1]) + 1}", _statement())
    values = ", ".join(str(_VALUES[name]) for name in names)
    raw.execute(f"SET plan_cache_mode = {mode}".encode())
    raw.execute(f"PREPARE asked AS {numbered}".encode())
    apps = [row[0] for row in raw.execute(f"EXECUTE asked({values})".encode()).fetchall()]
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE asked({values})"
    told = raw.execute(explain.encode()).fetchall()
    plan = cast("_Plan", cast("list[_Plan]", told[0][0])[0]["Plan"])
    return sum(_rows(node) for node in _nodes(plan)), apps


def _rows(node: _Plan) -> float:
    if "Scan" not in str(node["Node Type"]):
        return 0
    counts = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    each = sum(cast("float", node.get(count, 0)) for count in counts)
    return each * cast("float", node["Actual Loops"])


def _nodes(plan: _Plan) -> Iterator[_Plan]:
    yield plan
    for inner in cast("Sequence[_Plan]", plan.get("Plans", ())):
        yield from _nodes(inner)


@pytest.mark.parametrize("counted", [0, 30, _GRANTS])
def test_sqlite_takes_few_steps_whatever_its_statistics(tmp_path: Path, counted: int) -> None:
    asyncio.run(_prepare(connect(f"sqlite:///{tmp_path}/a.db", directory=tmp_path)))
    raw = apsw.Connection(str(tmp_path / "a.db"))
    steps = list[int]()

    def note_steps() -> bool:
        steps.append(100)
        return False

    required = {
        table: [
            str(row[1])
            for row in raw.execute(f"PRAGMA table_info({table})")
            if (row[3] or row[5]) and row[4] is None
        ]
        for table in ("users", "clients")
    }
    for sql in (*_register(required), _grants(_ADA, 1, 10), _grants(_GRACE, 1, 10)):
        raw.execute(sql)
    for first, last in ((11, 30), (31, _GRANTS)):
        raw.execute(_grants(_ADA, first, last))
        if last == counted:
            raw.execute("ANALYZE")
    raw.execute(_ENDED)
    raw.set_progress_handler(note_steps, 100)
    apps = [row[0] for row in raw.execute(_statement(), _VALUES)]
    raw.close()
    assert apps == [*_APPS]
    assert sum(steps) < 50 * _MOST_ROWS
