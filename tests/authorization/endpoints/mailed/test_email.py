"""An account's address: nothing changes before the new one is proven; the old one can undo it."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.mailed.post import (
    OTHER,
    WORD,
    ada,
    browser,
    letters,
    link_of,
    may_sign_in,
    only,
    proven,
    run,
    signed_in,
)
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.actions.account.email_change import LIFETIME
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.authentication.session import PROOF_LASTS
from valetkey.authorization.email.notices import UNDO_LIFETIME
from valetkey.authorization.model.email import EmailKind
from valetkey.config.sections.people import MailSettings

NEW = "lovelace@example.com"


async def ask(here: Browser, email: str = NEW) -> Answer:
    """Ask for another address."""
    return await here.submit(await here.get("/account/email"), "change", email=email)


async def changed(it: Harness, here: Browser, email: str = NEW) -> None:
    """Ask for it, and prove it."""
    assert (await ask(here, email)).status == 200
    (letter,) = [
        message
        for message in await letters(it)
        if message.to == email and message.kind is EmailKind.EMAIL_CHANGE
    ]
    there = browser(it)
    answer = await there.submit(await there.get(link_of(letter)), "confirm")
    assert answer.status == 200, answer.body


def test_email_changes_only_after_the_new_one_is_verified(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        answer = await ask(here)
        assert "We sent an email to" in answer.body
        assert (await ada(it)).email == "ada@example.com"
        letter = await only(it, EmailKind.EMAIL_CHANGE)
        assert letter.to == NEW
        there = browser(it)
        page = await there.get(link_of(letter))
        assert (await ada(it)).email == "ada@example.com"
        answers = await asyncio.gather(*(there.submit(page, "confirm") for _ in range(64)))
        assert [answer.status for answer in answers].count(200) == 1
        assert {answer.status for answer in answers} == {200, 410}
        user = await ada(it)
        assert (user.email, user.email_verified_at) == (NEW, it.clock.now)
        assert (await only(it, EmailKind.EMAIL_CHANGED)).to == "ada@example.com"
        assert (await here.get("/account/sessions")).status == 200

    run(tmp_path, story, database_url)


def test_undo_restores_the_email_and_invalidates_password_and_sessions(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        thief = await signed_in(it)
        await changed(it, thief)
        letter = await only(it, EmailKind.EMAIL_CHANGED)
        it.clock.forward(UNDO_LIFETIME - 60)
        here = browser(it)
        page = await here.get(link_of(letter))
        assert (await ada(it)).email == NEW
        answer = await here.submit(page, "confirm")
        assert answer.status == 303
        assert (await ada(it)).email == "ada@example.com"
        assert (await thief.get("/account/sessions")).status == 303
        assert not await may_sign_in(it, WORD)
        page = await here.follow(answer)
        assert (await here.submit(page, "change", new=OTHER)).status == 200
        assert await may_sign_in(it, OTHER)
        assert (await here.get(link_of(letter))).status == 410
        assert "email.restored" in await it.events()

    run(tmp_path, story, database_url)


def test_second_email_change_within_a_week_is_refused(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        thief = await signed_in(it)
        assert (await ask(thief, "second@evil.example")).status == 200
        later = await only(it, EmailKind.EMAIL_CHANGE)
        await changed(it, thief, "first@evil.example")
        # Neither by a link that was asked for before, nor by asking now.
        assert (await browser(it).get(link_of(later))).status == 410
        answer = await ask(thief, "third@evil.example")
        assert answer.status == 400
        assert "less than a week ago" in answer.body
        await changed_back(it)
        assert (await ada(it)).email == "ada@example.com"

    run(tmp_path, story)


async def changed_back(it: Harness) -> None:
    """The old address takes it back."""
    here = browser(it)
    page = await here.get(link_of(await only(it, EmailKind.EMAIL_CHANGED)))
    assert (await here.submit(page, "confirm")).status == 303


def test_email_change_link_is_invalid_after_its_session_ends(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        thief = await signed_in(it)
        await ask(thief)
        await thief.submit(await thief.get("/oauth/sign-out"), "sign-out")
        link = link_of(await only(it, EmailKind.EMAIL_CHANGE))
        assert (await browser(it).get(link)).status == 410

    run(tmp_path, story)


def test_email_change_link_expires_after_its_lifetime(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        await ask(here)
        link = link_of(await only(it, EmailKind.EMAIL_CHANGE))
        it.clock.forward(LIFETIME - 3_600)
        assert (await browser(it).get(link)).status == 200
        it.clock.forward(3_600)
        assert (await browser(it).get(link)).status == 410

    run(tmp_path, story)


def test_taken_address_gets_the_same_response_and_its_owner_an_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        free = await ask(here)
        accounts, record = it.foundation.accounts(), UserRecord("bob", "bob@example.com")
        await it.write(lambda tx: accounts.register(tx, record, it.clock.now))
        taken = await ask(here, "Bob@example.com")
        assert free.body.replace(NEW, "Bob@example.com") == taken.body
        assert (await only(it, EmailKind.SIGN_UP_TAKEN)).to == "bob@example.com"

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("email", "says"),
    [
        ("", "cannot be delivered"),
        ("x", "cannot be delivered"),
        ("ADA@example.com", "already your email address"),
        ("a@b.example, c@d.example", "cannot be delivered"),
        ("a" * 10_240, "cannot be delivered"),
    ],
)
def test_invalid_new_address_is_refused(tmp_path: Path, email: str, says: str) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        answer = await ask(await signed_in(it), email)
        assert answer.status == 400
        assert says in answer.body
        assert await letters(it) == []

    run(tmp_path, story)


def test_lg_25_a_line_break_in_a_new_address_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        answer = await ask(await signed_in(it), "a@b.example\r\nBcc: x@evil.example")
        assert answer.status == 400
        assert await letters(it) == []

    run(tmp_path, story)


def test_email_change_requires_recent_authentication(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        page = await here.get("/account/email")
        it.clock.forward(PROOF_LASTS + 1)
        answer = await here.submit(page, "change", email=NEW)
        assert answer.location == "/account/confirm?to=/account/email&repeat=yes"
        assert await letters(it) == []
        assert (await here.get("/account/email")).status == 303
        page = await here.follow(answer)
        await here.submit(page, "confirm", password=WORD)
        assert (await ask(here)).status == 200

    run(tmp_path, story)


def test_page_redirects_to_sign_in_without_a_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await browser(it).get("/account/email")
        assert answer.location.startswith("/oauth/sign-in")

    run(tmp_path, story)


def test_unverified_address_is_verified_by_its_link(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.password(WORD)
        here = await signed_in(it)
        page = await here.get("/account/email")
        assert "Not verified" in page.body
        assert (await here.submit(page, "verify", verify="1")).status == 200
        assert (await ada(it)).email_verified_at is None
        link = link_of(await only(it, EmailKind.VERIFY_EMAIL))
        page = await here.get(link)
        assert (await ada(it)).email_verified_at is None
        assert (await here.submit(page, "confirm")).status == 200
        assert (await ada(it)).email_verified_at == NOON
        assert (await here.submit(page, "confirm")).status == 410
        assert "Not verified" not in (await here.get("/account/email")).body

    run(tmp_path, story)


def test_email_change_is_unavailable_when_mail_is_off(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.password(WORD)
        here = await signed_in(it)
        page = await here.get("/account/email")
        assert "does not send email" in page.body
        assert 'id="change"' not in page.body

    run(tmp_path, story, mail=MailSettings())
