"""An administrator creates a user and an app in a real browser, and both work."""

from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.admin.tokens import FreshToken, WantedToken
from valetkey.authorization.model.user import Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.paths import keyring_path
from valetkey.config.sections.people import BrandField
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import create_or_read
from valetkey.kernel.moment import days
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret
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


def _names_by_keyboard(page: Page, name: str) -> None:
    """Open the section of the profile and fill in its first field, by keyboard alone."""
    page.locator("summary", has_text="Profile").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(name)
    page.click("#do")


def _edits_redirect_uri(page: Page, url: str) -> None:
    """Replace the redirect URI in its section of the form, by the rows of the list."""
    page.goto(url)
    page.click("summary:has-text('Sign-in and addresses')")
    page.fill("#redirect-uris-2", "http://localhost:1/other")
    page.click("button[value='redirect_uris/0']")
    expect(page.locator("#redirect-uris-1")).to_have_value("http://localhost:1/other")
    expect(page.locator("#redirect-uris-1")).to_be_focused()
    page.click("fieldset[data-rows=redirect_uris] button[name=add]")
    expect(page.locator("#redirect-uris-2")).to_be_focused()
    page.keyboard.type("http://localhost:1/more")
    assert page.input_value("#redirect-uris-2") == "http://localhost:1/more"
    page.fill("#redirect-uris-1", _CALLBACK)
    # The return key saves.
    page.keyboard.press("Enter")


def test_created_user_signs_in_to_created_app(
    tmp_path: Path, database_url: str, browser: Browser
) -> None:
    defaults = Settings()
    settings = replace(
        defaults, authorization=replace(defaults.authorization, database=database_url)
    )
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
        _names_by_keyboard(page, "Grace Brewster")
        assert "The profile is saved." in page.inner_text("main")

        page.goto(f"{url}/admin/clients/new?kind=browser")
        page.fill("#name", "Weather")
        page.fill("#redirect-uris-1", "http://localhost:1/old")
        page.click("#do")
        client_id = page.inner_text("#client-id").strip()
        _edits_redirect_uri(page, f"{url}/admin/clients/{client_id}/edit")
        expect(page.locator("main")).to_contain_text("The app is saved.")

        grace.route(f"{_CALLBACK}**", lambda route: route.fulfill(body="here"))
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": _CALLBACK,
            "scope": "openid",
            "state": "s",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "code_challenge_method": "S256",
        }
        here.goto(f"{url}/oauth/authorize?{urlencode(parameters)}")
        here.click("#allow")
        here.wait_for_url(f"{_CALLBACK}**")
        assert "code" in parse_qs(urlsplit(here.url).query)

        page.goto(f"{url}/admin/clients")
        page.check(f"input[value='{client_id}']")
        page.click("#selected button >> text=Disable app")
        page.click("#do")
        assert "Done" in page.inner_text("main")
        here.goto(f"{url}/oauth/authorize?{urlencode(parameters)}")
        assert not here.url.startswith(_CALLBACK)
        admin.close()
        grace.close()


def _logo(color: str, kind: str = "PNG", size: tuple[int, int] = (600, 120)) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, color).save(file, kind)
    return file.getvalue()


