"""`valetkey database copy`: everything that was issued works on the copy, in both directions."""

import asyncio
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

from tests.cli.commands.test_serve import eventually, get
from tests.cli.running import PROGRAM, Ran, clean_environment, valetkey
from tests.cli.site import Site, configure_ports, serving
from tests.support.wait import CEILING
from valetkey.cli.register.store import SCHEMAS
from valetkey.database.connect import connect
from valetkey.database.copying import DIALECTS, DatabaseCopy, Side
from valetkey.database.engine import DatabaseUnavailable
from valetkey.database.migrate import migrate
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.testing.browser import UserAgent

_PASSWORD = "correct horse battery staple"
_CALLBACK = "https://app.example/cb"
_FORM = {"grant_type": "authorization_code", "redirect_uri": _CALLBACK}
_NOTE = {"title": "Größe", "text": "x" * 1_000}
_ASKED = {
    "response_type": "code",
    "client_id": "printer",
    "redirect_uri": _CALLBACK,
    "scope": "notes:read notes:write",
}


@dataclass
class Shop:
    """A site with three configurations: SQLite, PostgreSQL, and SQLite again."""

    here: Path
    url: str
    secret: str
    databases: dict[str, tuple[str, str]]

    def use(self, name: str) -> None:
        """Let commands that name no configuration use this one."""
        (self.here / "valetkey.toml").write_bytes((self.here / name).read_bytes())

    def copy(self, old: str, new: str, *options: str) -> Ran:
        return valetkey("database", "copy", old, new, *options, here=self.here)

    def token(self, form: dict[str, str]) -> requests.Response:
        auth = ("printer", self.secret)
        return requests.post(f"{self.url}/oauth/token", form, auth=auth, timeout=CEILING)

    def refreshed(self, tokens: dict[str, str]) -> dict[str, str]:
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        answer = self.token(form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def code(self, browser: UserAgent) -> str:
        page = browser.open(f"{self.url}/oauth/authorize?{urlencode(_ASKED)}")
        if any(button.id == "sign-in" for button in page.buttons):
            page = browser.sign_in(page, "ada", _PASSWORD)
        if not page.location:
            page = browser.allow(page)
        return page.redirect_parameters["code"]


@pytest.fixture
def shop(tmp_path: Path, postgres_url: str, another_postgres_url: str) -> Shop:
    text = configure_ports(tmp_path).read_text(encoding="utf-8")
    folder = tmp_path / "valetkey"
    databases = {
        "sqlite.toml": (f"sqlite:///{folder}/authorization.db", f"sqlite:///{folder}/resource.db"),
        "postgres.toml": (postgres_url, another_postgres_url),
        "back.toml": (f"sqlite:///{folder}/back-a.db", f"sqlite:///{folder}/back-r.db"),
    }
    keys = (f'keyring = "{folder}/valetkey.keyring"', f'credential = "{folder}/rs.credential"')
    for name, urls in databases.items():
        written = text
        for section, url, key in zip(("authorization", "resource"), urls, keys, strict=True):
            written = written.replace(f"[{section}]", f'[{section}]\ndatabase = "{url}"\n{key}')
        (tmp_path / name).write_text(written, encoding="utf-8")
    shop = Shop(tmp_path, text.split('url = "')[1].split('"')[0], "", databases)
    shop.use("sqlite.toml")
    (tmp_path / "nothing.toml").touch()
    assert valetkey("apply", "nothing.toml", "--yes", here=tmp_path).code == 0
    mail = ("--email", "ada@example.com")
    create = ("user", "create", "ada", *mail, "--password-stdin")
    assert valetkey(*create, here=tmp_path, typed=_PASSWORD).code == 0
    options = ["--redirect-uri", _CALLBACK, "--json"]
    for scope in _ASKED["scope"].split():
        options += ["--scope", scope]
    for grant_type in ("authorization_code", "refresh_token"):
        options += ["--grant-type", grant_type]
    made = valetkey("client", "create", "--id", "printer", "--name", "P", *options, here=tmp_path)
    assert made.code == 0, made.err
    shop.secret = made.json["client_secret"]
    return shop


def notes(site: Site, tokens: dict[str, str]) -> requests.Response:
    headers = {"authorization": f"Bearer {tokens['access_token']}"}
    return requests.get(f"{site.resource}/v2/notes", headers=headers, timeout=CEILING)


def begin_copy(shop: Shop, old: str, new: str) -> None:
    """Do what the command has done when it is killed before the first row."""

    async def story() -> None:
        for at, name in enumerate(("authorization", "resource")):
            urls = shop.databases[old][at], shop.databases[new][at]
            one, other = (
                Side(connect(url, directory=shop.here), DIALECTS[url.partition(":")[0]])
                for url in urls
            )
            copy = DatabaseCopy(one, other, SCHEMAS[name])
            await copy.inspect()
            await copy.begin("c" * 32, SYSTEM.now())
            await one.engine.close()
            await other.engine.close()

    asyncio.run(story())


def test_copied_databases_keep_tokens_records_and_secrets(shop: Shop) -> None:
    browser = UserAgent(shop.url)
    with serving(shop.here) as site:
        tokens = shop.token({**_FORM, "code": shop.code(browser)}).json()
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        made = requests.post(
            f"{site.resource}/v2/notes", json=_NOTE, headers=headers, timeout=CEILING
        )
        assert made.status_code == 201, made.text
        hook = ("https://hooks.example/a", "--event", "user.disabled")
        assert valetkey("webhook", "create", *hook, here=shop.here).code == 0
        listed = notes(site, tokens).json()
        unspent = shop.code(browser)
    for old, new in (("sqlite.toml", "postgres.toml"), ("postgres.toml", "back.toml")):
        ran = shop.copy(old, new, "--yes", "--json")
        assert ran.code == 0, ran.err
        assert [server["server"] for server in ran.json] == ["authorization", "resource"]
        rows = {table["table"]: table["rows"] for table in ran.json[0]["tables"]}
        assert rows["users"] == rows["webhooks"] == 1
        assert "writes are refused" in ran.err
        again = shop.copy(old, new, "--yes", "--json")
        assert (again.code, again.json) == (0, [])
        refused = valetkey("serve", here=shop.here)
        assert refused.code == 2
        assert "was copied to another one" in refused.err
        shop.use(new)
        with serving(shop.here) as site:
            assert notes(site, tokens).json() == listed
            tokens = shop.refreshed(tokens)
            redeemed = shop.token({**_FORM, "code": unspent})
            assert redeemed.status_code == 200, redeemed.text
            # Still signed in, and not asked again.
            page = browser.open(f"{shop.url}/oauth/authorize?{urlencode(_ASKED)}")
            unspent = page.redirect_parameters["code"]
            assert notes(site, tokens).json() == listed
        for command in (("events", "verify"), ("database", "check"), ("user", "show", "ada")):
            ran = valetkey(*command, here=shop.here)
            assert ran.code == 0, ran.out + ran.err


def test_servers_answer_reads_while_the_copy_is_made_and_stop_at_its_end(shop: Shop) -> None:
    with serving(shop.here) as site:
        tokens = shop.token({**_FORM, "code": shop.code(UserAgent(shop.url))}).json()
        assert notes(site, tokens).status_code == 200
        begin_copy(shop, "sqlite.toml", "postgres.toml")
        for _ in range(3):
            assert notes(site, tokens).status_code == 200
            introspection = {"token": tokens["access_token"]}
            auth = ("printer", shop.secret)
            answer = requests.post(
                f"{shop.url}/oauth/introspect", introspection, auth=auth, timeout=CEILING
            )
            assert answer.json()["active"] is True
            for url in (site.authorization, site.resource):
                assert get(f"{url}/health/ready")[0] == 200
            assert get(f"{shop.url}/oauth/jwks")[0] in {200, 404}
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        refused = shop.token(form)
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        refused = requests.post(
            f"{site.resource}/v2/notes",
            json=_NOTE,
            headers=headers,
            timeout=CEILING,
        )
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        ran = valetkey("database", "check", here=shop.here)
        assert ran.code == 1
        assert "is being copied" in ran.out
        # Given up, it goes on as before, and the next attempt begins again.
        assert shop.copy("sqlite.toml", "postgres.toml", "--cancel").code == 0
        tokens = shop.refreshed(tokens)
        ran = shop.copy("sqlite.toml", "postgres.toml", "--yes")
        assert ran.code == 0, ran.err
        ready = [f"{url}/health/ready" for url in (site.authorization, site.resource)]
        eventually(
            lambda: {get(url)[0] for url in ready} == {503},
            "a server goes on with a database that was copied",
        )
        assert shop.token(form).status_code == 503
        assert notes(site, tokens).status_code == 503
    shop.use("postgres.toml")
    with serving(shop.here) as site:
        shop.refreshed(tokens)
        assert notes(site, tokens).status_code == 200


def test_copy_with_invalid_source_target_or_keyring_is_refused(shop: Shop) -> None:
    ran = shop.copy("sqlite.toml", "postgres.toml")
    assert ran.code == 2
    assert "--yes" in ran.err
    ran = shop.copy("sqlite.toml", "sqlite.toml", "--yes")
    assert ran.code == 2
    assert "same database" in ran.err
    ran = shop.copy("postgres.toml", "back.toml", "--yes")
    assert ran.code == 2
    assert "authorization.database: the source has no tables" in ran.err
    file = shop.here / "postgres.toml"
    other = file.read_text().replace("valetkey.keyring", "other.keyring")
    (shop.here / "other.toml").write_text(other)
    ran = shop.copy("sqlite.toml", "other.toml", "--yes")
    assert ran.code == 2
    assert "other.keyring" in ran.err
    keyring = (shop.here / "valetkey/valetkey.keyring").read_text()
    (shop.here / "valetkey/other.keyring").write_text(
        keyring.replace("fingerprint 1 ", "fingerprint 1 A")[:-1]
    )
    ran = shop.copy("sqlite.toml", "other.toml", "--yes")
    assert ran.code == 2
    # Nothing of this changed anything.
    with serving(shop.here):
        pass


def test_killed_copy_is_not_used_and_can_be_repeated(shop: Shop) -> None:
    with closing(sqlite3.connect(shop.here / "valetkey/authorization.db")) as db, db:
        db.executemany(
            "INSERT INTO uids VALUES (?, 0)", [(uid,) for uid in range(10**6, 1_030_000)]
        )
    source, target = shop.databases["sqlite.toml"][0], shop.databases["postgres.toml"][0]
    copied: set[int] = set()
    for delay in (0.0, 0.05, 0.2, 0.4, 0.6, 0.9):
        with subprocess.Popen(
            [
                *(str(PROGRAM), "database", "copy", "sqlite.toml", "postgres.toml", "--yes"),
                *("--server", "authorization"),
            ],
            cwd=shop.here,
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            assert b"writes are refused" in process.stderr.readline()
            time.sleep(delay)
            process.kill()
        if (rows := asyncio.run(state(target, shop.here))) is None:
            break
        copied.add(rows)
        assert asyncio.run(state(source, shop.here)) is not None
    assert len(copied) > 1, copied
    ran = shop.copy("sqlite.toml", "postgres.toml", "--yes", "--server", "authorization")
    assert ran.code == 0, ran.err
    assert asyncio.run(state(target, shop.here)) is None
    with pytest.raises(OperatorError, match="was copied"):
        asyncio.run(used(source, shop.here))


async def used(url: str, here: Path) -> None:
    """Open the database as a server does. Raises OperatorError if it refuses."""
    engine = connect(url, directory=here)
    try:
        await migrate(engine, SCHEMAS["authorization"])
    finally:
        await engine.close()


async def state(url: str, here: Path) -> int | None:
    """Return None if writes are accepted, else how many rows of the large table there are."""
    try:
        await used(url, here)
        engine = connect(url, directory=here)
        try:
            await engine.write(lambda db: db.run("UPDATE turns SET taken = taken"))
        finally:
            await engine.close()
    except (OperatorError, DatabaseUnavailable):
        engine = connect(url, directory=here)
        try:
            row = await engine.row("SELECT count(*) FROM uids")
            return row[0] if row else 0
        finally:
            await engine.close()
    return None
