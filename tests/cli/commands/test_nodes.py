"""Nodes and backups with the real programs: start, reload, stop, kill, doctor and the record."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.commands.test_serve import eventually
from tests.cli.running import valetkey
from tests.cli.site import begin, configure, serving
from tests.support.processes import children, is_alive, workers
from valetkey.cli.register.store import open_database
from valetkey.config.load import load


@pytest.fixture
def here(tmp_path: Path, database_url: str) -> Path:
    """The folder of an installation on either engine, with two workers."""
    file = configure(tmp_path, workers=2)
    if database_url.startswith("postgres"):
        folder = tmp_path / "valetkey"
        folder.mkdir(mode=0o700)
        own = f'database = "{database_url}"\nkeyring = "{folder}/valetkey.keyring"'
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("[authorization]", f"[authorization]\n{own}"))
    return tmp_path


def _sql(here: Path, statement: str) -> Sequence[tuple[object, ...]]:
    """The rows of a statement on the authorization server's database."""
    settings = load(here / "valetkey.toml", {})

    async def run() -> Sequence[tuple[object, ...]]:
        engine = open_database(settings, settings.authorization)
        try:
            if statement.startswith("SELECT"):
                return await engine.read(lambda db: db.rows(statement))
            await engine.write(lambda db: db.run(statement))
            return ()
        finally:
            await engine.close()

    return asyncio.run(run())


def _nodes(here: Path) -> int:
    ((count,),) = _sql(here, "SELECT count(*) FROM nodes")
    assert isinstance(count, int)
    return count


def _said(here: Path, about: str) -> Sequence[Mapping[str, str]]:
    findings = valetkey("doctor", "--json", here=here).json["findings"]
    return [finding for finding in findings if finding["about"].startswith(about)]


def test_two_workers_are_listed_as_one_node_until_it_is_stopped(here: Path) -> None:
    with serving(here, subprocess.Popen) as site:
        eventually(lambda: _nodes(here) == 1, "there is no node")
        ((before, started),) = _sql(here, "SELECT holder, started_at FROM nodes")
        total, node = _said(here, "node")
        assert (total["found"], node["level"]) == ("1 running.", "ok")
        # A reload is no start: another process goes on for the same node.
        site.process.send_signal(signal.SIGHUP)
        eventually(lambda: _sql(here, "SELECT holder FROM nodes") != [(before,)], "no new worker")
        eventually(lambda: site.log.read_text().count('"worker.ready"') == 6, "no new workers")
        assert _sql(here, "SELECT started_at FROM nodes") == [(started,)]
        site.process.terminate()
        assert site.process.wait(60) == 0
    assert _nodes(here) == 0
    assert [finding["found"] for finding in _said(here, "node")] == ["No running node is known."]


def test_killed_node_is_missing_until_it_is_started_again(here: Path) -> None:
    with serving(here, subprocess.Popen) as site:
        eventually(lambda: _nodes(here) == 1, "there is no node")
        processes = children(site.process.pid)
        # The workers end by themselves, and leave the row: nobody stopped the node.
        site.process.kill()
        eventually(lambda: not any(map(is_alive, processes)), "workers are alive")
    assert _nodes(here) == 1
    _sql(here, "UPDATE nodes SET started_at = started_at - 300, seen_at = seen_at - 300")
    _, missing = _said(here, "node")
    assert (missing["level"], missing["check"]) == ("warning", "node_missing")
    file = here / "valetkey.toml"
    file.write_text(file.read_text().replace("127.0.0.1:0", _address(here), 2))
    with serving(here) as site:
        eventually(lambda: len(_said(here, "node")) == 2, "the node is not back")
        assert [finding["level"] for finding in _said(here, "node")] == ["ok", "ok"]
    assert _nodes(here) == 0


def _address(here: Path) -> str:
    ((address,),) = _sql(here, "SELECT address FROM nodes")
    return str(address)


def test_replaced_worker_continues_the_record_of_its_node(here: Path) -> None:
    with serving(here, subprocess.Popen) as site:
        eventually(lambda: _nodes(here) == 1, "there is no node")
        (before,) = _sql(here, "SELECT holder FROM nodes")
        for pid in workers(site.process.pid):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: _sql(here, "SELECT holder FROM nodes") != [before], "no new worker")
        assert _nodes(here) == 1


def test_doctor_reports_the_last_backup_and_whether_it_precedes_a_restore(tmp_path: Path) -> None:
    begin(tmp_path)
    (none,) = _said(tmp_path, "backup")
    assert (none["check"], none["level"]) == ("no_backup", "ok")
    ran = valetkey("database", "backup", "saved", "--json", here=tmp_path)
    assert ran.code == 0, ran.err
    (made,) = _said(tmp_path, "backup")
    assert made["check"] == "backup_made"
    size = sum(Path(file).stat().st_size for file in ran.json)
    assert made["found"].endswith(f" UTC, {size / (1 << 20):.1f} MiB.")
    # A backup does not contain its own record: the first one has none, the second one the first.
    again = valetkey("database", "backup", "again", "--json", here=tmp_path).json[0]
    for saved, says in ((ran.json[0], "no_backup"), (again, "backup_before")):
        arguments = ("--authorization", saved, "--accept", "--yes")
        ran_restore = valetkey("database", "restore", *arguments, here=tmp_path)
        assert ran_restore.code == 0, ran_restore.err
        assert [finding["check"] for finding in _said(tmp_path, "backup")] == [says]
    assert valetkey("database", "backup", "--record", here=tmp_path).code == 0
    assert [finding["check"] for finding in _said(tmp_path, "backup")] == ["backup_recorded"]


def test_backup_of_postgresql_is_recorded(here: Path) -> None:
    assert valetkey("database", "migrate", here=here).code == 0
    assert valetkey("database", "backup", "--record", here=here).code == 0
    (recorded,) = _said(here, "backup")
    assert recorded["found"].endswith(", made by another program.")


def test_backup_needs_either_a_directory_or_record(tmp_path: Path) -> None:
    begin(tmp_path)
    for arguments in ((), ("saved", "--record")):
        ran = valetkey("database", "backup", *arguments, here=tmp_path)
        assert (ran.code, "either a DIRECTORY or --record" in ran.err) == (2, True)
    assert not (tmp_path / "saved").exists()


def test_backup_before_an_upgrade_is_made_although_it_cannot_be_recorded(tmp_path: Path) -> None:
    begin(tmp_path)
    _sql(tmp_path, "DELETE FROM migrations WHERE number = 68")
    _sql(tmp_path, "DROP TABLE backups")
    ran = valetkey("database", "backup", "saved", here=tmp_path)
    assert ran.code == 0
    assert "could not be recorded in the database: its tables are older" in ran.err
    assert len(list((tmp_path / "saved").iterdir())) == 2
    assert valetkey("database", "backup", "--record", here=tmp_path).code == 2