def test_brand_is_previewed_and_its_logos_are_uploaded(tmp_path: Path, browser: Browser) -> None:
    with Servers(tmp_path) as servers:
        olive = servers.register_user("olive", _PASSWORD)
        servers.write(
            lambda tx: tx.user_directory.set_role(olive.uid, Role.OWNER, servers.clock.now())
        )
        url = servers.auth_url
        for script in (True, False):
            page = browser.new_context(java_script_enabled=script).new_page()
            page.goto(f"{url}/admin")
            sign_in(page, "olive", _PASSWORD)
            page.goto(f"{url}/admin/settings/brand")
            page.fill("#name", "Northwind")
            page.fill("#accent", "#ffcc00")
            if not script:
                page.click("[name=preview]")
            preview = page.frame_locator("iframe >> nth=0")
            expect(preview.locator("header bdi")).to_have_text("Northwind")
            expect(preview.locator("#sign-in")).to_have_css("background-color", "rgb(255, 204, 0)")
            consent = page.frame_locator("iframe >> nth=1")
            expect(consent.locator("header bdi")).to_have_text("Northwind")
            text = page.inner_text("#preview")
            assert "too pale for links: contrast 1.5, 4.5 is needed" in text
            assert "Links in dark mode are easy to read" in text
            assert not servers.write(lambda tx: tx.brand.all()), "a preview is not saved"

        page = browser.new_context(color_scheme="dark").new_page()
        page.goto(f"{url}/admin")
        sign_in(page, "olive", _PASSWORD)
        page.goto(f"{url}/admin/settings/brand")
        for name, content, words in (
            ("logo.svg", b"\xef\xbb\xbf <svg xmlns='http://www.w3.org/2000/svg'/>", "SVG files"),
            ("logo.png", b"\x89PNG\r\n\x1a\n" + b"0" * 50, "not a picture"),
            ("logo.png", b"GIF89a<script>alert(1)</script>", "not a picture"),
            ("logo.png", _logo("red", size=(3000, 3000)), "too large"),
            ("logo.tiff", _logo("red", "TIFF"), "not a picture"),
        ):
            page.set_input_files(
                "#file-light", {"name": name, "mimeType": "image/png", "buffer": content}
            )
            page.click("#upload-light")
            assert words in page.inner_text("#file-light-fault")
        for mode, color in (("light", "red"), ("dark", "blue")):
            page.set_input_files(
                f"#file-{mode}", {"name": "x", "mimeType": "text/html", "buffer": _logo(color)}
            )
            page.click(f"#upload-{mode}")
            assert "Saved." in page.inner_text("main")
        brand = servers.write(lambda tx: tx.brand.all())
        assert len(brand) == 2
        page.reload()
        shown = page.locator("header .brand-logo")
        assert shown.evaluate("it => it.currentSrc").endswith(brand[BrandField.LOGO_DARK_URL])
        assert shown.evaluate("it => it.naturalWidth") == 480
        answer = page.request.get(url + brand[BrandField.LOGO_URL])
        assert answer.headers["content-type"] == "image/webp"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        page.click("#remove-dark")
        assert page.locator("#remove-dark").count() == 0
        assert page.request.get(url + brand[BrandField.LOGO_DARK_URL]).status == 404
        assert page.request.get(url + brand[BrandField.LOGO_URL]).status == 200


def test_admin_api_reference_sends_the_request_of_an_operation(
    tmp_path: Path, browser: Browser
) -> None:
    with Servers(tmp_path) as servers:
        olive = servers.register_user("olive", _PASSWORD)
        fresh = FreshToken("at_1", fresh_secret(Prefix.API_TOKEN, SYSTEM.random))
        wanted_token = WantedToken("A program", ("read", "people"), days(1), olive.uid)

        path = keyring_path(servers.settings)
        key = create_or_read(path, SYSTEM.random).fingerprint_key

        def prepare(tx: Transaction) -> None:
            now = servers.clock.now()
            tx.user_directory.set_role(olive.uid, Role.OWNER, now)
            tokens.issue(tx, CommandLine(), key, wanted_token, fresh, now)

        servers.write(prepare)
        page = browser.new_page()
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text))
        page.goto(f"{servers.auth_url}/admin/api/v1/")
        page.click("a[href='?operation=read_own_token']")
        for language in ("curl", "Python", "JavaScript"):
            assert page.locator("summary", has_text=language).count() == 1
        page.click("#do")
        expect(page.locator("[role=status][data-response]")).to_have_text("Enter a token first.")
        page.fill("#token", fresh.secret.reveal())
        page.click("#do")
        expect(page.locator("[role=status][data-response]")).to_contain_text("200")
        assert '"A program"' in page.inner_text("[data-answer]")
        assert errors == []
        page.goto(f"{servers.auth_url}/admin/api/v1/?operation=read_user")
        page.fill("#token", fresh.secret.reveal())
        page.fill("[name='path.uid']", str(olive.uid))
        page.click("#do")
        expect(page.locator("[role=status][data-response]")).to_contain_text("200")
        page.emulate_media(color_scheme="dark")
        page.goto(f"{servers.auth_url}/admin/api/v1/?operation=create_user")
        page.goto(f"{servers.auth_url}/admin/api/v1/")
        page.set_viewport_size({"width": 390, "height": 800})
        answer = page.goto(f"{servers.auth_url}/admin/api/v1/?operation=nothing")
        assert answer is not None
        assert answer.status == 404
