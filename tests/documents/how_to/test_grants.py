"""The guides to devices, exchange, service accounts and identity assertions, followed."""

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from tests.cli.running import valetkey
from tests.documents.pages import Block, blocks
from tests.documents.shell import Terminal
from tests.support.wait import CEILING
from valetkey.authorization.providers.rules.identities import ClaimedIdentity, connect
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
ASSERTIONS, EXCHANGE = "identity-assertions", "exchange-tokens"
SECRET = "one secret for all of these clients, and long enough"
CONTACTS = """
[[apis]]
identifier = "https://contacts.example.com"
name = "Contacts"
scopes = { "contacts:read" = "see your contacts" }

[[clients]]
client_id = "web-app"
name = "Web"
description = "Shows what you have noted"
redirect_uris = ["https://web.example/cb"]
scopes = ["notes:read", "notes:write"]
"""


def _block(page: str, language: str, word: str = "") -> Block:
    page = f"docs/how-to/apps/{page}.md"
    matching_blocks = [
        block for block in blocks(page) if block.language == language and word in block.code
    ]
    assert len(matching_blocks) == 1, (page, language, word)
    return matching_blocks[0]


@dataclass
class Place:
    """One server with its folder, as its operator has them."""

    servers: Servers
    terminal: Terminal

    def configure(self) -> None:
        """The configuration of the running server, for commands."""
        names = self.servers.settings
        (self.terminal.folder / "valetkey.toml").write_text(
            f'[authorization]\nurl = "{names.authorization.url}"\n'
            f'listen = "{names.authorization.listen}"\n'
            f'[resource]\nurl = "{names.resource.url}"\nlisten = "{names.resource.listen}"\n'
            '[tokens]\nsigning_algorithms = ["ES256"]\n'
        )

    def apply(self, *texts: str) -> None:
        """Apply what pages and tests declare; every client of it has the one secret."""
        text = "\n".join(texts).replace(
            'type = "confidential"', f'type = "confidential"\nclient_secret = "{SECRET}"'
        )
        (self.terminal.folder / "apply.toml").write_text(self.terminal.adapted(text))
        ran = valetkey("apply", "apply.toml", "--yes", here=self.terminal.folder)
        assert ran.code == 0, ran.err + ran.out

    def allow(self, client_id: str, scope: str, redirect: str, *resources: str) -> dict[str, str]:
        """Sign in as ada, allow everything, and redeem the code."""
        pairs = [("response_type", "code"), ("client_id", client_id), ("scope", scope)]
        pairs += [("redirect_uri", redirect), *(("resource", resource) for resource in resources)]
        person = UserAgent(self.servers.auth_url)
        page = person.open(f"{self.servers.auth_url}/oauth/authorize?{urlencode(pairs)}")
        page = person.sign_in(page, "ada", PASSWORD)
        page = page if page.location else person.allow(page)
        form = {"grant_type": "authorization_code", "code": page.redirect_parameters["code"]}
        form |= {"redirect_uri": redirect}
        answer = requests.post(
            f"{self.servers.auth_url}/oauth/token",
            data=form,
            auth=(client_id, SECRET),
            timeout=CEILING,
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def module(self, page: str, word: str) -> dict[str, Any]:
        """Run a Python block of the page; its names."""
        names: dict[str, Any] = {}
        exec(compile(self.terminal.adapted(_block(page, "python", word).code), page, "exec"), names)
        return names


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """Two servers with the settings of the page: users sign in at the first."""
    with ExitStack() as stack:
        settings = Settings()
        first, second = (
            [tomllib.loads(b.code) for b in blocks(f"docs/how-to/apps/{ASSERTIONS}.md")
             if b.title == "valetkey.toml"]
        )  # fmt: skip
        on = first["tokens"]["identity_assertions"]
        settings = replace(settings, tokens=replace(settings.tokens, identity_assertions=on))
        here = stack.enter_context(Servers(tmp_path_factory.mktemp("here"), settings=settings))
        values: dict[str, Any] = {**second["federation"]["providers"][0], "issuer": here.auth_url}
        provider = ProviderSettings(kind=ProviderKind.OPENID, **values)
        settings = replace(
            settings,
            features=(FederationSettings((provider,), Secret("company=x")),),
            fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
        )
        there = stack.enter_context(Servers(tmp_path_factory.mktemp("there"), settings=settings))
        instead = {
            "https://auth.example.com": here.auth_url,
            "https://auth.notes.example": there.auth_url,
            "https://api.notes.example": there.api_url,
        }
        both = [
            Place(servers, Terminal(servers.settings.source.directory, dict(instead)))
            for servers in (here, there)
        ]
        for place in both:
            place.configure()
            place.servers.register_user("ada", PASSWORD)
        yield both[0], both[1]


def test_app_reaches_the_api_of_another_server(
    places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = places
    here.apply(_block(ASSERTIONS, "toml", "assertion_audiences").code)
    there.apply(_block(ASSERTIONS, "toml", 'client_id = "assistant-there"').code)
    at_first = here.servers.write(lambda tx: tx.users.find_by_name("ada"))
    assert at_first is not None
    subject = at_first.subject

    def link(tx: Transaction) -> bool:
        user = tx.users.find_by_name("ada")
        assert user is not None
        claimed = ClaimedIdentity(here.servers.auth_url, subject)
        return connect(tx, user, claimed, there.servers.clock.now())

    assert there.servers.write(link)
    tokens = here.allow(
        "assistant", "openid offline_access", "https://assistant.example.com/callback"
    )
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("SECRET_THERE", SECRET)
    names = here.module(ASSERTIONS, "notes_token")
    token = names["notes_token"](tokens["id_token"]).reveal()
    header = {"authorization": f"Bearer {token}"}
    answer = requests.get(f"{there.servers.api_url}/v2/notes", headers=header, timeout=CEILING)
    assert answer.status_code == 200, answer.text
    again = names["here"].identity_assertion(
        Secret(tokens["refresh_token"]), audience=there.servers.auth_url, kind="refresh_token"
    )
    shell = f'SECRET={SECRET!r}; SECRET_THERE={SECRET!r}; ID_TOKEN="{tokens["id_token"]}"\n'
    output = here.terminal.run(shell + _block(ASSERTIONS, "sh", "id-jag").code)
    assert '"token_type":"N_A"' in output
    shell += f'ASSERTION="{again.reveal()}"\n'
    output = here.terminal.run(shell + _block(ASSERTIONS, "sh", "$ASSERTION").code)
    assert '"scope":"notes:read"' in output


def test_service_calls_as_the_user(
    places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = places
    web = CONTACTS.replace("scopes = [", 'type = "confidential"\nscopes = [')
    tables = [
        _block(EXCHANGE, "toml", f'"{name}"').code for name in ("gateway", "calendar-service")
    ]
    here.apply(web, *tables)
    contacts, own = "https://contacts.example.com", here.servers.api_url
    tokens = here.allow(
        "web-app", "notes:read contacts:read", "https://web.example/cb", own, contacts
    )
    monkeypatch.setenv("SECRET", SECRET)
    gateway = here.module(EXCHANGE, "token_to_call_with")
    token = gateway["token_to_call_with"](tokens["access_token"]).reveal()
    header = {"authorization": f"Bearer {token}"}
    answer = requests.get(f"{here.servers.api_url}/v2/notes", headers=header, timeout=CEILING)
    assert answer.status_code == 200, answer.text
    service = here.module(EXCHANGE, "contacts_token")
    assert service["contacts_token"](tokens["access_token"]).reveal()
    shell = f'SECRET={SECRET!r}; TOKEN="{tokens["access_token"]}"\n'
    output = here.terminal.run(shell + _block(EXCHANGE, "sh").code)
    assert '"scope":"notes:read"' in output


def test_service_account_gets_a_token_with_its_key(places: tuple[Place, Place]) -> None:
    here, _ = places
    page = "service-accounts"
    for word in ("robot.key", "client:read"):
        title = "make_key.py" if word == "robot.key" else "robot.py"
        block = next(b for b in blocks(f"docs/how-to/apps/{page}.md") if b.title == title)
        here.terminal.write(block)
    here.terminal.run("python make_key.py")
    assert (here.terminal.folder / "robot.key").stat().st_mode & 0o777 == 0o600
    here.terminal.run(_block(page, "sh", "client create").code)
    token = here.terminal.run("python robot.py").strip()
    header = {"authorization": f"Bearer {token}"}
    answer = requests.get(f"{here.servers.api_url}/v2/client", headers=header, timeout=CEILING)
    assert answer.status_code == 200, answer.text


def test_device_signs_a_user_in(places: tuple[Place, Place]) -> None:
    here, _ = places
    page = "sign-in-on-devices"
    here.terminal.run(_block(page, "sh", "client create").code)
    here.terminal.write(_block(page, "python"))
    with ExitStack() as stack:
        tv = stack.enter_context(here.terminal.start(f"{sys.executable} tv.py"))
        # It would poll until its code expires.
        stack.callback(tv.kill)
        assert tv.stdout is not None
        shown = re.search(r"Open (\S+) and enter (\S+)", tv.stdout.readline())
        assert shown
        person = UserAgent(here.servers.auth_url)
        device_page = person.sign_in(person.open(f"{shown[1]}/{shown[2]}"), "ada", PASSWORD)
        if any(button.id == "continue" for button in device_page.buttons):
            device_page = person.submit(device_page, "continue")
        done = person.allow(device_page, only=("yes", "openid", "notes:read"))
        assert "Device connected" in done.text
        token = tv.stdout.readline().strip()
    header = {"authorization": f"Bearer {token}"}
    answer = requests.get(f"{here.servers.api_url}/v2/notes", headers=header, timeout=CEILING)
    assert answer.status_code == 200, answer.text
