"""An administrator creates a user and an app in a real browser, and both work."""

from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Browser, Page

from valetkey.authorization.model.account.user import Role
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_WORD = "nine violet kettles"
_CALLBACK = "http://localhost:3000/callback"
_MOST_TABS = 80


def sign_in(page: Page, name: str, password: str) -> None:
    page.fill("#username", name)
    page.fill("#password", password)
    page.click("#sign-in")


def tab_to(page: Page, id: str) -> None:
    """Press Tab until the element has the focus, as someone without a mouse does."""
    for _ in range(_MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == id:
            return
    raise AssertionError(f"{id} cannot be reached by Tab")


def created_by_keyboard(page: Page) -> str:
    """Create Grace without a mouse; return her link."""
    tab_to(page, "new")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/users/new")
    for field, text in (("username", "grace"), ("email", "grace@example.com"), ("name", "Grace")):
        tab_to(page, field)
        page.keyboard.type(text)
    tab_to(page, "password-link")
    page.keyboard.type("Show")
    tab_to(page, "do")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts #password-link")
    return page.inner_text(".facts #password-link").strip()


def test_created_user_signs_in_to_created_app(
    tmp_path: Path, database_url: str, browser: Browser
) -> None:
    given = Settings()
    settings = replace(given, authorization=replace(given.authorization, database=database_url))
    with Servers(tmp_path, settings=settings) as servers:
        olive = servers.register_user("olive", _PASSWORD)
        servers.write(
            lambda tx: tx.user_directory.set_role(olive.uid, Role.OWNER, servers.clock.now())
        )
        url = servers.auth_url
        admin, grace = browser.new_context(), browser.new_context()
        page, here = admin.new_page(), grace.new_page()
        page.goto(f"{url}/admin")
        sign_in(page, "olive", _PASSWORD)
        page.goto(f"{url}/admin/users")
        link = created_by_keyboard(page)

        here.goto(link)
        here.fill("#new", _WORD)
        assert here.inner_text("h1") == "Set your password"
        here.click("#change")
        here.goto(f"{url}/oauth/sign-in")
        sign_in(here, "grace", _WORD)
        assert "Grace" in here.inner_text("h1")

        page.goto(f"{url}/admin/users?q=grace")
        page.click("th[scope=row] a")
        page.click("#edit")
        page.fill("[name=given_name]", "Grace Brewster")
        page.click("#do")
        assert "The profile is saved." in page.inner_text("main")

        page.goto(f"{url}/admin/clients/new?kind=browser")
        page.fill("#name", "Weather")
        page.fill("#redirect-uri-0", "http://localhost:1/old")
        page.click("main form.app-form button.primary")
        client_id = page.inner_text("#client-id").strip()
        page.goto(f"{url}/admin/clients/{client_id}/edit")
        page.fill("[name=redirect_uris]", _CALLBACK)
        page.click("#do")
        assert "The app is saved." in page.inner_text("main")

        grace.route(f"{_CALLBACK}**", lambda route: route.fulfill(body="here"))
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": _CALLBACK,
            "scope": "openid",
            "state": "s",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "code_challenge_method": "S256",
        }
        here.goto(f"{url}/oauth/authorize?{urlencode(asked)}")
        here.click("#allow")
        here.wait_for_url(f"{_CALLBACK}**")
        assert "code" in parse_qs(urlsplit(here.url).query)

        page.goto(f"{url}/admin/clients")
        page.check(f"input[value='{client_id}']")
        page.click("#selected button >> text=Disable app")
        page.click("#do")
        assert "Done" in page.inner_text("main")
        here.goto(f"{url}/oauth/authorize?{urlencode(asked)}")
        assert not here.url.startswith(_CALLBACK)
        admin.close()
        grace.close()
