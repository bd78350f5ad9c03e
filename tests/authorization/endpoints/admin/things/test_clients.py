"""Apps in administration: found, looked at, and everything that is done with them."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.cases import case
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.inspection.records import IMPLICIT
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.client_state import SECRET_LIFETIMES
from valetkey.kernel.moment import Instant


async def grants_of(it: Harness, client_id: str) -> frozenset[str]:
    """The grant types of a client."""
    client = await it.read(lambda tx: tx.clients.find(client_id))
    assert client is not None
    return client.grant_types


CODE = {"authorization_code", "refresh_token"}


def test_apps_are_found_by_name_and_filters(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("printer")
        await it.client("viewer", type="public", profile="classic")
        browser = await administrator(it)
        assert "Viewer" not in (await page(browser, "/admin/clients?q=print")).body
        assert "Printer" not in (await page(browser, "/admin/clients?type=public")).body
        assert "Printer" in (await page(browser, "/admin/clients?profile=nonsense")).body
        await it.client("zebra", name="amber")
        for sort, first in (
            ("", "amber"),
            ("oldest", "Printer"),
            ("name", "amber"),
            ("-name", "Viewer"),
        ):
            body = (await page(browser, f"/admin/clients?sort={sort}")).body
            names = re.findall(r'<a href="/admin/clients/\w+"><bdi class="long">(\w+)</bdi>', body)
            assert names[0] == first
            assert "Total: 3" in body
            names = [name for name in names if name in {"amber", "Printer", "Viewer"}]
            assert sort != "name" or names == ["amber", "Printer", "Viewer"]
            assert sort != "-name" or names == ["Viewer", "Printer", "amber"]
        assert "Total: 1" in (await page(browser, "/admin/clients?q=print")).body
        nothing = await page(browser, "/admin/clients?q=nobody")
        assert "No app found" in nothing.body

    run(tmp_path, story, database_url)


def test_app_is_registered_with_a_preset_and_its_configuration_shown_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        new = "/admin/clients/new"
        assert new in (await page(browser, "/admin/clients")).body
        chooser = (await page(browser, new)).body
        assert f"{new}?kind=server&amp;preset=spring-boot" in chooser
        form = await page(browser, f"{new}?kind=server&preset=spring-boot")
        uri = "https://app.example/login/oauth2/code/valetkey"
        nameless = await browser.submit(form, "do", name="", redirect_uris="x")
        assert nameless.status == 400
        assert nameless.body.count('aria-invalid="true"') == 1
        fields = {"name": "Books", "redirect_uris": uri}
        made = await browser.submit(form, "do", **fields)
        shown = {
            name: unescape(text)
            for name, text in re.findall(r'<code id="([^"]+)">(.*?)</code>', made.body, re.DOTALL)
        }
        secret, client_id = shown["client-secret"], shown["client-id"]
        assert secret in shown["file-1"]
        assert client_id in shown["file-1"]
        client = await it.read(lambda tx: tx.clients.find(client_id))
        assert client is not None
        assert (client.name, client.redirect_uris) == ("Books", (uri,))
        again = await browser.submit(form, "do", **fields)
        assert again.location == f"/admin/clients/{client_id}"
        assert secret not in (await page(browser, again.location)).body
        assert (await browser.submit(form, "do", client_id="app_mine")).location == new
        events = await it.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        (by,) = {event.done_by for event in events if event.client_id == client_id}
        assert by == by_user(ADA)

    run(tmp_path, story)


def test_public_app_and_service_are_registered_with_any_grant_of_the_server(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for kind, fields, grants in (
            ("browser", {"redirect_uris": "https://app.example/cb"}, CODE),
            ("machine", {}, {"client_credentials"}),
        ):
            form = await page(browser, f"/admin/clients/new?kind={kind}")
            made = await browser.submit(form, "do", name=kind, **fields)
            assert made.status == 200, made.body
            list_page = await page(browser, f"/admin/clients?q={kind}")
            client_id = list_page.body.partition("/admin/clients/app_")[2].partition('"')[0]
            assert await grants_of(it, f"app_{client_id}") == grants

    run(tmp_path, story)


def test_verification_of_an_app_is_shown_on_the_consent_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("printer")
        browser = await administrator(it)
        answer = await do(browser, "/admin/clients/printer/verify")
        assert answer.location == "/admin/clients/printer?done=verify"
        shown = await page(browser, answer.location)
        assert "The app is verified." in shown.body
        challenge = {"code_challenge": "E" * 43, "code_challenge_method": "S256"}
        parameters = {"client_id": "printer", "scope": "notes:read", **challenge}
        assert ">Verified by" in (await browser.ask(**parameters)).body
        await do(browser, "/admin/clients/printer/unverify")
        assert ">Not verified by" in (await browser.ask(**parameters)).body
        records = await it.event_records()
        by = {record.name: record.done_by for record in records}
        assert by["client.verified"] == by["client_verification.ended"] == "user 1001"

    run(tmp_path, story)


def test_third_secret_replaces_both(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("printer", grant_types=("client_credentials",))
        browser = await administrator(it)
        address = "/admin/clients/printer/secret"
        second = await page(browser, address)
        assert second.body.count('name="others_live"') == len(SECRET_LIFETIMES)
        await browser.submit(second, "do", others_live="")
        third = await page(browser, address)
        assert "Two secrets work, which is the maximum" in third.body
        assert third.body.count('name="others_live"') == 1
        assert (await do(browser, address, others_live="0")).status == 200

    run(tmp_path, story)


def test_a_secret_is_issued_shown_once_and_ended(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("printer", grant_types=("client_credentials",))
        browser = await administrator(it)
        shown = await do(browser, "/admin/clients/printer/secret", others_live="0")
        secret = shown.body.partition('<code id="client-secret">')[2].partition("<")[0]
        assert secret.startswith("vk_cs_")
        await it.own_token("printer", client_secret=secret)
        with pytest.raises(AssertionError):
            await it.own_token("printer")
        client = await page(browser, "/admin/clients/printer")
        assert secret not in client.body
        end = client.body.partition('href="/admin/clients/printer/end-secret?')[2].partition('"')[0]
        answer = await do(browser, f"/admin/clients/printer/end-secret?{end}")
        assert answer.location.endswith("done=end-secret")
        after = (await browser.get("/admin/clients/printer")).body
        assert "No active secret. The app gets no tokens until you create one." in after
        with pytest.raises(AssertionError):
            await it.own_token("printer", client_secret=secret)

    run(tmp_path, story)


def test_console_path_of_an_app_whose_id_is_a_url_is_escaped() -> None:
    finding = IMPLICIT.finding(client="https://app.example/id?a=1%")
    assert finding.console == "/admin/clients/https%3A%2F%2Fapp.example%2Fid%3Fa%3D1%25"


def test_legacy_grant_is_allowed_with_a_warning_except_in_modern_profile(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("viewer", profile="classic")
        browser = await administrator(it)
        question = await page(browser, "/admin/clients/viewer/allow-implicit")
        assert "in a page&#39;s URL" in question.body
        await browser.submit(question, "do")
        await do(browser, "/admin/clients/viewer/allow-password")
        client = await it.read(lambda tx: tx.clients.find("viewer"))
        assert client is not None
        assert {"implicit", "password"} <= client.grant_types
        changes = [
            record.data for record in await it.event_records() if record.name == "client.changed"
        ]
        before = '"before":["authorization_code refresh_token"]'
        after = '"after":["authorization_code implicit refresh_token"]'
        assert any(before in data and after in data for data in changes)
        await do(browser, "/admin/clients/viewer/end-implicit")
        await it.client("modern", profile="modern")
        refused = await do(browser, "/admin/clients/modern/allow-implicit")
        assert refused.status == 400
        assert "profile" in refused.body

    run(tmp_path, story)


def test_disabling_or_deleting_says_how_many_users_lose_access(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("printer")
        tokens = await it.tokens("printer")
        browser = await administrator(it)
        question = await page(browser, "/admin/clients/printer/disable")
        assert "1 user loses access to the app." in " ".join(question.body.split())
        await browser.submit(question, "do")
        assert (await it.introspect(tokens.text("access_token")))["active"] is False
        await do(browser, "/admin/clients/printer/enable")
        answer = await do(browser, "/admin/clients/printer/delete")
        assert answer.location == "/admin/clients?deleted=1"
        assert (await browser.get("/admin/clients/printer")).status == 404
        assert "Printer" not in (await page(browser, "/admin/clients")).body
        for name in ("client.disabled", "client.enabled", "client.removed"):
            assert name in await it.events()

    run(tmp_path, story)


_UNKNOWN_PATHS: tuple[str, ...] = (
    "/admin/clients/nobody",
    "/admin/clients/%00",
    "/admin/clients/%ff",
    "/admin/clients/web/nonsense",
    "/admin/clients/nobody/disable",
    "/admin/clients/web/end-secret?secret=cs_other",
    "/admin/tokens/nobody/end",
    "/admin/keys/nobody/withdraw",
)


def test_unknown_path_is_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        for path in _UNKNOWN_PATHS:
            with case(path):
                assert (await browser.get(path)).status == 404

    run(tmp_path, story)


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.SUPPORT])
def test_roles_that_only_read_can_open_no_action(tmp_path: Path, role: Role) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, role)
        shown = await page(browser, "/admin/clients/web")
        assert "Actions" not in shown.body
        for act in ("verify", "secret", "disable", "delete", "allow-implicit"):
            assert (await browser.get(f"/admin/clients/web/{act}")).status == 404
        for path in ("keys/rotate", "settings/brand", "tokens/new"):
            assert (await browser.get(f"/admin/{path}")).status == 404
        for path in ("keys", "events", "settings", "registration", "mail", "tokens"):
            body = (await page(browser, f"/admin/{path}")).body
            assert 'id="do"' not in body, path

    run(tmp_path, story)


def test_resource_server_client_has_no_actions(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        shown = await page(browser, "/admin/clients/resource-server")
        assert "Actions" not in shown.body
        refused = await do(browser, "/admin/clients/resource-server/disable")
        assert refused.status == 403

    run(tmp_path, story)


def test_app_with_special_characters_in_its_id_is_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("odd@name/1")
        browser = await administrator(it)
        await page(browser, "/admin/clients/odd%40name%2F1")
        answer = await do(browser, "/admin/clients/odd%40name%2F1/verify")
        assert answer.location == "/admin/clients/odd%40name%2F1?done=verify"

    run(tmp_path, story)


_BAD_QUERIES: tuple[str, ...] = (
    "q=%00",
    "q=%ff",
    "after=x",
    "after=1.%00",
    "q=a&q=b",
    "client=%00",
    "person=%ed%a0%80",
)


def test_invalid_queries_cause_no_server_error(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for query in _BAD_QUERIES:
            with case(query):
                for path in (
                    "clients",
                    "events",
                    "tokens",
                    "keys",
                    "settings",
                    "mail",
                    "registration",
                ):
                    answer = await browser.get(f"/admin/{path}?{query}")
                    assert answer.status in {200, 400}, path

    run(tmp_path, story)
