"""Somebody with a role, signed in at a whole server."""

from tests.authorization.endpoints.admin.people import confirmation
from tests.support.harness import ADA, Harness
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.model.user import Role

WORD = "a good long password"


async def administrator(it: Harness, role: Role | None = Role.OWNER) -> Browser:
    """Ada has this role, and has just entered administration in this browser."""
    await it.write(lambda tx: tx.user_directory.set_role(ADA, role, it.clock.now))
    await it.password(WORD)
    browser = Browser(it.app, host="localhost:8400", scheme="http")
    await browser.sign_in(await browser.get("/oauth/sign-in"), "ada", WORD)
    return browser


async def page(browser: Browser, path: str) -> Answer:
    """A page that is there."""
    answer = await browser.get(path)
    assert answer.status == 200, (path, answer.status, answer.location)
    return answer


async def do(browser: Browser, path: str, **typed: str | list[str]) -> Answer:
    """Ask at this address, and press the button."""
    form_page = await page(browser, path)
    return await browser.submit(form_page, "do", **{**confirmation(form_page), **typed})
