"""The self-test of PostgreSQL: what it passes, and each property whose lack it refuses.

The databases that lack one are a real PostgreSQL behind a proxy that alters statements.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from tests.support import postgres
from tests.support.altering import altering
from tests.support.pgbouncer import pooling_sessions, pooling_statements, pooling_transactions
from valetkey.database import postgres_self_test
from valetkey.database.connect import connect
from valetkey.database.engine import DatabaseUnavailable, SelfTest, Timeouts
from valetkey.database.migrate import migrate
from valetkey.database.postgres import Postgres
from valetkey.kernel.refusal import OperatorError

_SCHEMA = "valetkey.authorization.storage.schema"
_QUICK_AND_PRIVATE = ("fsync = off", "full_page_writes = off")
"""Settings of the tests' own server."""


def _test(url: str, *, at_once: int = 1, timeouts: Timeouts | None = None) -> Sequence[SelfTest]:
    async def story() -> Sequence[SelfTest]:
        engine = Postgres(
            url, size=1, timeouts=timeouts or Timeouts(connect=60, statement=60, answer=60)
        )
        try:
            return await asyncio.gather(*(engine.self_test(os.urandom) for _ in range(at_once)))
        finally:
            await engine.close()

    return asyncio.run(story())


@pytest.fixture
def migrated(postgres_url: str) -> str:
    """The URL of a database with the tables of the authorization server."""
    _migrate(postgres_url)
    return postgres_url


def _migrate(url: str) -> None:
    async def story() -> None:
        engine = Postgres(url, size=1)
        await migrate(engine, _SCHEMA)
        await engine.close()

    asyncio.run(story())


def _left_behind(url: str) -> list[str]:
    with psycopg.connect(url) as raw:
        return [row[0] for row in raw.execute("SELECT name FROM probe ORDER BY name")]


def test_postgresql_passes_and_nothing_is_left_behind(migrated: str) -> None:
    (tested,) = _test(migrated)
    assert tested == SelfTest(complete=True, risks=_QUICK_AND_PRIVATE, pooling="")
    assert _left_behind(migrated) == []


def test_empty_database_is_tested_without_rows(postgres_url: str) -> None:
    (tested,) = _test(postgres_url)
    assert not tested.complete
    with psycopg.connect(postgres_url) as raw:
        assert raw.execute("SELECT to_regclass('probe')").fetchone() == (None,)


def test_sqlite_passes(tmp_path: Path) -> None:
    async def story() -> SelfTest:
        engine = connect(f"sqlite:///{tmp_path}/a.db", directory=tmp_path)
        tested = await engine.self_test(os.urandom)
        await engine.close()
        return tested

    assert asyncio.run(story()) == SelfTest()


def test_many_processes_test_one_server_at_once(migrated: str) -> None:
    assert all(result.complete for result in _test(migrated, at_once=16))
    assert _left_behind(migrated) == []


def test_row_of_a_test_that_was_killed_is_removed_after_an_hour(migrated: str) -> None:
    with psycopg.connect(migrated, autocommit=True) as raw:
        now = "extract(epoch FROM now())::bigint"
        for name in (f"{now} - 3700", f"{now} - 10"):
            raw.execute(f"INSERT INTO probe VALUES ('self-test ' || ({name}) || ' x', '')".encode())
        raw.execute("INSERT INTO probe VALUES ('readiness', '')")
    _test(migrated)
    readiness, recent = _left_behind(migrated)
    assert (readiness, recent[:10]) == ("readiness", "self-test ")


_ANY_LOCK = r"pg_advisory_xact_lock(_shared)?\(1448299630, "
_LACKS = {
    "locks that lock nothing": (
        ((_ANY_LOCK, "greatest(1448299630, "),),
        "did not wait for an exclusive advisory lock while another one held it",
    ),
    "shared locks that lock nothing": (
        ((r"pg_advisory_xact_lock_shared\(1448299630, ", "greatest(1448299630, "),),
        "did not wait for an exclusive advisory lock while another one shared it",
    ),
    "locks that a rollback keeps": (
        ((r"pg_advisory_xact_lock", "pg_advisory_lock"),),
        "ROLLBACK did not release an advisory lock",
    ),
    "no RETURNING": (((" RETURNING text", ""),), "RETURNING did not return the row"),
    "inserts that do not wait": (
        ((r"VALUES \(\$1, 'first'\)", "VALUES ($1 || pg_backend_pid(), 'first')"),),
        "ON CONFLICT did not wait",
    ),
    "snapshots of a transaction": (
        (("ISOLATION LEVEL READ COMMITTED", "ISOLATION LEVEL REPEATABLE READ"),),
        "READ COMMITTED is not what it offers",
    ),
    "updates that skip locked rows": (
        (
            (
                r"WHERE name = \$2 AND text = 'first'",
                "WHERE ctid IN (SELECT ctid FROM probe WHERE name = $2 FOR UPDATE SKIP LOCKED)",
            ),
        ),
        "an UPDATE did not wait",
    ),
    "updates that do not look again": (
        ((r"WHERE name = \$2 AND text = 'first'", "WHERE name = $2"),),
        "changed a row that no longer met its condition",
    ),
    "no blocking processes": (
        (("pg_blocking_pids", "no_such_function"),),
        "its self-test failed: function no_such_function",
    ),
}


