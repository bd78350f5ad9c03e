"""Slow statements and another host are reported, without values."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from valetkey.database.connect import connect
from valetkey.database.engine import NOTICES, Connection

_SECRET = "a-value-that-no-log-may-have"
# Counts to half a million, which takes far longer than the threshold.
_SLOW = (
    "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 500000)"
    " SELECT count(*) FROM numbers WHERE :value <> ''"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def told() -> Iterator[list[tuple[str, str, str]]]:
    notices: list[tuple[str, str, str]] = []

    def note(name: str, text: str, cause: str) -> None:
        notices.append((name, text, cause))

    NOTICES.begin(note, 0.02)
    yield notices
    NOTICES.__init__()  # type: ignore[misc]  # as in a process that has just started


def test_slow_statement_is_reported_without_its_values(
    database: str, told: list[tuple[str, str, str]]
) -> None:
    def work(db: Connection) -> None:
        db.run("CREATE TABLE fast (n BIGINT)")
        db.row(_SLOW, value=_SECRET)

    async def story() -> None:
        engine = connect(database, directory=Path("/"))
        await engine.write(work)
        await engine.close()

    asyncio.run(story())
    reported = [
        cause for level, name, cause in told if (level, name) == ("warning", "database.slow")
    ]
    assert any("RECURSIVE numbers" in cause for cause in reported)
    assert _SECRET not in str(told)


def test_failover_to_another_host_is_reported_once(told: list[tuple[str, str, str]]) -> None:
    for host in ("db1:5432", "db1:5432", "db2:5432", "db2:5432"):
        NOTICES.connected(host)
    assert told == [("warning", "database.failover", "from db1:5432 to db2:5432")]


def test_failover_behind_a_proxy_is_reported_once(told: list[tuple[str, str, str]]) -> None:
    # A pooler in between hides the server's address at times.
    for server in ("10.0.0.1:5432", "", "10.0.0.1:5432", "10.0.0.2:5432", "10.0.0.2:5432"):
        NOTICES.connected("127.0.0.1:5000", server)
    assert told == [("warning", "database.failover", "from 10.0.0.1:5432 to 10.0.0.2:5432")]
