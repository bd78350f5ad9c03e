"""The whole server with a mailbox, people who read their letters, and browsers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.harness import ADA, Harness, harness
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import AccountSettings, MailSettings, MailTransport, SignUpMode

WORD = "a good long password"
OTHER = "nine violet kettles"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
BOX = MailSettings(transport=MailTransport.MAILBOX)
OPEN = AccountSettings(sign_up=SignUpMode.OPEN)


def browser(it: Harness) -> Browser:
    """Somebody's."""
    return Browser(it.app, host="localhost:8400", scheme="http")


async def letters(it: Harness) -> list[Email]:
    """Everything that was written, newest first."""
    outbox, now = it.foundation.outbox, it.clock.now
    kept = await it.read(lambda tx: tx.mails.for_mailbox(now, 99))
    emails = [outbox.open(mail) for mail in kept]
    return [letter for letter in emails if letter is not None]


async def only(it: Harness, kind: EmailKind) -> Email:
    """The one letter of this kind."""
    (email,) = [letter for letter in await letters(it) if letter.kind is kind]
    return email


def link_of(letter: Email) -> str:
    """The link in it, as a path of the server."""
    parts = urlsplit(letter.values["link"])
    return f"{parts.path}?{parts.query}"


async def ada(it: Harness) -> User:
    """The account as it is."""
    user = await it.read(lambda tx: tx.users.find(ADA))
    assert user is not None
    return user


async def proven(it: Harness) -> None:
    """Ada has a password, and an address that is known to be hers."""
    await it.password(WORD)
    record = UserRecord("ada", "ada@example.com", "Ada", email_verified=True)

    def work(tx: Transaction) -> None:
        user = tx.users.find(ADA)
        assert user is not None
        assert isinstance(it.foundation.accounts().change(tx, user, record, it.clock.now), User)

    await it.foundation.store.write(work, done_by=by_user(ADA))


async def signed_in(it: Harness, word: str = WORD, name: str = "ada") -> Browser:
    """A browser in which she is."""
    here = browser(it)
    page = await here.get("/oauth/sign-in")
    answer = await here.submit(page, "sign-in", username=name, password=word)
    assert answer.status == 303, answer.body
    return here


async def may_sign_in(it: Harness, word: str, name: str = "ada") -> bool:
    """Whether this password opens the account."""
    here = browser(it)
    page = await here.get("/oauth/sign-in")
    return (await here.submit(page, "sign-in", username=name, password=word)).status == 303


async def asked_to_sign_up(it: Harness, here: Browser, **typed: str) -> Answer:
    """The form, filled in."""
    usual = {"username": "grace", "email": "grace@example.com", "name": "Grace", "new": OTHER}
    page = await here.get("/account/new")
    return await here.submit(page, "create", **{**usual, **typed})


def run(
    folder: Path, story: Callable[[Harness], Awaitable[None]], database: str = "", **more: Any
) -> None:
    """Tell a story; `more` replaces groups of settings."""
    how: dict[str, Any] = {"mail": BOX, "accounts": OPEN, **more}

    async def tell() -> None:
        async with harness(folder, database, **how) as it:
            await story(it)

    asyncio.run(tell())
