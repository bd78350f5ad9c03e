"""Sign-up: an account comes to be by a link in a letter, and nobody learns who has one."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.authorization.endpoints.mailed.post import (
    OTHER,
    asked_to_sign_up,
    browser,
    letters,
    link_of,
    may_sign_in,
    only,
    proven,
    run,
)
from tests.support.cases import case
from tests.support.harness import Harness
from tests.support.plain_browser import usual
from valetkey.authorization.actions.account.sign_up import LIFETIME, SENT_AGAIN
from valetkey.authorization.model.email import EmailKind
from valetkey.config.sections.people import AccountSettings, MailSettings, SignUpMode


def test_account_is_created_and_signed_in_when_its_link_is_confirmed(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        page = await here.get("/oauth/sign-in")
        assert 'href="/account/new"' in page.body
        answer = await asked_to_sign_up(it, here)
        assert answer.status == 200
        assert "Check your email" in answer.body
        assert await it.read(lambda tx: tx.users.find_by_name("grace")) is None
        letter = await only(it, EmailKind.SIGN_UP)
        assert letter.to == "grace@example.com"
        # Whoever writes to a stranger's address through us says nothing of their own.
        assert set(letter.values) == {"link"}
        page = await here.get(link_of(letter))
        assert await it.read(lambda tx: tx.users.find_by_name("grace")) is None
        answer = await here.submit(page, "finish")
        assert answer.status == 303
        user = await it.read(lambda tx: tx.users.find_by_name("grace@example.com"))
        assert user is not None
        assert user.email_verified_at == it.clock.now
        assert user.name == "Grace"
        assert "Grace" in (await here.follow(answer)).body
        assert await may_sign_in(it, OTHER, "grace")
        assert (await here.get(link_of(letter))).status == 410

    run(tmp_path, story, database_url)


def test_authorization_request_continues_after_sign_up(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web1")
        here = browser(it)
        page = await here.follow(await here.get("/oauth/authorize", **usual(scope="notes:read")))
        (way,) = {part.split('"')[0] for part in page.body.split('href="/account/new')[1:]}
        page = await here.get(f"/account/new{way}".replace("&amp;", "&"))
        assert "to continue to" in page.body
        typed = {"username": "grace", "email": "g@example.com", "name": "", "new": OTHER}
        await here.submit(page, "create", **typed)
        page = await here.get(link_of(await only(it, EmailKind.SIGN_UP)))
        page = await here.follow(await here.submit(page, "finish"))
        assert "allow" in page.body
        answer = await here.allow(page)
        assert answer.told["code"]

    run(tmp_path, story)


def test_64_parallel_uses_of_one_link_create_one_account(database_url: str, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        await asked_to_sign_up(it, here)
        page = await here.get(link_of(await only(it, EmailKind.SIGN_UP)))
        answers = await asyncio.gather(*(here.submit(page, "finish") for _ in range(64)))
        assert sorted({answer.status for answer in answers}) == [303, 410]
        assert [answer.status for answer in answers].count(303) == 1

    run(tmp_path, story, database_url)


def test_sign_up_link_in_another_browser_requires_the_password(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await asked_to_sign_up(it, browser(it))
        there = browser(it)
        page = await there.get(link_of(await only(it, EmailKind.SIGN_UP)))
        answer = await there.submit(page, "finish", password="not hers at all")
        assert answer.status == 401
        assert "Incorrect password" in answer.body
        assert await it.read(lambda tx: tx.users.find_by_name("grace")) is None
        for _ in range(9):
            await there.submit(page, "finish", password="not hers at all")
        answer = await there.submit(page, "finish", password=OTHER)
        assert answer.status == 429
        assert int(answer.header("retry-after")) > 0
        it.clock.forward(3_600)
        assert (await there.submit(page, "finish", password=OTHER)).status == 303

    run(tmp_path, story)


def test_link_expires_after_a_day(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        await asked_to_sign_up(it, here)
        link = link_of(await only(it, EmailKind.SIGN_UP))
        page = await here.get(link)
        it.clock.forward(LIFETIME)
        assert (await here.get(link)).status == 410
        assert (await here.submit(page, "finish")).status == 410

    run(tmp_path, story)


def test_registered_address_gets_the_same_response_and_its_owner_an_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        free = await asked_to_sign_up(it, here)
        taken = await asked_to_sign_up(it, here, email="Ada@Example.com", username="somebody")
        assert (free.status, taken.status) == (200, 200)
        sealed = re.compile(r'(?<=name="again" value=")[^"]+')
        bodies = [sealed.sub("", page.body) for page in (free, taken)]
        assert bodies[0] != free.body
        assert bodies[0].replace("grace@example.com", "Ada@Example.com") == bodies[1]
        letter = await only(it, EmailKind.SIGN_UP_TAKEN)
        assert letter.to == "ada@example.com"
        assert "link" not in letter.values

    run(tmp_path, story)


_INVALID_SIGN_UPS: tuple[tuple[dict[str, str], str, str], ...] = (
    ({"username": ""}, "username", "Enter a username"),
    ({"username": "a b"}, "username", "3 to 40"),
    ({"username": "x@y.example"}, "username", "3 to 40"),
    ({"username": "ｇｒａｃｅ"}, "username", "3 to 40"),
    ({"username": "gr\u0430ce"}, "username", "3 to 40"),
    ({"username": "g" * 9_000}, "username", "3 to 40"),
    ({"username": "ADA"}, "username", "This username is already taken"),
    ({"username": "Support"}, "username", "This username is already taken"),
    ({"email": ""}, "email", "Enter your email address"),
    ({"email": "grace"}, "email", "Email cannot be delivered"),
    ({"email": "grace@localhost"}, "email", "Email cannot be delivered"),
    ({"email": "a@b.example, c@d.example"}, "email", "Email cannot be delivered"),
    ({"email": "<a@b.example>"}, "email", "Email cannot be delivered"),
    ({"email": "a@b..example"}, "email", "Email cannot be delivered"),
    ({"email": f"{'a' * 300}@b.example"}, "email", "Email cannot be delivered"),
    ({"name": "x" * 201}, "name", "at most 200"),
    ({"name": "evil\u202ename"}, "name", "visible characters"),
    ({"new": "short"}, "new", "at least 8"),
    ({"new": "password123"}, "new", "This password is too common. Use several unrelated words"),
    (
        {"new": "grace@example.com"},
        "new",
        "The password must not be your username or email address",
    ),
    (
        {"new": "with\x00a NUL in it"},
        "new",
        "The password is too long or contains characters that are not allowed",
    ),
    ({"new": "x" * 10_240}, "new", "too long"),
)


def test_invalid_sign_up_is_reported_at_its_field_and_input_is_kept(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for typed, field, says in _INVALID_SIGN_UPS:
            with case(typed, field, says):
                answer = await asked_to_sign_up(it, browser(it), **typed)
                assert answer.status == 400
                assert f'id="{field}-fault"' in answer.body
                assert says in answer.body
                if field != "email":
                    assert 'value="grace@example.com"' in answer.body
                assert OTHER not in answer.body
                assert await letters(it) == []

    run(tmp_path, story)


def test_lg_25_a_line_break_in_the_address_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for field in ("email", "username", "name"):
            answer = await asked_to_sign_up(
                it, browser(it), **{field: "a@b.example\nBcc: x@evil.example"}
            )
            assert answer.status == 400
        assert await letters(it) == []

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("mode", "says"),
    [(SignUpMode.OFF, "by the operator"), (SignUpMode.INVITATION, "By invitation")],
)
def test_disabled_sign_up_is_refused(tmp_path: Path, mode: SignUpMode, says: str) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        assert "/account/new" not in (await here.get("/oauth/sign-in")).body
        page = await here.get("/account/new")
        assert page.status == 403
        assert says in page.body
        answer = await here.post("/account/new", {"username": "grace"})
        assert answer.status == 403

    run(tmp_path, story, accounts=AccountSettings(sign_up=mode))


@pytest.mark.parametrize("mode", [SignUpMode.INVITATION, SignUpMode.OPEN])
def test_invitation_signs_up_once_without_another_email(tmp_path: Path, mode: SignUpMode) -> None:
    async def story(it: Harness) -> None:
        invitations = it.foundation.people_invitations
        link = invitations.links.fresh()
        url = await it.write(
            lambda tx: invitations.invite(tx, "grace@example.com", link, "en", it.clock.now)
        )
        assert (await only(it, EmailKind.INVITATION)).values["link"] == url
        here = browser(it)
        page = await here.get(url.removeprefix(it.foundation.issuer))
        assert 'value="grace@example.com"' in page.body
        # Another address is not what the invitation is for.
        answer = await here.submit(
            page, "create", username="grace", email="mallory@evil.example", name="", new=OTHER
        )
        assert answer.status == 303
        user = await it.read(lambda tx: tx.users.find_by_name("grace"))
        assert user is not None
        assert user.email == "grace@example.com"
        assert user.email_verified_at is not None
        again = await browser(it).get(url.removeprefix(it.foundation.issuer))
        assert again.status == (403 if mode is SignUpMode.INVITATION else 200)
        assert "grace@example.com" not in again.body
        nobody = await it.write(
            lambda tx: invitations.invite(tx, "Grace@example.com", link, "en", it.clock.now)
        )
        assert nobody == ""

    run(tmp_path, story, accounts=AccountSettings(sign_up=mode))


def test_account_is_created_unverified_at_once_when_mail_is_off(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        answer = await asked_to_sign_up(it, browser(it))
        assert answer.status == 303
        user = await it.read(lambda tx: tx.users.find_by_name("grace"))
        assert user is not None
        assert user.email_verified_at is None
        answer = await asked_to_sign_up(it, browser(it), username="other")
        assert answer.status == 400
        assert "already has an account" in answer.body

    run(tmp_path, story, mail=MailSettings())


def test_username_taken_meanwhile_is_reported_when_the_link_is_followed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        first, second = browser(it), browser(it)
        await asked_to_sign_up(it, first)
        await asked_to_sign_up(it, second, email="other@example.com")
        links = {letter.to: link_of(letter) for letter in await letters(it)}
        page = await second.get(links["other@example.com"])
        assert (await second.submit(page, "finish")).status == 303
        page = await first.get(links["grace@example.com"])
        answer = await first.submit(page, "finish")
        assert answer.status == 410
        assert "has been taken in the meantime" in answer.body

    run(tmp_path, story)


@pytest.mark.parametrize(
    "link", ["", "x", "vk_ln_" + "0" * 49, "é", "%00", "\ud800"[:0], "a" * 4_000]
)
def test_invalid_links_return_410(tmp_path: Path, link: str) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        for path in (
            "/account/new/confirm",
            "/account/reset",
            "/account/email/confirm",
            "/account/email/verify",
            "/account/email/undo",
        ):
            assert (await here.get(path, link=link)).status == 410
        assert (await here.get("/account/new", link=link)).status == 200

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("email", "kind"),
    [("grace@example.com", EmailKind.SIGN_UP), ("ada@example.com", EmailKind.SIGN_UP_TAKEN)],
)
def test_resent_email_has_the_same_response_for_every_address(
    database_url: str, tmp_path: Path, email: str, kind: EmailKind
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = browser(it)
        page = await asked_to_sign_up(it, here, email=email)
        for _ in range(SENT_AGAIN.attempts):
            it.clock.forward(1)
            page = await here.submit(page, "resend")
            assert page.status == 200
            assert "We sent the email again." in page.body
            assert email in page.body
        sent = [letter for letter in await letters(it) if letter.kind is kind]
        assert len(sent) == 1 + SENT_AGAIN.attempts
        assert {letter.to for letter in sent} == {email}
        assert (await here.submit(page, "resend")).status == 429
        assert len([letter for letter in await letters(it) if letter.kind is kind]) == len(sent)
        if kind is EmailKind.SIGN_UP:
            last = await here.get(link_of(sent[0]))
            assert (await here.submit(last, "finish")).status == 303

    run(tmp_path, story, database_url)


def test_email_is_sent_again_only_in_the_same_browser_and_for_a_day(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here, other = browser(it), browser(it)
        page = await asked_to_sign_up(it, here)
        _, fields = page.form("resend")
        _, foreign = (await other.get("/account/new")).form("create")
        again = fields["again"][0]
        for text in (again, again[:-4], "x", "v1.AAAA"):
            form = {"csrf": foreign["csrf"][0], "again": text}
            assert (await other.post("/account/new", form)).status == 410
        assert len(await letters(it)) == 1
        it.clock.forward(LIFETIME)
        assert (await here.submit(page, "resend")).status == 410
        assert await letters(it) == []

    run(tmp_path, story)
