"""Ada lets an app read her notes: a real browser, both servers, a third-party app, each engine."""

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Generator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests
from playwright.sync_api import Browser, Page, expect

from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import AuthorizationSettings, Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_SECRET = "the-notes-printers-secret-of-forty-letters"
# The focus has an outline, within the window. After the last stop it is on the body.
_SHOWS_FOCUS = """() => {
    const it = document.activeElement;
    if (it === document.body) return true;
    const style = getComputedStyle(it), box = it.getBoundingClientRect();
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
        && box.bottom > 0 && box.top < innerHeight;
}"""
_VERIFIER = "a-verifier-that-the-notes-printer-made-up-by-itself"


class NotesPrinter(ThreadingHTTPServer):
    """The third-party app: sends people to the authorization server, prints what it may read."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.auth = ""
        self.api = ""
        self.told: dict[str, str] = {}
        self.tokens: dict[str, object] = {}

    def authorize_url(self) -> str:
        """Where it sends people."""
        challenge = urlsafe_b64encode(sha256(_VERIFIER.encode()).digest()).rstrip(b"=").decode()
        parameters = {
            "response_type": "code",
            "client_id": "printer",
            "redirect_uri": f"{self.url}/cb",
            "scope": "notes:read notes:write account:read",
            "state": "a state of the app's own",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self.auth}/oauth/authorize?{urlencode(parameters)}"

    def come_back(self, query: str) -> str:
        """What it shows to whoever comes back."""
        self.told = dict(parse_qsl(query))
        if "code" not in self.told:
            return f"Sorry: {self.told.get('error')}"
        form = {
            "grant_type": "authorization_code",
            "code": self.told["code"],
            "redirect_uri": f"{self.url}/cb",
            "code_verifier": _VERIFIER,
        }
        answer = requests.post(
            f"{self.auth}/oauth/token", data=form, auth=("printer", _SECRET), timeout=60
        )
        self.tokens = answer.json()
        return f"Printing: {self.read().text}"

    def read(self) -> requests.Response:
        """Ada's notes, as the API gives them to this app."""
        bearer = {"Authorization": f"Bearer {self.tokens['access_token']}"}
        return requests.get(f"{self.api}/v2/notes", headers=bearer, timeout=60)


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        app = self.server
        assert isinstance(app, NotesPrinter)
        parts = urlsplit(self.path)
        if parts.path == "/cb":
            body = app.come_back(parts.query)
        else:
            body = f'<a href="{app.authorize_url()}">Connect my notes</a>'
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>Notes Printer</title><p>{body}</p>".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the app is not what is tested."""


@pytest.fixture
def app() -> Generator[NotesPrinter]:
    server = NotesPrinter()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def servers(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path, app: NotesPrinter
) -> Generator[Servers]:
    settings = Settings(
        authorization=AuthorizationSettings(database=database_url),
        features=(PortalSettings(who=Registrants.EVERYONE),),
    )
    if database_url.startswith("postgresql"):
        another = request.getfixturevalue("another_postgres_url")
        settings = replace(settings, resource=ResourceSettings(database=another))
    with Servers(tmp_path, settings=settings) as running:
        running.register_user("ada", _PASSWORD, uid=1001, name="Ada Lovelace")
        printer = ClientMetadata(
            "Notes Printer",
            redirect_uris=(f"{app.url}/cb",),
            scopes=("notes:read", "notes:write", "account:read"),
        )
        running.register_client(printer, "printer", _SECRET)
        app.auth, app.api = running.auth_url, running.api_url
        _write_a_note(running)
        yield running


@pytest.fixture
def page(browser: Browser) -> Generator[Page]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_user_lets_an_app_read_notes(servers: Servers, app: NotesPrinter, page: Page) -> None:
    page.goto(app.url)
    page.get_by_role("link", name="Connect my notes").click()

    expect(page.get_by_text("Notes Printer").first).to_be_visible()
    page.locator("#username").fill("ada")
    page.locator("#password").fill("not her password")
    page.locator("#sign-in").click()
    assert urlsplit(page.url).path == "/oauth/sign-in"
    expect(page.locator("#username")).to_have_value("ada")
    page.locator("#password").fill(_PASSWORD)
    page.locator("#sign-in").click()

    expect(page.get_by_text("read your notes")).to_be_visible()
    page.locator("input[name=scope][value='notes:write']").uncheck()
    page.locator("#allow").click()

    expect(page.get_by_text("Printing:")).to_be_visible()
    assert page.url.startswith(f"{app.url}/cb?code=")
    assert "Analytical Engine" in page.content()
    assert app.told["state"] == "a state of the app's own"
    assert app.told["iss"] == servers.auth_url
    assert app.tokens["scope"] == "notes:read account:read"
    assert app.tokens["uid"] == 1001

    # She allowed reading only.
    bearer = {"Authorization": f"Bearer {app.tokens['access_token']}"}
    refused = requests.post(
        f"{servers.api_url}/v2/notes", json={"title": "x"}, headers=bearer, timeout=60
    )
    assert refused.status_code == 403

    # The second time nobody asks her for what she allowed; the box she cleared is asked again.
    page.goto(app.authorize_url().replace("+notes%3Awrite", ""))
    expect(page.get_by_text("Printing:")).to_be_visible()

    # She signs out, and is asked to sign in again.
    page.goto(f"{servers.auth_url}/oauth/sign-out")
    page.locator("#sign-out").click()
    page.goto(app.authorize_url())
    expect(page.locator("#password")).to_be_visible()


