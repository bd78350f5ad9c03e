"""A database that the servers know: missing, replaced or older, it is never quietly another one."""

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.cli.commands.test_serve import eventually, get
from tests.cli.running import PROGRAM, Running, clean_environment, valetkey
from tests.cli.site import CONFIGURATION, ONE_ALGORITHM, configure, serving
from tests.support.wait import CEILING

_ASKS = (
    ("user", "list"),
    ("client", "list"),
    ("key", "list"),
    ("events",),
    ("database", "check"),
    ("doctor",),
)


def remove(here: Path, name: str) -> None:
    for file in (here / "valetkey").glob(f"{name}.db*"):
        file.unlink()


def begun(here: Path) -> Path:
    configure(here)
    with serving(here):
        pass
    assert (here / "valetkey/authorization.last-seen").stat().st_mode & 0o077 == 0
    return here


def said(log: Path, words: str) -> None:
    eventually(lambda: words in log.read_text(encoding="utf-8"), f"the log never said {words!r}")


@pytest.mark.parametrize("name", ["authorization", "resource"])
def test_missing_database_is_created_again_only_with_the_new_option(
    tmp_path: Path, name: str
) -> None:
    begun(tmp_path)
    remove(tmp_path, name)
    database = tmp_path / f"valetkey/{name}.db"
    for command in (("serve",), ("database", "migrate"), *_ASKS):
        ran = valetkey(*command, here=tmp_path)
        if name == "authorization" or command[0] not in ("user", "client", "key"):
            assert ran.code != 0, command
            assert str(database) in ran.out + ran.err, command
        assert not database.exists(), command
    with Running(
        [str(PROGRAM), "serve", "--new"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        process.terminate()
        process.wait(CEILING)
    ran = valetkey("serve", "--new", here=tmp_path)
    assert ran.code == 2
    assert "leave --new out" in ran.err


def test_database_that_is_deleted_or_replaced_while_running_is_refused(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path) as site:
        for name, url in (("authorization", site.authorization), ("resource", site.resource)):
            assert get(f"{url}/health/ready")[0] == 200
            database, aside = tmp_path / f"valetkey/{name}.db", tmp_path / name
            database.rename(aside)
            assert get(f"{url}/health/ready")[0] == 503
            assert get(f"{url}/health/live")[0] == 200
            said(site.log, f'"problem":"{database} is gone"')
            assert not database.exists()
            shutil.copy(aside, database)
            assert get(f"{url}/health/ready")[0] == 503
            said(site.log, f'"problem":"{database} was replaced by another file"')
            database.unlink()
            aside.rename(database)
            assert get(f"{url}/health/ready")[0] == 200
            said(site.log, "database.found")


def test_read_only_commands_create_neither_database_nor_keyring(tmp_path: Path) -> None:
    configure(tmp_path)
    for command in _ASKS:
        valetkey(*command, here=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["valetkey.toml"], command


def test_older_copy_of_a_database_is_refused_until_an_operator_decides(tmp_path: Path) -> None:
    begun(tmp_path)
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "valetkey", saved)
    before = (saved / "authorization.last-seen").read_text(encoding="ascii")
    with serving(tmp_path):
        note = tmp_path / "valetkey/authorization.last-seen"
        eventually(lambda: note.read_text(encoding="ascii") != before, "nothing is noted")
    for name in ("authorization.db", "authorization.db-wal", "authorization.db-shm"):
        (tmp_path / "valetkey" / name).unlink(missing_ok=True)
    shutil.copy(saved / "authorization.db", tmp_path / "valetkey/authorization.db")
    for command in (("serve",), ("user", "list"), ("apply", "none.toml")):
        ran = valetkey(*command, here=tmp_path)
        assert ran.code == 2, command
    ran = valetkey("serve", here=tmp_path)
    assert "older than its last state" in ran.err
    assert "valetkey database restore" in ran.err


def test_postgresql_database_that_lost_its_tables_is_not_refilled(
    tmp_path: Path, postgres_url: str, another_postgres_url: str
) -> None:
    text = CONFIGURATION.format(workers=1) + ONE_ALGORITHM
    for section, url in (("authorization", postgres_url), ("resource", another_postgres_url)):
        text = text.replace(f"[{section}]", f'[{section}]\ndatabase = "{url}"')
    file = tmp_path / "valetkey.toml"
    file.write_text(text, encoding="utf-8")
    with serving(tmp_path):
        pass
    # The other one's database in its place: another is refused before anything is written to it.
    swapped = text.replace(postgres_url, "x").replace(another_postgres_url, postgres_url)
    file.write_text(swapped.replace('"x"', f'"{another_postgres_url}"'), encoding="utf-8")
    assert valetkey("serve", here=tmp_path).code == 2
    file.write_text(text, encoding="utf-8")
    with serving(tmp_path) as site:
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            raw.execute("DROP SCHEMA public CASCADE")
            raw.execute("CREATE SCHEMA public")
        assert get(f"{site.authorization}/health/ready")[0] == 503
        said(site.log, "database.lost")
        assert get(f"{site.authorization}/health/ready")[0] == 503
