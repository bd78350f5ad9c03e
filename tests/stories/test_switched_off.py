"""An administrator switches an account off, and every session and token of it is dead at once."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import requests

from tests.support.wait import wait_until
from valetkey.authorization.model.account.user import Role
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import Settings
from valetkey.testing.person import Person
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_SECRET = "a secret of the printer, long enough for it"
_CALLBACK = "https://app.example/cb"
_ADA = 1001


def _tokens(servers: Servers, ada: Person) -> dict[str, str]:
    asked = {
        "response_type": "code",
        "client_id": "printer",
        "redirect_uri": _CALLBACK,
        "scope": "notes:read",
    }
    page = ada.open(f"{servers.auth_url}/oauth/authorize?{urlencode(asked)}")
    if any(button.id == "sign-in" for button in page.buttons):
        page = ada.sign_in(page, "ada", _PASSWORD)
    page = ada.allow(page)
    form = {
        "grant_type": "authorization_code",
        "code": page.told["code"],
        "redirect_uri": _CALLBACK,
    }
    url = f"{servers.auth_url}/oauth/token"
    answer = requests.post(url, form, auth=("printer", _SECRET), timeout=60)
    found: dict[str, str] = answer.json()
    return found


def _reads(servers: Servers, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return requests.get(f"{servers.api_url}/v2/notes", headers=headers, timeout=60).status_code


def test_an_account_that_is_switched_off_is_dead_everywhere_within_five_seconds(
    tmp_path: Path, database_url: str
) -> None:
    given = Settings()
    settings = replace(given, authorization=replace(given.authorization, database=database_url))
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", _PASSWORD, uid=_ADA)
        olive = servers.register_user("olive", _PASSWORD)
        servers.write(lambda tx: tx.people.set_role(olive.uid, Role.OWNER, servers.clock.now()))
        metadata = ClientMetadata("Printer", redirect_uris=(_CALLBACK,), scopes=("notes:read",))
        servers.register_client(metadata, "printer", _SECRET)
        ada, admin = Person(servers.auth_url), Person(servers.auth_url)
        tokens = _tokens(servers, ada)
        assert _reads(servers, tokens["access_token"]) == 200
        sessions = f"{servers.auth_url}/account/sessions"
        assert ada.open(sessions).url == sessions

        page = admin.open(f"{servers.auth_url}/admin")
        page = admin.sign_in(page, "olive", _PASSWORD)
        assert page.url == f"{servers.auth_url}/admin"
        question = admin.open(f"{servers.auth_url}/admin/users/{_ADA}/disable")
        assert "1 session ends." in question.text
        assert "1 app loses access." in question.text
        said = admin.submit(question, "do")
        assert "The account is disabled." in said.text

        wait_until(lambda: _reads(servers, tokens["access_token"]) != 200, "the token still works")
        assert _reads(servers, tokens["access_token"]) == 401
        assert "/oauth/sign-in" in ada.open(sessions).url
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        url = f"{servers.auth_url}/oauth/token"
        refreshed = requests.post(url, form, auth=("printer", _SECRET), timeout=60)
        assert refreshed.json()["error"] == "invalid_grant"
        page = ada.sign_in(ada.open(f"{servers.auth_url}/oauth/sign-in"), "ada", _PASSWORD)
        assert page.status == 401