def test_denied_consent_is_access_denied(servers: Servers, app: NotesPrinter, page: Page) -> None:
    page.goto(app.authorize_url())
    page.locator("#username").fill("ada@example.com")
    page.locator("#password").fill(_PASSWORD)
    page.locator("#sign-in").click()
    page.locator("#deny").click()
    expect(page.get_by_text("Sorry: access_denied")).to_be_visible()
    assert app.told["iss"] == servers.auth_url


def test_pages_work_by_keyboard_only(servers: Servers, app: NotesPrinter, browser: Browser) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    try:
        _allows_the_app_by_keyboard(page, app)
        _keeps_an_app_by_keyboard(page, servers)
        _suspends_a_user_by_keyboard(page, servers)
    finally:
        context.close()


def _allows_the_app_by_keyboard(page: Page, app: NotesPrinter) -> None:
    page.goto(app.authorize_url())
    _type(page, "#username", "ada")
    _type(page, "#password", _PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#allow")).to_be_visible()
    _tab_to(page, "input[name=scope][value='notes:write']")
    page.keyboard.press("Space")
    _press(page, "#allow")
    expect(page.get_by_text("Printing:")).to_be_visible()
    assert app.tokens["scope"] == "notes:read account:read"


def _keeps_an_app_by_keyboard(page: Page, servers: Servers) -> None:
    """Register an app, copy its secret, rotate it, and delete the app."""
    page.goto(f"{servers.auth_url}/developer")
    _follow(page, "main a.primary")
    _follow(page, ".kinds a[href$='kind=server']")
    _type(page, "[name=name]", "Keys")
    _type(page, "[name=redirect_uris]", "https://keys.example/cb")
    _follow(page, "#do")
    secret = page.locator("#client-secret").inner_text()
    _press(page, "[data-copy='client-secret']")
    expect(page.locator("[data-copy='client-secret']")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    _follow(page, "main a.primary")
    _follow(page, ".of-app a[href$='/secrets']")
    _skips_to_content(page)
    _follow(page, "#new-secret")
    assert page.locator("main code").first.inner_text() != secret
    at = page.url.split("/secrets")[0]
    page.goto(f"{at}/delete")
    _type(page, "main [name=name]", "Keys")
    _follow(page, "main button[type=submit]")
    gone = page.goto(at)
    assert gone is not None
    assert gone.status == 404


def _suspends_a_user_by_keyboard(page: Page, servers: Servers) -> None:
    """Find a user in the console, disable the account, and enable it again."""
    servers.register_user("bob", _PASSWORD, uid=1002)
    now = servers.clock.now()
    servers.write(lambda tx: tx.user_directory.set_role(Uid(1001), Role.OWNER, now))
    page.goto(f"{servers.auth_url}/admin/users")
    _skips_to_content(page)
    _type(page, "main [name=q]", "bob")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    _follow(page, "main tbody a")
    _follow(page, "#disable")
    _follow(page, "#do")
    expect(page.locator(".summary")).to_contain_text("Disabled")
    _follow(page, "#enable")
    _follow(page, "#do")
    expect(page.locator(".summary")).not_to_contain_text("Disabled")


def _skips_to_content(page: Page) -> None:
    """Load the page again; its first stop leads past the navigation."""
    page.reload()
    _press(page, ".skip")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def _type(page: Page, what: str, text: str) -> None:
    _tab_to(page, what)
    page.keyboard.type(text)


def _follow(page: Page, what: str) -> None:
    _tab_to(page, what)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def _press(page: Page, what: str) -> None:
    _tab_to(page, what)
    page.keyboard.press("Enter")


def _tab_to(page: Page, what: str) -> None:
    """Go there by the Tab key alone, if one is not there already; every stop shows the focus."""
    page.locator(what).first.wait_for(state="attached")
    for _ in range(90):
        if page.locator(f"{what}:focus").count():
            return
        page.keyboard.press("Tab")
        assert page.evaluate(_SHOWS_FOCUS), page.evaluate("document.activeElement.outerHTML")
    raise AssertionError(f"{what} cannot be reached")


def _write_a_note(servers: Servers) -> None:
    own = ClientMetadata("Notes", grant_types=("password",), scopes=("notes:write",))
    servers.register_client(own, "own", _SECRET)
    form = {"grant_type": "password", "username": "ada", "password": _PASSWORD}
    answer = requests.post(
        f"{servers.auth_url}/oauth/token", data=form, auth=("own", _SECRET), timeout=60
    )
    bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    note = {"title": "Analytical Engine", "text": "It weaves algebraical patterns."}
    made = requests.post(f"{servers.api_url}/v2/notes", json=note, headers=bearer, timeout=60)
    assert made.status_code == 201, made.text
    assert json.loads(made.text)["title"] == note["title"]
