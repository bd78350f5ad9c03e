"""Ada secures her account in a real browser, and it lets nobody else in."""

import re
from base64 import b32decode
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

from valetkey.authorization.authentication.factors import PERIOD, code_at
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@contextmanager
def named(tmp_path: Path) -> Generator[Servers]:
    """A server that is called localhost: passkeys belong to names, not to numbers."""
    servers = Servers(tmp_path, with_resource=False)
    port = urlsplit(servers.auth_url).port
    settings = servers.settings
    url = f"http://localhost:{port}"
    servers.settings = replace(settings, authorization=replace(settings.authorization, url=url))
    with servers:
        servers.register_user("ada", _PASSWORD)
        yield servers


def device(page: Page) -> None:
    """Give the browser of this page a device that keeps passkeys, and whose person is there."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": _DEVICE})


def sign_in(page: Page, url: str) -> None:
    # Without script, so that the browser does not offer a passkey of its own accord.
    page.route(
        "**/passkey-*.js", lambda route: route.fulfill(body="", content_type="text/javascript")
    )
    page.goto(f"{url}/oauth/sign-in?to=/account/security")
    page.unroute("**/passkey-*.js")
    page.fill("#username", "ada")
    page.fill("#password", _PASSWORD)
    page.click("#sign-in")


def complaints(context: BrowserContext) -> list[str]:
    messages: list[str] = []
    context.on("console", lambda message: messages.append(message.text))
    context.on("weberror", lambda error: messages.append(str(error.error)))
    return messages


def heading(page: Page) -> str:
    return page.inner_text("h1")


def test_passkey_signs_in_alone_after_a_password_and_for_an_app(
    tmp_path: Path, browser: Browser
) -> None:
    with named(tmp_path) as servers:
        url = servers.auth_url
        context = browser.new_context()
        messages = complaints(context)
        page = context.new_page()
        device(page)
        sign_in(page, url)
        page.click("#add-passkey")
        page.fill("#name", "Ada’s laptop")
        page.click("#add")
        page.wait_for_selector("#codes")
        assert heading(page) == "Save your recovery codes"
        page.click("#done")
        assert "Ada’s laptop" in page.inner_text("main")
        # Alone, and nobody is asked for a name: the browser offers it, and this one takes it.
        context.clear_cookies()
        page.goto(f"{url}/oauth/sign-in?to=/account/security")
        page.wait_for_url(f"{url}/account/security")
        # After a password.
        context.clear_cookies()
        sign_in(page, url)
        assert heading(page) == "One more step"
        page.click("#passkey")
        page.wait_for_url(f"{url}/account/security")
        # For an app, which learns of it.
        back = "http://localhost:1/cb"
        metadata = ClientMetadata("Watcher", redirect_uris=(back,), scopes=("openid",))
        servers.register_client(metadata, "watcher", "w" * 40)
        context.clear_cookies()
        parameters = {
            "response_type": "code",
            "client_id": "watcher",
            "redirect_uri": back,
            "scope": "openid",
            "claims": '{"id_token":{"acr":{"essential":true,"value":"urn:valetkey:acr:passkey"}}}',
        }
        page.goto(f"{url}/oauth/authorize?{urlencode(parameters)}")
        page.wait_for_selector("#allow")
        assert not [message for message in messages if "favicon" not in message]
        context.close()


def test_authenticator_app_is_set_up_used_and_replaced_by_a_recovery_code(
    tmp_path: Path, browser: Browser
) -> None:
    with named(tmp_path) as servers:
        url = servers.auth_url
        context = browser.new_context()
        page = context.new_page()
        sign_in(page, url)
        page.click("#add-authenticator")
        key = b32decode(page.inner_text("#key").replace(" ", ""))
        page.fill("#code", code_at(key, SYSTEM.now() // PERIOD))
        page.click("#set-up")
        codes = re.findall(r"[A-Z2-9]{4}(?:-[A-Z2-9]{4}){2}", page.inner_text("#codes"))
        assert len(codes) == 10
        with page.expect_download() as kept:
            page.click("#download")
        assert codes[9] in kept.value.path().read_text()
        context.clear_cookies()
        sign_in(page, url)
        assert heading(page) == "One more step"
        # The code that set it up was used; the next one is as good, a moment early.
        page.fill("#code", code_at(key, SYSTEM.now() // PERIOD + 1))
        page.check("#remember-yes")
        page.click("#with-code")
        assert heading(page) == "Security"
        assert "This browser" in page.inner_text("main")
        context.clear_cookies(name=re.compile("session"))
        sign_in(page, url)
        assert heading(page) == "Security"
        # The phone is lost.
        context.clear_cookies()
        sign_in(page, url)
        page.click("summary")
        page.fill("#recovery", codes[3].lower())
        page.click("#with-recovery")
        assert heading(page) == "Security"
        assert "You have 9 codes left" in page.inner_text("main")
        context.close()
