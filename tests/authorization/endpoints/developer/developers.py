"""Developers at work: forms filled in, buttons pressed, what is registered in the end."""

import re
from collections.abc import Mapping
from html import unescape

from tests.authorization.endpoints.account.people import signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.model.client import Client, Membership, TeamRole
from valetkey.authorization.model.user import User

CALLBACK = "https://app.example/callback"
WEB_APP: Mapping[str, str | list[str]] = {
    "name": "Printer",
    "redirect_uris": CALLBACK,
    "scopes": ["openid", "notes:read"],
}


async def join(it: Harness, client_id: str, user: User, role: TeamRole = TeamRole.OWNER) -> None:
    """Put them into the team."""
    membership = Membership(client_id, user.uid, role, it.clock.now)
    assert await it.store.write(lambda tx: tx.members.add(membership))


async def registered(
    it: Harness, browser: Browser, kind: str = "server", **fields: str | list[str]
) -> tuple[Client, Answer]:
    """An app of this kind, and the page that says so."""
    form = await browser.get("/developer/new", kind=kind)
    values = {**WEB_APP, **fields} if kind != "machine" else {"name": "Robot", **fields}
    client_id = form.form("do")[1]["client_id"][0]
    page = await browser.submit(form, "do", **values)
    assert page.status == 200, page.body
    return await found(it, client_id), page


async def found(it: Harness, client_id: str) -> Client:
    """The app as it is registered now."""
    client = await it.store.read(lambda tx: tx.clients.find(client_id))
    assert client is not None
    return client


async def developer(it: Harness, name: str = "alice") -> Browser:
    """A browser in which they are signed in."""
    return await signed_in(it, name)


def text_of(page: Answer) -> str:
    """What the page says, without its tags, with single spaces."""
    main = page.body.partition("<main>")[2] or page.body
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


def shown(page: Answer, id: str) -> str:
    """What the element of that id holds."""
    match = re.search(rf'<code id="{id}">(.*?)</code>', page.body, re.DOTALL)
    assert match is not None, page.body
    return unescape(re.sub(r"</?span[^>]*>", "", match[1]))
