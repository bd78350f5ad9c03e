"""`valetkey user import`: dry run, import, report, and a kill in the middle."""

import asyncio
import csv
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.cli.site import begin
from tests.support.wait import CEILING
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.imports.jobs import UserImporter
from valetkey.authorization.imports.rules.users import ImportWork
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.storage.transaction import Store
from valetkey.database.connect import connect
from valetkey.kernel.moment import Instant, later, seconds
from valetkey.kernel.runtime import SYSTEM, Runtime

_FILE = "username,email\nada,ada@example.com\nbob,\n=cmd,carl@example.com\n"
_MANY = 400


def _site(here: Path, content: str, more: str = "") -> None:
    file = begin(here)
    file.write_text(file.read_text() + more)
    (here / "users.csv").write_text(content)


def test_dry_run_then_import_with_report(tmp_path: Path) -> None:
    _site(tmp_path, _FILE)
    dry = valetkey("user", "import", "users.csv", "--dry-run", "--json", here=tmp_path)
    assert (dry.code, dry.json["can_be_imported"], dry.json["faults"]) == (1, 2, 1)
    result = valetkey("user", "import", "users.csv", here=tmp_path)
    assert result.code == 2
    assert "add --yes" in result.err
    assert len(valetkey("user", "list", "--json", here=tmp_path).json) == 0
    done = valetkey("user", "import", "users.csv", "--yes", "--report", "r.csv", here=tmp_path)
    assert done.code == 1, done.err
    assert "email: is missing" in done.out
    rows = list(csv.reader((tmp_path / "r.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert [row[:4] for row in rows[1:]] == [
        ["2", "ada", "ada@example.com", "created"],
        ["3", "bob", "", "fault"],
        ["4", "'=cmd", "carl@example.com", "created"],
    ]
    again = valetkey("user", "import", "users.csv", "--yes", "--json", here=tmp_path)
    assert (again.json["created"], again.json["existing"]) == (0, 2)


def test_wrong_and_large_files_are_refused(tmp_path: Path) -> None:
    _site(tmp_path, "name\nAda\n", "[accounts]\nimport_size = 1\nimport_users = 2\n")
    ran = valetkey("user", "import", "users.csv", here=tmp_path)
    assert (ran.code, 'has no "username"' in ran.err) == (2, True)
    (tmp_path / "users.csv").write_bytes(b"x" * (1024 * 1024 + 1))
    ran = valetkey("user", "import", "users.csv", here=tmp_path)
    assert (ran.code, "accounts.import_size" in ran.err) == (2, True)
    (tmp_path / "users.csv").write_text("username,email\n" + "a,a@b\n" * 3)
    ran = valetkey("user", "import", "users.csv", here=tmp_path)
    assert (ran.code, "more than 2 users" in ran.err) == (2, True)


def test_killed_import_is_continued(database_url: str, tmp_path: Path) -> None:
    lines = "".join(f"person{n},person{n}@example.net\n" for n in range(_MANY))
    _site(tmp_path, f"username,email\n{lines}")
    file = tmp_path / "valetkey.toml"
    database = f'[authorization]\ndatabase = "{database_url}"\n'
    file.write_text(file.read_text().replace("[authorization]\n", database))
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    process = subprocess.Popen(
        [str(PROGRAM), "user", "import", "users.csv", "--yes"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(_kill_and_continue(database_url, process))
    finally:
        process.kill()
        process.wait()


async def _kill_and_continue(url: str, process: subprocess.Popen[bytes]) -> None:
    engine = connect(url, directory=Path("/"))
    store = Store(engine, SYSTEM.random)
    try:
        end = time.monotonic() + CEILING
        while await _users(store) < _MANY // 10:
            assert time.monotonic() < end
            assert process.poll() is None
            await asyncio.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        at_kill = await _users(store)
        assert at_kill < _MANY
        # As a running server does it once the lease is over.
        clock = Runtime(lambda: Instant(later(SYSTEM.now(), seconds(11))), SYSTEM.random)
        worker = UserImporter(store, ImportWork(Accounts(SYSTEM.random)), clock)
        while await worker.process_stage():
            pass
        assert await _users(store) == _MANY
        (user_import,) = await store.read(lambda tx: UserImports.of(tx).recent(2))
        counts = await store.read(lambda tx: UserImports.of(tx).counts(user_import.id))
        assert (user_import.state.value, dict(counts)) == ("finished", {"created": _MANY})
    finally:
        await engine.close()


async def _users(store: Store) -> int:
    row = await store.read(lambda tx: tx.db.row("SELECT count(*) FROM users"))
    return 0 if row is None else int(row[0])


def test_check_hashes_names_rows_that_cannot_work(tmp_path: Path) -> None:
    good = "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"
    content = "\n".join(
        [
            "username;email;password_hash",
            f"ada;ada@example.com;{good}",
            "bob;bob@example.com;my secret password",
            "carl;carl@example.com;",
            f"dora;dora@example.com;{good.replace('$06$', '$31$')}",
        ]
    )
    (tmp_path / "users.csv").write_text(content)
    # Without a configuration or a database.
    ran = valetkey("users", "check-hashes", "users.csv", here=tmp_path)
    assert ran.code == 1
    assert "bcrypt          1" in ran.out
    assert "Without a hash  1" in ran.out
    assert "password_hash: unknown format" in ran.out
    assert "secret" not in ran.out + ran.err
    report = valetkey("user", "check-hashes", "users.csv", "--json", here=tmp_path).json
    assert [(it["row"], it["username"]) for it in report["problems"]] == [(3, "bob"), (5, "dora")]
    assert report["problems"][1]["reason"] == "password_hash: too costly to verify"
    (tmp_path / "users.csv").write_text(content.partition("\nbob")[0])
    assert valetkey("user", "check-hashes", "users.csv", here=tmp_path).code == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "users.csv"]
    (tmp_path / "users.csv").write_text("[{]")
    assert valetkey("user", "check-hashes", "users.csv", here=tmp_path).code == 2


def test_international_address_is_one_at_import_command_and_apply(tmp_path: Path) -> None:
    _site(tmp_path, "username,email\nada,ada@bücher.example\nbob,ada@xn--bcher-kva.example\n")
    done = valetkey("user", "import", "users.csv", "--yes", here=tmp_path)
    assert "email: the same as in row 2" in done.out
    shown = valetkey("user", "show", "ada@bücher.example", "--json", here=tmp_path)
    assert shown.code == 0, shown.err
    assert "ada@xn--bcher-kva.example" in shown.out
    taken = valetkey(*_create("carl", "ada@BÜCHER.example"), here=tmp_path)
    assert "taken" in taken.err
    made = valetkey(*_create("dora", "dora@straße.example"), here=tmp_path)
    assert made.code == 0, made.err
    invited = valetkey("user", "invite", "ada@bücher.example", here=tmp_path)
    assert invited.code == 2
    (tmp_path / "apply.toml").write_text(
        '[[users]]\nusername = "ada"\nemail = "ada@bücher.example"\n', encoding="utf-8"
    )
    applied = valetkey("apply", "apply.toml", "--yes", here=tmp_path)
    assert applied.code == 0, applied.err
    assert "bücher" not in valetkey("user", "list", "--json", here=tmp_path).out


def _create(username: str, email: str) -> tuple[str, ...]:
    return ("user", "create", username, "--email", email, "--generate-password")
