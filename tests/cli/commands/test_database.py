"""`valetkey database`: migrated, checked, backed up while the servers run."""

import shutil
import sqlite3
from pathlib import Path

from tests.cli.running import Ran, valetkey
from tests.cli.site import configure, serving


def database(here: Path, *arguments: str) -> Ran:
    return valetkey("database", *arguments, here=here)


def test_check_of_missing_databases_creates_nothing(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = database(tmp_path, "check")
    assert ran.code == 1
    assert ran.out.count("there is no database yet") == 2
    assert not (tmp_path / "valetkey").exists()


def test_migrate_creates_both_databases_and_is_idempotent(tmp_path: Path) -> None:
    configure(tmp_path)
    for _ in range(2):
        assert database(tmp_path, "migrate").code == 0
        ran = database(tmp_path, "check", "--json")
        assert ran.code == 0
        assert [(server["server"], server["ok"]) for server in ran.json] == [
            ("authorization", True),
            ("resource", True),
        ]


def test_check_reports_an_empty_file_and_a_changed_migration(tmp_path: Path) -> None:
    configure(tmp_path)
    assert database(tmp_path, "migrate").code == 0
    (tmp_path / "valetkey/resource.db").unlink()
    for end in ("-wal", "-shm"):
        (tmp_path / f"valetkey/resource.db{end}").unlink(missing_ok=True)
    (tmp_path / "valetkey/resource.db").touch(0o600)
    with sqlite3.connect(tmp_path / "valetkey/authorization.db") as opened:
        opened.execute("UPDATE migrations SET hash = 'another'")
    opened.close()
    ran = database(tmp_path, "check")
    assert ran.code == 1
    assert "it has no tables yet" in ran.out
    assert "no  authorization" in ran.out
    assert "Traceback" not in ran.err


def test_swapped_databases_are_reported(tmp_path: Path) -> None:
    configure(tmp_path)
    assert database(tmp_path, "migrate").code == 0
    swapped = {
        "VALETKEY__AUTHORIZATION__DATABASE": "sqlite:///valetkey/resource.db",
        "VALETKEY__RESOURCE__DATABASE": "sqlite:///valetkey/authorization.db",
    }
    ran = valetkey("database", "check", here=tmp_path, environment=swapped)
    assert ran.code == 1
    assert "ok" not in ran.out.split()


def test_unreachable_postgresql_is_reported_without_its_password(tmp_path: Path) -> None:
    configure(tmp_path)
    away = {"VALETKEY__RESOURCE__DATABASE": "postgresql://me:hunter2@127.0.0.1:9/none"}
    ran = valetkey("database", "check", here=tmp_path, environment=away)
    assert ran.code == 1
    assert "no  resource" in ran.out
    assert "hunter2" not in ran.out + ran.err


def test_backup_of_running_servers_can_be_served(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        valetkey(
            "client",
            "create",
            "--id",
            "robot",
            "--name",
            "Robot",
            "--grant-type",
            "client_credentials",
            here=tmp_path,
        )
        ran = database(tmp_path, "backup", "saved", "--json")
        assert ran.code == 0, ran.err
    files = [Path(file) for file in ran.json]
    assert [file.name.split("-")[0] for file in files] == ["authorization", "resource"]
    restored = tmp_path / "restored"
    (restored / "valetkey").mkdir(parents=True)
    configure(restored)
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        shutil.copy(file, restored / f"valetkey/{file.name.split('-')[0]}.db")
    for name in ("valetkey.keyring", "resource-server.credential"):
        shutil.copy(tmp_path / "valetkey" / name, restored / "valetkey" / name)
    with serving(restored):
        listed = valetkey("client", "list", "--json", here=restored).json
    assert "robot" in [client["client_id"] for client in listed]


def test_plan_shows_statements_and_locks_and_changes_nothing(tmp_path: Path) -> None:
    configure(tmp_path)
    assert database(tmp_path, "migrate").code == 0
    assert "authorization: nothing to do" in database(tmp_path, "migrate", "--plan").out
    file = tmp_path / "valetkey/resource.db"
    with sqlite3.connect(file) as opened:
        opened.execute("DELETE FROM migrations WHERE number > 1")
    opened.close()
    before = file.read_bytes()
    planned = database(tmp_path, "migrate", "--plan")
    assert planned.code == 0
    assert "resource: " in planned.out
    assert "    0002_lists.sql: CREATE TABLE " in planned.out
    assert "        lock: the database: writes wait" in planned.out
    plans = database(tmp_path, "migrate", "--plan", "--json").json
    assert [len(plan["steps"]) > 0 for plan in plans] == [False, True]
    assert file.read_bytes() == before
