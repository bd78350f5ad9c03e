"""What `valetkey doctor` says of databases and their standbys; every fault is a real one."""

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import psycopg

from tests.cli.running import valetkey
from tests.cli.site import begin, serving
from tests.support import postgres
from tests.support.wait import wait_until
from valetkey.authorization.actions.inspection.check import Level
from valetkey.authorization.actions.inspection.machine import DatabaseOf, of_database
from valetkey.cli.doctoring import (
    CheckResult,
    databases,
    from_shared,
    health_of_servers,
    replicas,
)
from valetkey.cli.register.store import open_database
from valetkey.config.load import load
from valetkey.config.settings import Settings
from valetkey.kernel.runtime import SYSTEM


def found(settings: Settings, about: str) -> list[CheckResult]:
    """What `doctor` finds wrong with the subject."""

    async def look() -> list[CheckResult]:
        return [result async for result in databases(settings) if result.level is not Level.OK]

    return [result for result in asyncio.run(look()) if result.about == about]


def found_in_database(settings: Settings, about: str) -> list[CheckResult]:
    """What is wrong with the subject, in a database that may have none of our tables."""
    of = DatabaseOf("authorization", settings, settings.authorization)

    async def look() -> list[CheckResult]:
        engine = open_database(settings, settings.authorization)
        try:
            return [
                from_shared(result)
                for result in await engine.scan(lambda db: tuple(of_database(db, of, SYSTEM.now())))
                if result.level is not Level.OK
            ]
        finally:
            await engine.close()

    return [result for result in asyncio.run(look()) if result.about == about]


def test_restored_replaced_and_future_databases_are_found_with_the_fix(tmp_path: Path) -> None:
    settings = load(begin(tmp_path), {})
    database = tmp_path / "valetkey/resource.db"
    before = tmp_path / "before.db"
    assert valetkey("database", "backup", "saved", here=tmp_path).code == 0
    shutil.copy(next((tmp_path / "saved").glob("resource-*.db")), before)
    note = tmp_path / "valetkey/resource.last-seen"
    with serving(tmp_path):
        noted = note.read_text() if note.exists() else ""
        wait_until(lambda: note.exists() and note.read_text() != noted)
    assert found(settings, "resource database") == []
    newest = database.read_bytes()
    for file in database.parent.glob("resource.db-*"):
        file.unlink()
    shutil.copy(before, database)
    (restored,) = found(settings, "resource database")
    assert restored.level is Level.ERROR
    assert "was restored" in restored.found
    assert "valetkey database restore" in restored.next
    database.write_bytes(newest)
    with sqlite3.connect(database) as raw:
        raw.execute("UPDATE installation SET at = at + 3600")
    raw.close()
    (ahead,) = found(settings, "resource nodes' clocks")
    assert ahead.level is Level.ERROR
    assert "time server" in ahead.next
    with sqlite3.connect(database) as raw:
        raw.execute("UPDATE installation SET at = at - 3600, id = '0123456789abcdef' || id")
    raw.close()
    (replaced,) = found(settings, "resource database")
    assert "This is not the database" in replaced.found
    database.write_bytes(b"no database" * 1_000)
    (damaged,) = found(settings, "resource database")
    assert damaged.next.startswith("The file is damaged")


def test_standby_that_lags_and_one_that_is_gone_are_found_with_the_fix(tmp_path: Path) -> None:
    with postgres.own_server() as primary:
        url = postgres.url(primary, "postgres")
        file = tmp_path / "valetkey.toml"
        file.write_text(f'[authorization]\ndatabase = "{url}"\n[database]\nanswer_timeout = "2s"\n')
        assert valetkey("database", "migrate", here=tmp_path).code == 0
        settings = load(file, {})
        about = "authorization database's standby"
        with (
            postgres.standby(primary, "second") as folder,
            psycopg.connect(url, autocommit=True) as raw,
        ):
            # A standby that does not replay falls behind.
            with psycopg.connect(postgres.url(folder, "postgres"), autocommit=True) as standby:
                standby.execute("SELECT pg_wal_replay_pause()")
            raw.execute("CREATE TABLE big AS SELECT repeat('x', 900) FROM generate_series(1, 9e4)")
            (lag,) = wait_until(lambda: found_in_database(settings, f"{about} second"))
            assert "streaming" in lag.found
            assert "a failover loses the commits" in lag.next
            raw.execute("SELECT pg_create_physical_replication_slot('third', true)")
            (away,) = wait_until(lambda: found_in_database(settings, f"{about} third"))
            assert away.level is Level.WARNING
            assert "No standby is connected to the replication slot third" in away.found
            assert "pg_drop_replication_slot('third')" in away.next
            raw.execute("SELECT pg_drop_replication_slot('third')")
            raw.execute("ALTER SYSTEM SET synchronous_standby_names = 'third'")
            raw.execute("SELECT pg_reload_conf()")
            (gone,) = wait_until(lambda: found_in_database(settings, about))
            assert gone.level is Level.ERROR
            assert "third" in gone.found
            assert "synchronous_standby_names" in gone.next
            health = asyncio.run(health_of_servers(settings))[0]
            assert not health.ok
            assert "It answers, but cannot be written to" in health.next
            assert [result.next for result in found(settings, about)] == [gone.next]


def test_replica_that_is_behind_gone_or_another_database_is_found_with_the_fix(
    tmp_path: Path,
) -> None:
    with (
        postgres.own_server() as primary,
        postgres.standby(primary, "second") as folder,
        postgres.own_server() as other,
    ):
        urls = [postgres.url(server, "postgres") for server in (primary, folder, other)]
        file = tmp_path / "valetkey.toml"
        file.write_text(f'[authorization]\ndatabase = "{urls[2]}"\n')
        assert valetkey("database", "migrate", here=tmp_path).code == 0
        for note in tmp_path.rglob("*.last-seen"):
            note.unlink()
        file.write_text(f'[authorization]\ndatabase = "{urls[0]}"\nreplicas = {json.dumps(urls)}\n')
        assert valetkey("database", "migrate", here=tmp_path).code == 0
        settings = load(file, {})

        def levels() -> list[tuple[Level, str]]:
            async def look() -> list[tuple[Level, str]]:
                return [(result.level, result.found) async for result in replicas(settings)]

            return asyncio.run(look())

        good, foreign = (Level.OK, "It has replayed every revocation."), Level.ERROR
        at_primary = (Level.WARNING, "it is a primary")
        wait_until(lambda: levels() == [at_primary, good, (foreign, "it has another database")])
        with psycopg.connect(urls[1], autocommit=True) as standby:
            standby.execute("SELECT pg_wal_replay_pause()")
        with psycopg.connect(urls[0], autocommit=True) as raw:
            raw.execute("UPDATE token_state SET number = number + 1")
        assert levels()[1] == (Level.WARNING, "it is more than 2 s behind")
        postgres.stop(folder / "data")
        assert levels()[1][0] is Level.WARNING
        assert "connection" in levels()[1][1]
