"""People with second factors: how they get them, and how they show them."""

import re
from base64 import b32decode
from html import unescape

from tests.authorization.endpoints.account.people import signed_in
from tests.support.authenticator import SoftAuthenticator
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from valetkey.authorization.authentication.factors import PERIOD, code_at

CODE = re.compile(r"[A-Z2-9]{4}-[A-Z2-9]{4}-[A-Z2-9]{4}")


def options(page: Answer) -> str:
    """What the page asks the browser to do with a passkey."""
    match = re.search(r'data-options="([^"]*)"', page.body)
    assert match is not None, page.body
    return unescape(match[1])


def key_of(page: Answer) -> bytes:
    """The secret that the page shows for an authenticator app."""
    match = re.search(r'<code id="key"[^>]*>([A-Z2-7 ]+)<', page.body)
    assert match is not None, page.body
    return b32decode(match[1].replace(" ", ""))


def code(it: Harness, key: bytes, off: int = 0) -> str:
    """What the app shows now, or so many steps away."""
    return code_at(key, it.clock.now // PERIOD + off)


async def with_app(it: Harness, name: str = "alice") -> tuple[Browser, bytes, list[str]]:
    """A browser of somebody who has just set up an app, its secret, and the recovery codes."""
    browser = await signed_in(it, name)
    page = await browser.get("/account/security/authenticator/new")
    key = key_of(page)
    done = await browser.submit(page, "set-up", code=code(it, key))
    codes = CODE.findall(done.body)
    assert len(codes) == 10, done.body
    it.clock.forward(PERIOD)
    return browser, key, codes


async def with_passkey(it: Harness, name: str = "alice") -> tuple[Browser, SoftAuthenticator]:
    """A browser of somebody who has just added a passkey, and the device that has it."""
    browser, device = await signed_in(it, name), SoftAuthenticator()
    page = await browser.get("/account/security/passkeys/new")
    made = device.create(options(page))
    done = await browser.submit(page, "add", name="Laptop", credential=made)
    assert done.status in {200, 303}, done.body
    return browser, device


async def after_password(it: Harness, browser: Browser | None = None, **query: str) -> Answer:
    """The page of the second step."""
    browser = browser or it.browser()
    page = await browser.get("/oauth/sign-in", **query)
    return await browser.follow(
        await browser.submit(page, "sign-in", username="alice", password=PASSWORD)
    )
