"""Commands and servers refuse a database engine that fails its self-test, and say why."""

from pathlib import Path

import psycopg

from bench.ports import free_port
from tests.cli.running import valetkey
from tests.reliability.nodes import Node, configure, stopped_in_the_end
from tests.support.altering import altering

_LOCKS_NOTHING = (r"pg_advisory_xact_lock(_shared)?\(1448299630, ", "greatest(1448299630, ")
_SENTENCE = (
    "database: it does not behave as PostgreSQL does, so that a revocation could take no effect: "
    "a transaction did not wait for an exclusive advisory lock while another one held it. "
)


def _configure(here: Path, url: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    configure(here, url=f"http://{address}", listen=address, database=url)


def test_engine_without_working_locks_is_refused_by_migrate_serve_and_doctor(
    postgres_url: str, tmp_path: Path
) -> None:
    with altering(postgres_url, _LOCKS_NOTHING) as url:
        _configure(tmp_path, url)
        refused = valetkey("database", "migrate", here=tmp_path)
        assert refused.code != 0
        assert _SENTENCE in refused.err
        with psycopg.connect(postgres_url) as raw:
            assert raw.execute("SELECT to_regclass('migrations')").fetchone() == (None,)
        _configure(tmp_path, postgres_url)
        assert valetkey("database", "migrate", here=tmp_path).code == 0
        _configure(tmp_path, url)
        started = valetkey("serve", "authorization", here=tmp_path)
        assert started.code != 0
        assert _SENTENCE in started.err
        for command in (("doctor",), ("database", "check")):
            checked = valetkey(*command, here=tmp_path)
            assert checked.code == 1
            assert _SENTENCE in checked.out


def test_property_that_needs_tables_is_tested_at_the_first_start(
    postgres_url: str, tmp_path: Path
) -> None:
    snapshots = ("ISOLATION LEVEL READ COMMITTED", "ISOLATION LEVEL REPEATABLE READ")
    with altering(postgres_url, snapshots) as url:
        _configure(tmp_path, url)
        started = valetkey("serve", "authorization", here=tmp_path)
        assert started.code != 0
        assert "READ COMMITTED is not what it offers" in started.err


def test_database_that_a_crash_may_damage_is_named_in_log_doctor_and_migration(
    postgres_url: str, tmp_path: Path
) -> None:
    _configure(tmp_path, postgres_url)
    migrated = valetkey("database", "migrate", here=tmp_path)
    assert migrated.code == 0
    assert "authorization: PostgreSQL runs with fsync = off" in migrated.err
    with stopped_in_the_end(node := Node(tmp_path)):
        node.start()
        log = (tmp_path / "log").read_text()
    assert '"event":"database.not_durable"' in log
    assert "fsync = off, full_page_writes = off" in log
    findings = valetkey("doctor", "--json", here=tmp_path).json["findings"]
    (finding,) = (result for result in findings if result["check"] == "database_not_durable")
    assert (finding["level"], finding["console"]) == ("warning", True)
    assert "PostgreSQL runs with fsync = off, full_page_writes = off" in finding["found"]
