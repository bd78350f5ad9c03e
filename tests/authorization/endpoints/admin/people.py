"""People with roles, in browsers in which they may administer."""

import re
from html import unescape

from tests.authorization.endpoints.account.people import signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE
from valetkey.authorization.model.user import Role, User


async def give(it: Harness, role: Role | None, user: User = ALICE) -> None:
    """Let them have this role, whoever says so."""
    now = it.clock.now
    assert await it.store.write(lambda tx: tx.user_directory.set_role(user.uid, role, now))


async def administrator(it: Harness, role: Role = Role.OWNER, user: User = ALICE) -> Browser:
    """A browser in which they just signed in and entered administration."""
    await give(it, role, user)
    browser = await signed_in(it, user.username)
    page = await browser.get("/admin")
    assert page.status == 200, page.body
    return browser


async def do(browser: Browser, path: str, **typed: str) -> Answer:
    """Ask at this address, and press the button."""
    page = await browser.get(path)
    assert page.status == 200, (path, page.status, page.location)
    return await browser.submit(page, "do", **{**confirmation(page), **typed})


def confirmation(page: Answer) -> dict[str, str]:
    """The name that a page asks to type, if it does."""
    shown = re.search(r'name="confirms" value="([^"]*)"', page.body)
    return {"confirmation": unescape(shown[1])} if shown else {}
