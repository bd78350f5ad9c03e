"""An app uses half of what it may; its user sees that, and then deletes the account."""

from pathlib import Path

import pytest

from tests.stories import printer
from tests.support.wait import wait_until
from valetkey.authorization.background import maintenance
from valetkey.config.sections.people import AccountSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import seconds
from valetkey.kernel.replace import replace
from valetkey.sdk.upstream import uses
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers


def test_app_use_is_shown_and_a_deleted_account_loses_all_access(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "EVERY", 0.2)
    monkeypatch.setattr(maintenance, "_SWEEP_EVERY", 0.2)
    base_settings = Settings(accounts=AccountSettings(deletion_grace=seconds(1)))
    settings = replace(
        base_settings, authorization=replace(base_settings.authorization, database=database_url)
    )
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", printer.PASSWORD)
        printer.register(servers, "notes:read", "notes:write")
        ada = UserAgent(servers.auth_url)
        code = printer.code(servers, ada, "notes:read notes:write")
        token: str = printer.redeem(servers, code).json()["access_token"]
        assert printer.reads(servers, token) == 200

        url = f"{servers.auth_url}/account/apps/app?app=printer"
        wait_until(lambda: "Used just now" in " ".join(ada.open(url).text.split()))
        assert "Never used" in ada.open(url).text

        question = ada.open(f"{servers.auth_url}/account/delete")
        assert "1 connected app loses its access." in question.text
        planned = ada.submit(question, "delete", {"username": "ada"})
        assert "Your account will be deleted" in planned.text
        wait_until(lambda: printer.reads(servers, token) != 200, "the token still works")
        assert printer.reads(servers, token) == 401

        # The sweep comes by itself.
        wait_until(
            lambda: servers.write(lambda tx: tx.users.find_by_name("ada")) is None,
            "the account is still there",
        )
        page = ada.sign_in(ada.open(f"{servers.auth_url}/oauth/sign-in"), "ada", printer.PASSWORD)
        assert page.status == 401
        assert servers.register_user("ada", printer.PASSWORD).username == "ada", "the name is free"
