"""The page in a real browser: it fits a phone and a desk, and sends requests with a token."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.resource.objects.books import BOOK, TASK, write_objects
from valetkey.authorization.model.client import ClientType, Membership, TeamRole
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1_280])
def test_page_fits_its_viewport(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    write_objects(tmp_path, books_py=BOOK, tasks_json=TASK)
    settings = replace(Settings(), resource=ResourceSettings(objects="objects"))
    with Servers(tmp_path, settings=settings) as servers:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page = context.new_page()
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        urls: list[str] = []
        page.on("request", lambda request: urls.append(request.url))
        page.goto(f"{servers.api_url}/v2/")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(18, 21, 26)") is (scheme == "dark")
        context.close()
    assert messages == []
    assert urls == [f"{servers.api_url}/v2/"]


_PASSWORD = "an ordinary long password"


def test_developer_sends_requests_with_a_token_of_their_app(
    browser: Browser, tmp_path: Path
) -> None:
    with Servers(tmp_path) as servers:
        _register_app_of_ada(servers)
        context = browser.new_context()
        page = context.new_page()
        _copy_token(page, servers)
        token = page.inner_text("#access-token")
        expect(page.get_by_text("read your notes")).to_be_visible()
        with context.expect_page() as opened:
            page.get_by_role("link", name="Open the API reference").click()
        api = opened.value
        messages: list[str] = []
        api.on("console", lambda message: messages.append(message.text))
        assert "Enter an access token first." in _sent(api, "list_notes")
        expect(api.locator("#access-token")).to_be_focused()
        api.fill("#access-token", token)
        made = _sent(api, "create_notes")
        assert made.startswith("201 Created")
        assert '"version": 1' in made
        listed = _sent(api, "list_notes", query="limit=1")
        note = listed.partition('"id": "')[2].partition('"')[0]
        assert listed.startswith("200 OK")
        assert note in made
        assert _sent(api, "change_notes", id=note, body='{"title": "<b>New"}').startswith("200 OK")
        assert "<b>New" in _sent(api, "read_notes", id=note)
        assert messages == []
        assert _sent(api, "change_notes", id=note, if_match='"1"').startswith("412")
        assert _sent(api, "delete_notes", id=note).startswith("204 No Content")
        assert _sent(api, "read_notes", id="../account").startswith("404")
        assert not api.evaluate("localStorage.length + sessionStorage.length")
        assert token not in api.url
        api.reload()
        assert api.input_value("#access-token") == ""
        context.close()


def _register_app_of_ada(servers: Servers) -> None:
    ada = servers.register_user("ada", _PASSWORD)
    metadata = ClientMetadata(
        name="Notes Printer",
        type=ClientType.PUBLIC,
        redirect_uris=("https://app.example/callback",),
        scopes=("notes:read", "notes:write"),
    )
    servers.register_client(metadata, "printer")
    member = Membership("printer", ada.uid, TeamRole.OWNER, servers.clock.now())
    servers.write(lambda tx: tx.members.add(member))


def _copy_token(page: Page, servers: Servers) -> None:
    """Run the flow of the app in the portal until the page with the access token."""
    page.goto(f"{servers.auth_url}/developer/apps/printer/try")
    page.fill("#username", "ada")
    page.fill("#password", _PASSWORD)
    page.click("#sign-in")
    page.goto(f"{servers.auth_url}/developer/apps/printer/try")
    page.click("#begin")
    page.get_by_role("link", name="Send", exact=True).click()
    page.click("#allow")
    page.click("#exchange")
    page.click("#api")


def _sent(page: Page, operation: str, **typed: str) -> str:
    """Send an operation of the page; return what the page says about the response."""
    form = page.locator(f"form[data-operation={operation}]")
    if not form.is_visible():
        form.locator("..").locator("summary").click()
    for name, value in typed.items():
        form.locator(f"[name={name.replace('_', '-')}]").fill(value)
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).not_to_have_text("Sending …")
    return form.locator(".response").inner_text()
