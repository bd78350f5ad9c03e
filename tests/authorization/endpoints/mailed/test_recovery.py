"""Another password for who forgot theirs: once, for 20 minutes, and nobody learns who is here."""

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
from tests.support.harness import ADA, Harness
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.actions.account.passwords import LIFETIME
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.replace import replace
from valetkey.testing.server import QUICK_PASSWORDS


async def ask(it: Harness, name: str = "ada", here: Browser | None = None) -> Answer:
    """Say that one forgot the password."""
    here = here or browser(it)
    page = await here.get("/account/forgotten")
    return await here.submit(page, "send", name=name)


async def link(it: Harness) -> str:
    """The link that a question brought."""
    await ask(it)
    return link_of(await only(it, EmailKind.PASSWORD_RESET))


def test_mf_09_reset_link_changes_the_password_once_and_ends_sessions(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        elsewhere = await signed_in(it)
        here = browser(it)
        assert "/account/forgotten" in (await here.get("/oauth/sign-in")).body
        where = await link(it)
        page = await here.get(where)
        assert page.header("referrer-policy") == "no-referrer"
        assert page.header("cache-control") == "no-store"
        assert 'value="ada"' in page.body
        done = await here.submit(page, "change", new=OTHER)
        assert done.status == 200
        assert "Your password was changed" in done.body
        assert await may_sign_in(it, OTHER)
        assert not await may_sign_in(it, WORD)
        assert (await elsewhere.get("/account/sessions")).status == 303
        assert (await here.get(where)).status == 410
        assert (await here.submit(page, "change", new=WORD)).status == 410
        assert (await only(it, EmailKind.PASSWORD_CHANGED)).to == "ada@example.com"
        assert "password_reset.requested" in await it.events()

    run(tmp_path, story, database_url)


def test_mf_09_parallel_uses_of_a_reset_link_succeed_once(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        page = await here.get(await link(it))
        words = [f"{number} violet kettles" for number in range(64)]
        answers = await asyncio.gather(*(here.submit(page, "change", new=word) for word in words))
        assert sorted(answer.status for answer in answers) == [200] + [410] * 63
        winner = [answer.status for answer in answers].index(200)
        assert await may_sign_in(it, words[winner])
        assert (await it.events()).count("password.changed") == 1

    # Every hash may wait: it is the link that is fought for.
    run(tmp_path, story, database_url, passwords=replace(QUICK_PASSWORDS, queue=100))


def test_mf_09_reset_link_expires_after_20_minutes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        where = await link(it)
        page = await here.get(where)
        it.clock.forward(LIFETIME - 1)
        assert (await here.get(where)).status == 200
        it.clock.forward(1)
        assert (await here.get(where)).status == 410
        assert (await here.submit(page, "change", new=OTHER)).status == 410
        assert await may_sign_in(it, WORD)

    run(tmp_path, story)


def test_mf_09_reset_link_ends_with_a_change_of_password_or_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        page = await here.get(await link(it))
        await it.password(OTHER)
        assert (await here.submit(page, "change", new="a third password")).status == 410
        it.clock.forward(1)
        await ask(it)
        fresh = link_of((await letters(it))[0])
        page = await here.get(fresh)
        record = UserRecord("ada", "lovelace@example.com", "Ada")

        def work(tx: Transaction) -> None:
            user = tx.users.find(ADA)
            assert user is not None
            assert isinstance(it.foundation.accounts().change(tx, user, record, 1), User)  # type: ignore[arg-type]

        await it.write(work)
        assert (await here.submit(page, "change", new="a third password")).status == 410

    run(tmp_path, story)


def test_mf_09_reset_link_is_bound_to_its_account_and_purpose(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        where = await link(it)
        other = where.replace("/account/reset", "/account/email/verify")
        assert (await here.get(other)).status == 410
        page = await here.get(where)
        action, fields = page.form("change")
        assert action == "/account/reset"
        # The account is named by the link alone: nothing in the form says whose it is.
        answer = await here.post(action, {**fields, "new": OTHER, "uid": "1", "username": "bob"})
        assert answer.status == 200
        assert await may_sign_in(it, OTHER)

    run(tmp_path, story)


def test_mf_07_reset_email_is_sent_only_to_the_address_of_the_account(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        action, fields = (await here.get("/account/forgotten")).form("send")
        more = {"email": "x@evil.example", "to": "x@evil.example", "name": "ada"}
        assert (await here.post(action, {**fields, **more})).status == 200
        assert {letter.to for letter in await letters(it)} == {"ada@example.com"}

    run(tmp_path, story)


@pytest.mark.parametrize(
    "name", ["nobody", "nobody@example.com", "x" * 9_000, "\u202e", "ada\u200b", "' OR 1=1 --"]
)
def test_unknown_user_gets_the_same_response(tmp_path: Path, name: str) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        known, unknown = await ask(it, here=here), await ask(it, name, here)
        assert (known.status, unknown.status) == (200, 200)
        same = zip(known.body.splitlines(), unknown.body.splitlines(), strict=True)
        # The sentence, and the form that sends it again.
        assert sum(one != other for one, other in same) <= 2
        assert len(await letters(it)) == 1
        # As much is written for nobody as for somebody.
        rows = await it.read(lambda tx: tx.db.row("SELECT count(*) FROM outbox"))
        assert rows is not None
        assert rows[0] == 2

    run(tmp_path, story)


def test_unverified_address_gets_no_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.password(WORD)
        assert (await ask(it)).status == 200
        assert await letters(it) == []

    run(tmp_path, story)


def test_disabled_account_gets_no_email_and_its_link_fails(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        where = await link(it)
        accounts, user = it.foundation.accounts(), await ada(it)
        await it.write(lambda tx: accounts.disable(tx, user, it.clock.now))
        assert (await browser(it).get(where)).status == 410
        await ask(it)
        assert len(await letters(it)) == 1

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ("short", "at least 8"),
        ("password1", "This password is too common. Use several unrelated words"),
        ("ada@example.com", "must not be your username"),
        ("\x00" * 9, "The password is too long or contains characters that are not allowed"),
    ],
)
def test_refused_new_password_does_not_use_up_the_link(tmp_path: Path, new: str, says: str) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        page = await here.get(await link(it))
        answer = await here.submit(page, "change", new=new)
        assert answer.status == 400
        assert says in answer.body
        assert (await here.submit(answer, "change", new=OTHER)).status == 200

    run(tmp_path, story)


def test_recovery_emails_are_limited(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        for _ in range(8):
            assert (await ask(it)).status == 200
        assert len(await letters(it)) == 5

    run(tmp_path, story)


def test_recovery_requests_per_address_are_limited(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        answers = [await ask(it, f"n{n}", here) for n in range(31)]
        assert {answer.status for answer in answers[:-1]} == {200}
        assert answers[-1].status == 429
        assert answers[-1].header("retry-after")

    run(tmp_path, story)


def test_lg_03_get_head_and_foreign_forms_change_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        where = await link(it)
        page = await here.get(where)
        assert (await here.send("HEAD", where)).status == 200
        action, fields = page.form("change")
        sent: dict[str, str | list[str]] = {**fields, "new": OTHER}
        assert (await browser(it).post(action, sent)).status == 403
        evil = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        assert (await here.post(action, sent, evil)).status == 403
        without = {name: value for name, value in sent.items() if name != "csrf"}
        assert (await here.post(action, without)).status == 403
        assert await may_sign_in(it, WORD)
        answer = await here.post("/account/forgotten", {"name": "ada"})
        assert answer.status == 403

    run(tmp_path, story)


def test_password_reset_is_unavailable_when_mail_is_off(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        page = await browser(it).get("/account/forgotten")
        assert "does not send email" in page.body
        assert 'name="name"' not in page.body

    run(tmp_path, story, mail=MailSettings())


@pytest.mark.parametrize(("name", "emails"), [("ada", 2), ("nobody", 0)])
def test_resending_the_link_has_the_same_response_for_unknown_users(
    tmp_path: Path, name: str, emails: int
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        page = await ask(it, name, here)
        again = await here.submit(page, "resend")
        assert again.status == 200
        assert "We sent the email again." in again.body
        resets = [letter for letter in await letters(it) if letter.kind is EmailKind.PASSWORD_RESET]
        assert len(resets) == emails

    run(tmp_path, story)
