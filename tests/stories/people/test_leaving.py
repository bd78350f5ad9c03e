"""An app uses half of what it may; its user sees that, and then deletes the account."""

import time
from pathlib import Path

import pytest

from tests.stories import printer
from tests.support.wait import CEILING
from valetkey.config.sections.accounts import AccountSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import seconds
from valetkey.kernel.replace import replace
from valetkey.sdk.upstream import uses
from valetkey.testing.person import Person
from valetkey.testing.server import Servers

_FELT_WITHIN = CEILING
_GONE_WITHIN = CEILING


def test_what_was_used_is_seen_and_a_deleted_account_is_dead_everywhere(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "EVERY", 0.2)
    given = Settings(accounts=AccountSettings(deletion_grace=seconds(1)))
    settings = replace(given, authorization=replace(given.authorization, database=database_url))
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", printer.PASSWORD)
        printer.register(servers, "notes:read", "notes:write")
        ada = Person(servers.auth_url)
        code = printer.code(servers, ada, "notes:read notes:write")
        token: str = printer.redeem(servers, code).json()["access_token"]
        assert printer.reads(servers, token) == 200

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
        while (status := printer.reads(servers, token)) == 200:
            assert time.monotonic() < end, "the token still works"
            time.sleep(0.1)
        assert status == 401

        # The sweep comes by itself, every ten seconds.
        end = time.monotonic() + _GONE_WITHIN
        while servers.write(lambda tx: tx.users.find_by_name("ada")) is not None:
            assert time.monotonic() < end, "the account is still there"
            time.sleep(0.5)
        page = ada.sign_in(ada.open(f"{servers.auth_url}/oauth/sign-in"), "ada", printer.PASSWORD)
        assert page.status == 401
        assert servers.register_user("ada", printer.PASSWORD).username == "ada", "the name is free"
