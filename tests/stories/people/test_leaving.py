"""An app uses half of what it may; its user sees that, and then deletes the account."""

import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

from tests.support.wait import CEILING
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.accounts import AccountSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import seconds
from valetkey.sdk.upstream import uses
from valetkey.testing.person import Person
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_SECRET = "a secret of the printer, long enough for it"
_CALLBACK = "https://app.example/cb"
_FELT_WITHIN = CEILING
_GONE_WITHIN = CEILING


def _token(servers: Servers, ada: Person) -> str:
    asked = {
        "response_type": "code",
        "client_id": "printer",
        "redirect_uri": _CALLBACK,
        "scope": "notes:read notes:write",
    }
    page = ada.open(f"{servers.auth_url}/oauth/authorize?{urlencode(asked)}")
    page = ada.allow(ada.sign_in(page, "ada", _PASSWORD))
    form = {
        "grant_type": "authorization_code",
        "code": page.told["code"],
        "redirect_uri": _CALLBACK,
    }
    url = f"{servers.auth_url}/oauth/token"
    answer = requests.post(url, form, auth=("printer", _SECRET), timeout=60)
    token: str = answer.json()["access_token"]
    return token


def _reads(servers: Servers, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return requests.get(f"{servers.api_url}/v2/notes", headers=headers, timeout=60).status_code


def test_what_was_used_is_seen_and_a_deleted_account_is_dead_everywhere(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "EVERY", 0.2)
    given = Settings(accounts=AccountSettings(deletion_grace=seconds(1)))
    settings = replace(given, authorization=replace(given.authorization, database=database_url))
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", _PASSWORD)
        scopes = ("notes:read", "notes:write")
        metadata = ClientMetadata("Printer", redirect_uris=(_CALLBACK,), scopes=scopes)
        servers.register_client(metadata, "printer", _SECRET)
        ada = Person(servers.auth_url)
        token = _token(servers, ada)
        assert _reads(servers, token) == 200

        place = f"{servers.auth_url}/account/apps/app?app=printer"
        end = time.monotonic() + _FELT_WITHIN
        while "Used just now" not in " ".join((said := ada.open(place)).text.split()):
            assert time.monotonic() < end, said.text
            time.sleep(0.1)
        assert "Never used" in said.text

        question = ada.open(f"{servers.auth_url}/account/delete")
        assert "1 connected app loses its access." in question.text
        planned = ada.submit(question, "delete", {"username": "ada"})
        assert "Your account will be deleted" in planned.text
        end = time.monotonic() + _FELT_WITHIN
        while (status := _reads(servers, token)) == 200:
            assert time.monotonic() < end, "the token still works"
            time.sleep(0.1)
        assert status == 401

        # The sweep comes by itself, every ten seconds.
        end = time.monotonic() + _GONE_WITHIN
        while servers.write(lambda tx: tx.users.find_by_name("ada")) is not None:
            assert time.monotonic() < end, "the account is still there"
            time.sleep(0.5)
        page = ada.sign_in(ada.open(f"{servers.auth_url}/oauth/sign-in"), "ada", _PASSWORD)
        assert page.status == 401
        assert servers.register_user("ada", _PASSWORD).username == "ada", "the name is free"