@pytest.mark.parametrize("lack", _LACKS)
def test_database_that_lacks_a_property_is_refused(migrated: str, lack: str) -> None:
    alterations, sentence = _LACKS[lack]
    with (
        altering(migrated, *alterations) as url,
        pytest.raises(OperatorError, match=sentence) as refused,
    ):
        _test(url, timeouts=Timeouts(answer=3))
    assert "database: " in str(refused.value)
    assert _left_behind(migrated) == []


def test_two_servers_behind_one_address_are_refused(own_postgres: Path, migrated: str) -> None:
    name = migrated.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(postgres.url(own_postgres, "postgres"), autocommit=True) as raw:
        raw.execute(f"CREATE DATABASE {name}".encode())
    other = postgres.url(own_postgres, name)
    with (
        altering(migrated, others=[other]) as url,
        pytest.raises(DatabaseUnavailable, match="two connections reached two servers"),
    ):
        _test(url)


def test_standby_is_refused_until_it_is_promoted() -> None:
    with postgres.own_server({"fsync": "on", "full_page_writes": "on"}) as primary:
        _migrate(postgres.url(primary, "postgres"))
        # A server whose settings are safe has no risks.
        assert _test(postgres.url(primary, "postgres"))[0].risks == ()
        with postgres.standby(primary, "second") as folder:
            url = postgres.url(folder, "postgres")
            with pytest.raises(DatabaseUnavailable, match="this is a standby"):
                _test(url)
            postgres.promote(folder / "data")
            assert _test(url)[0].complete


def test_settings_of_a_transaction_that_have_no_effect_are_a_risk(migrated: str) -> None:
    with altering(migrated, ("'synchronous_commit', CASE", "'application_name', CASE")) as url:
        with psycopg.connect(migrated, autocommit=True) as raw:
            name = raw.info.dbname
            raw.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
        (tested,) = _test(url)
    assert tested.risks == ("synchronous_commit = off", *_QUICK_AND_PRIVATE)


def test_role_without_privileges_on_the_server_can_test_it() -> None:
    with postgres.own_server() as folder:
        url = postgres.url(folder, "postgres")
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute("CREATE ROLE plain LOGIN")
            raw.execute("CREATE DATABASE plain OWNER plain")
        plain = f"postgresql://plain@/plain?host={folder}"
        _migrate(plain)
        assert _test(plain)[0].complete


def test_pooler_of_sessions_passes(migrated: str) -> None:
    with pooling_sessions(migrated) as url:
        assert [result.pooling for result in _test(url)] == ["session"]


@pytest.mark.parametrize("fair", [False, True])
def test_pooler_of_transactions_passes(migrated: str, fair: bool) -> None:
    with pooling_transactions(migrated, server_round_robin=int(fair)) as url:
        # The pooler has as many connections as were needed at once.
        for tested in (*_test(url), *_test(url, at_once=3), *_test(url)):
            assert (tested.complete, tested.pooling) == (True, "transaction")


def test_tests_that_compete_for_a_poolers_connections_all_end(migrated: str) -> None:
    with pooling_transactions(migrated, connections=2) as url:
        assert all(result.complete for result in _test(url, at_once=8))
    assert _left_behind(migrated) == []


def test_side_that_waits_while_the_other_holds_a_connection_gives_up(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tests that each held a connection and waited for the other's waited for a minute."""
    with pooling_transactions(migrated, connections=2) as url:
        begin_second = postgres_self_test._Pair.begin_second
        other = psycopg.connect(url)
        begun = list[int]()

        def beside_another_client(pair: postgres_self_test._Pair) -> int:
            if not begun:
                # It takes the connection that the first side used last.
                other.execute("SELECT 1")
            elif len(begun) == 1:
                other.rollback()
            begun.append(begin_second(pair))
            return begun[-1]

        monkeypatch.setattr(postgres_self_test._Pair, "begin_second", beside_another_client)
        (tested,) = _test(url, timeouts=Timeouts(connect=60, statement=60, answer=20))
        other.close()
    assert (tested.complete, tested.pooling) == (True, "transaction")
    assert len(begun) > 1


def test_pooler_with_one_connection_is_refused(migrated: str) -> None:
    with (
        pooling_transactions(migrated, connections=1) as url,
        pytest.raises(DatabaseUnavailable, match="at least two server connections"),
    ):
        _test(url, timeouts=Timeouts(answer=5))


def test_pooler_of_statements_is_refused(migrated: str) -> None:
    with (
        pooling_statements(migrated) as url,
        pytest.raises(DatabaseUnavailable, match="set its pool_mode to transaction or session"),
    ):
        _test(url)
