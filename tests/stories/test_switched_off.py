"""An administrator switches an account off, and every session and token of it is dead at once."""

from pathlib import Path

from tests.stories import printer
from tests.support.wait import wait_until
from valetkey.authorization.model.user import Role
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

_ADA = 1001


def test_disabled_account_stops_working_everywhere_within_five_seconds(
    tmp_path: Path, database_url: str
) -> None:
    defaults = Settings()
    settings = replace(
        defaults, authorization=replace(defaults.authorization, database=database_url)
    )
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", printer.PASSWORD, uid=_ADA)
        olive = servers.register_user("olive", printer.PASSWORD)
        servers.write(
            lambda tx: tx.user_directory.set_role(olive.uid, Role.OWNER, servers.clock.now())
        )
        printer.register(servers, "notes:read")
        ada, admin = UserAgent(servers.auth_url), UserAgent(servers.auth_url)
        code = printer.code(servers, ada)
        tokens: dict[str, str] = printer.redeem(servers, code).json()
        assert printer.reads(servers, tokens["access_token"]) == 200
        sessions = f"{servers.auth_url}/account/sessions"
        assert ada.open(sessions).url == sessions

        page = admin.open(f"{servers.auth_url}/admin")
        page = admin.sign_in(page, "olive", printer.PASSWORD)
        assert page.url == f"{servers.auth_url}/admin"
        question = admin.open(f"{servers.auth_url}/admin/users/{_ADA}/disable")
        assert "1 session ends." in question.text
        assert "1 app loses access." in question.text
        answer = admin.submit(question, "do")
        assert "The account is disabled." in answer.text

        wait_until(
            lambda: printer.reads(servers, tokens["access_token"]) != 200, "the token still works"
        )
        assert printer.reads(servers, tokens["access_token"]) == 401
        assert "/oauth/sign-in" in ada.open(sessions).url
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        assert printer.ask(servers, form).json()["error"] == "invalid_grant"
        page = ada.sign_in(ada.open(f"{servers.auth_url}/oauth/sign-in"), "ada", printer.PASSWORD)
        assert page.status == 401
