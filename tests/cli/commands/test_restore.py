"""`valetkey database restore`: nothing that was ended after the backup works again."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
import requests

from tests.cli.commands.test_serve import eventually
from tests.cli.running import Ran, valetkey
from tests.cli.site import configure_ports, serving
from tests.support import postgres
from tests.support.wait import CEILING
from valetkey.testing.browser import UserAgent

_PASSWORD = "correct horse battery staple"
_CALLBACK = "https://app.example/cb"
_REPLACED = {
    "rotated": ("secret", "rotated", "--others-live", "0"),
    "rekeyed": ("change", "rekeyed", "--authentication-method", "client_secret_jwt"),
    "more": ("secret", "more", "--others-live", "1d"),
    "renamed": ("change", "renamed", "--name", "Another"),
}
"""Clients whose credentials are replaced after the backup, and one that is only renamed."""
_FORM = {"grant_type": "authorization_code", "redirect_uri": _CALLBACK}


@dataclass
class Shop:
    """A site whose servers stop and start, on either engine."""

    here: Path
    url: str
    secret: str
    save: Callable[[], None]
    replace_database: Callable[[], Ran]

    def token(self, form: dict[str, str]) -> requests.Response:
        auth = ("printer", self.secret)
        return requests.post(f"{self.url}/oauth/token", form, auth=auth, timeout=CEILING)

    def is_active(self, token: str) -> bool:
        url, auth = f"{self.url}/oauth/introspect", ("printer", self.secret)
        return bool(
            requests.post(url, {"token": token}, auth=auth, timeout=CEILING).json()["active"]
        )

    def page(self, browser: UserAgent) -> str:
        """Sign in where it is asked for, and stop before consent."""
        return browser.open(f"{self.url}/oauth/authorize?{urlencode(_ASKED)}").text

    def code(self, browser: UserAgent, name: str) -> str:
        page = browser.open(f"{self.url}/oauth/authorize?{urlencode(_ASKED)}")
        if any(button.id == "sign-in" for button in page.buttons):
            page = browser.sign_in(page, name, _PASSWORD)
        if not page.location:
            page = browser.allow(page)
        return page.redirect_parameters["code"]


_ASKED = {
    "response_type": "code",
    "client_id": "printer",
    "redirect_uri": _CALLBACK,
    "scope": "notes:read",
}


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    file = configure_ports(tmp_path)
    text = file.read_text(encoding="utf-8")
    folder, saved = tmp_path / "valetkey", tmp_path / "saved.db"

    def save() -> None:
        ran = valetkey("database", "backup", "saved", "--json", here=tmp_path)
        assert ran.code == 0, ran.err
        shutil.move(ran.json[0], saved)

    def replace_database() -> Ran:
        return valetkey(
            "database", "restore", "--authorization", str(saved), "--yes", here=tmp_path
        )

    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        text = text.replace("[authorization]", f'[authorization]\ndatabase = "{url}"')
        keys = f'keyring = "{folder}/valetkey.keyring"\n'
        file.write_text(text.replace("[authorization]\n", f"[authorization]\n{keys}"))
        folder.mkdir(mode=0o700)

        def run(program: str, *arguments: str) -> None:
            binaries = postgres.binaries()
            assert binaries is not None
            subprocess.run([str(binaries / program), *arguments], check=True, env=os.environ)

        def save() -> None:
            run("pg_dump", "--format=custom", f"--file={saved}", url)
            # As after minutes of writing: what a failover may lose is not taken for a restore.
            with psycopg.connect(url, autocommit=True) as raw:
                raw.execute("UPDATE installation SET number = number + 1000")
            note = folder / "authorization.last-seen"
            eventually(lambda: int(note.read_text().split()[-2]) > 500, "the number is not noted")

        def replace_database() -> Ran:
            run("pg_restore", "--clean", "--if-exists", f"--dbname={url}", str(saved))
            assert "older than its last state" in valetkey("serve", here=tmp_path).err
            return valetkey("database", "restore", "--yes", here=tmp_path)

    (tmp_path / "nothing.toml").touch()
    assert valetkey("apply", "nothing.toml", "--yes", here=tmp_path).code == 0
    for name in ("ada", "bob", "eve"):
        mail = ("--email", f"{name}@example.com")
        create = ("user", "create", name, *mail, "--password-stdin")
        assert valetkey(*create, here=tmp_path, typed=_PASSWORD).code == 0
    options = ["--redirect-uri", _CALLBACK, "--scope", "notes:read", "--json"]
    for grant_type in ("authorization_code", "refresh_token", "client_credentials"):
        options += ["--grant-type", grant_type]
    secrets: list[str] = []
    for name in ("printer", "lost", *_REPLACED):
        made = valetkey("client", "create", "--id", name, "--name", name, *options, here=tmp_path)
        secrets.append(made.json["client_secret"])
    shop_url = text.split('url = "')[1].split('"')[0]
    return Shop(tmp_path, shop_url, secrets[0], save, replace_database)


def test_access_revoked_after_the_backup_stays_revoked_after_a_restore(shop: Shop) -> None:
    browser = UserAgent(shop.url)
    with serving(shop.here) as site:
        tokens = shop.token({**_FORM, "code": shop.code(browser, "ada")}).json()
        refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        own = shop.token({"grant_type": "client_credentials"}).json()["access_token"]
        unspent = shop.code(browser, "ada")
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        notes = f"{site.resource}/v2/notes"
        assert requests.get(notes, headers=headers, timeout=CEILING).status_code == 200
        shop.save()
        assert valetkey("user", "disable", "bob", "--yes", here=shop.here).code == 0
        assert valetkey("client", "disable", "lost", "--yes", here=shop.here).code == 0
        for command in _REPLACED.values():
            assert valetkey("client", *command, here=shop.here).code == 0
        assert valetkey("user", "disable", "eve", "--yes", here=shop.here).code == 0
        noted = shop.here / "valetkey/authorization.endings"
        eventually(lambda: noted.read_text().count("user.disabled") == 2, "nothing is noted")
    ran = shop.replace_database()
    assert ran.code == 0, ran.err
    assert "valetkey user enable" in ran.out
    for name in ("lost", *_REPLACED):
        assert (f"valetkey client enable {name}\n" in ran.out) == (name != "renamed")
    assert ",database.restored," in valetkey("events", "--csv", here=shop.here).out
    with serving(shop.here) as site:
        eventually(
            lambda: requests.get(notes, headers=headers, timeout=CEILING).status_code == 401,
            "the resource server never heard of the restore",
        )
        assert not shop.is_active(tokens["access_token"])
        assert not shop.is_active(own)
        assert shop.token(refresh).status_code == 400
        assert shop.token({**_FORM, "code": unspent}).status_code == 400
        # The session ended, and bob is no longer let in.
        page = browser.open(f"{shop.url}/oauth/authorize?{urlencode(_ASKED)}")
        assert any(button.id == "sign-in" for button in page.buttons)
        assert not browser.sign_in(page, "bob", _PASSWORD).location
        listed = valetkey("client", "show", "lost", "--json", here=shop.here).json
        assert listed["disabled_at"] is not None
        # Whoever signs in again, and allows again, goes on.
        fresh = shop.token({**_FORM, "code": shop.code(UserAgent(shop.url), "ada")}).json()
        headers = {"authorization": f"Bearer {fresh['access_token']}"}
        assert requests.get(notes, headers=headers, timeout=CEILING).status_code == 200


def test_restore_without_a_record_of_revocations_needs_accept(shop: Shop) -> None:
    with serving(shop.here):
        shop.save()
    (shop.here / "valetkey/authorization.endings").unlink()
    # On SQLite what is put aside still knows what ended; where that is gone too, nobody does.
    for file in (shop.here / "valetkey").glob("authorization.db*"):
        file.unlink()
    arguments = ["database", "restore", "--yes"]
    if (shop.here / "saved").is_dir():
        arguments += ["--authorization", str(shop.here / "saved.db")]
    ran = valetkey(*arguments, here=shop.here)
    assert ran.code == 2
    assert "--accept" in ran.err
    # Nor does a note that nobody understands stand in the way of the command that replaces it.
    (shop.here / "valetkey/authorization.last-seen").write_text("nothing")
    assert valetkey(*arguments, "--accept", here=shop.here).code == 0
    with serving(shop.here):
        pass
