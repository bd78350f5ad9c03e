"""Letters as people get them: in a demo's mailbox, by SMTP, and about new devices."""

import asyncio
from pathlib import Path

from tests.authorization.background.test_post import mail_settings
from tests.authorization.endpoints.mailed.post import (
    FIREFOX,
    OPEN,
    OTHER,
    WORD,
    asked_to_sign_up,
    browser,
    letters,
    only,
    proven,
    run,
    signed_in,
)
from tests.support.harness import Harness, harness
from tests.support.mail import links, mail_server, plain
from tests.support.plain_browser import Browser
from tests.support.wait import until
from valetkey.authorization.email.message import write
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.config.sections.people import MailSettings


def test_demo_mailbox_shows_emails_with_their_links(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        assert "No messages yet" in (await here.get("/mailbox")).body
        page = await asked_to_sign_up(it, here)
        assert 'href="/mailbox"' in page.body
        page = await here.get("/mailbox")
        assert "grace@example.com" in page.body
        (path,) = {part.split('"')[0] for part in page.body.split('href="/mailbox/')[1:]}
        page = await here.get(f"/mailbox/{path}")
        link = (await only(it, EmailKind.SIGN_UP)).values["link"]
        assert f'href="{link}"' in page.body
        for nowhere in ("x", "ml_1", "%00", "x" * 3_000):
            assert (await here.get(f"/mailbox/{nowhere}")).status in {400, 404}

    run(tmp_path, story)


def test_mailbox_page_is_off_by_default(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert (await browser(it).get("/mailbox")).status == 404

    run(tmp_path, story, mail=MailSettings())


def test_sign_up_with_a_link_delivered_over_smtp(tmp_path: Path) -> None:
    async def story(port: int) -> None:
        async with harness(tmp_path, mail=mail_settings(port), accounts=OPEN) as it:
            here = browser(it)
            await asked_to_sign_up(it, here)
            await until(lambda: receiver.took)
            (message,) = receiver.took
            (link,) = links(plain(message))
            page = await here.get(link.removeprefix(it.foundation.issuer))
            assert (await here.submit(page, "finish")).status == 303

    with mail_server() as receiver:
        asyncio.run(story(receiver.port))


async def enter(it: Harness, here: Browser) -> None:
    """Sign in, in this browser."""
    page = await here.get("/oauth/sign-in")
    action, fields = page.form("sign-in")
    form = {**fields, "username": ["ada"], "password": [WORD]}
    answer = await here.post(action, form, {"user-agent": FIREFOX})
    assert answer.status == 303


async def notices(it: Harness) -> int:
    """How many letters told of a new browser."""
    return [letter.kind for letter in await letters(it)].count(EmailKind.NEW_DEVICE)


def test_sign_in_from_a_new_browser_is_reported_by_email_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        it.clock.forward(60)
        here = browser(it)
        await enter(it, here)
        letter = await only(it, EmailKind.NEW_DEVICE)
        assert letter.to == "ada@example.com"
        assert (letter.values["browser"], letter.values["system"]) == ("Firefox", "Linux")
        assert letter.values["ip_address"] == here.address
        text = " ".join(write(letter, brand=Brand("Valetkey")).text.split())
        assert f"From: {here.address} · Firefox on Linux · {letter.values['time']}" in text
        assert letter.values["sessions"].endswith("/account/sessions")
        await here.submit(await here.get("/oauth/sign-out"), "sign-out")
        await enter(it, here)
        assert await notices(it) == 1
        await enter(it, browser(it))
        assert await notices(it) == 2

    run(tmp_path, story)


def test_forged_familiar_browser_cookie_does_not_suppress_the_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        it.clock.forward(60)
        here = browser(it)
        here.cookies["valetkey-familiar"] = "A" * 22 + "." + "B" * 43
        await enter(it, here)
        assert await notices(it) == 1

    run(tmp_path, story)


def test_sign_up_and_unverified_address_get_no_new_browser_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.password(WORD)
        it.clock.forward(60)
        await enter(it, browser(it))
        here = browser(it)
        await asked_to_sign_up(it, here)
        letter = await only(it, EmailKind.SIGN_UP)
        page = await here.get(letter.values["link"].removeprefix(it.foundation.issuer))
        await here.submit(page, "finish")
        assert await notices(it) == 0

    run(tmp_path, story)


def test_lg_19_password_change_is_reported_by_email_and_ends_reset_links(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        page = await here.get("/account/forgotten")
        await here.submit(page, "send", name="ada")
        reset = (await only(it, EmailKind.PASSWORD_RESET)).values["link"]
        page = await here.get("/account/security/password")
        await here.submit(page, "change", current=WORD, new=OTHER, again=OTHER)
        assert (await only(it, EmailKind.PASSWORD_CHANGED)).to == "ada@example.com"
        answer = await here.get(reset.removeprefix(it.foundation.issuer))
        assert answer.status == 410

    run(tmp_path, story)


def test_email_about_an_account_has_a_button_and_says_why_it_was_sent() -> None:
    removal = {"username": "ada", "days": "7", "sign_in": "https://id.example/oauth/sign-in"}
    role = {"username": "ada", "role": "owner", "console": "https://id.example/admin"}
    for kind, values, label in (
        (EmailKind.REMOVAL_PLANNED, removal, "Sign in and keep the account"),
        (EmailKind.ROLE_CHANGED, role, "Open administration"),
    ):
        written = write(Email(kind, "ada@example.com", "en", values), brand=Brand("Acme"))
        assert label in {paragraph.label for paragraph in written.paragraphs}
        note = "You receive this email because it concerns the Acme account ada."
        assert [paragraph.text for paragraph in written.paragraphs if paragraph.is_note] == [note]
        assert written.text.endswith(note)
    none = write(
        Email(EmailKind.ROLE_CHANGED, "ada@example.com", "en", {**role, "role": ""}),
        brand=Brand("Acme"),
    )
    assert not any(paragraph.is_address for paragraph in none.paragraphs)
    test = write(Email(EmailKind.TEST, "ada@example.com", "en"), brand=Brand("Acme"))
    assert not any(paragraph.is_note for paragraph in test.paragraphs)
