"""The console creates users, who choose their password by a link, and edits their profiles."""

import asyncio
import re
from html import unescape
from pathlib import Path

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.admin.people import administrator, do
from tests.authorization.endpoints.mailed.post import BOX, link_of, only
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import Address, Group, Role, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days

NEW = "/admin/users/new"
EDIT = f"/admin/users/{BOB.uid}/edit"
WORD = "nine violet kettles"
GRACE = {"username": "grace", "email": "grace@example.com", "name": "Grace Hopper"}


async def found(it: Harness, name: str) -> User:
    user = await it.read(lambda tx: tx.users.find_by_username(name))
    assert user is not None, name
    return user


async def bob(it: Harness) -> User:
    user = await it.read(lambda tx: tx.users.find(BOB.uid))
    assert user is not None
    return user


async def stranger(it: Harness, browser: Browser) -> Browser:
    """A browser of someone else on the same server."""
    return Browser(it.app, host=browser.host, scheme=browser.scheme)


async def create(it: Harness, browser: Browser, **typed: str) -> Answer:
    return await do(browser, NEW, **{**GRACE, **typed})


async def choose(here: Browser, link: str) -> Answer:
    page = await here.get(link)
    assert page.status == 200, page.status
    return await here.submit(page, "change", new=WORD)


def shown_link(page: Answer) -> str:
    """The link that a page shows once, as a path."""
    match = re.search(r'https?://[^/"< ]+(/account/reset\?link=[^"< ]+)', page.body)
    assert match is not None, page.body
    return unescape(match[1])


def test_created_user_chooses_a_password_by_the_emailed_link(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now

        def staff(tx: Transaction) -> None:
            tx.groups.create(Group("gr_staff", "staff", "", "", now), "")

        await it.store.write(staff)
        admin = await administrator(it, Role.OWNER)
        answer = await create(it, admin, groups="staff", role="support", password_link="email")
        assert answer.status == 303, answer.body
        page = await admin.follow(answer)
        assert knows(page, "The account is created.")
        grace = await found(it, "grace")
        assert (grace.email_verified_at, grace.role) == (None, Role.SUPPORT)
        assert await it.read(lambda tx: list(tx.groups.direct_names(grace.uid))) == ["staff"]
        letter = await only(it, EmailKind.ACCOUNT_CREATED)
        assert (letter.to, letter.values["username"]) == ("grace@example.com", "grace")
        assert letter.values["by_name"]
        link = link_of(letter)
        it.clock.forward(days(6))
        here = await stranger(it, admin)
        assert (await choose(here, link)).status == 200
        # Who read the email has the address.
        assert (await found(it, "grace")).email_verified_at == it.clock.now
        signed = await here.sign_in(await here.get("/oauth/sign-in"), "grace", WORD)
        assert knows(signed, "Grace Hopper")
        assert (await (await stranger(it, admin)).get(link)).status == 410

    run(tmp_path, story, database_url, mail=BOX)


def test_shown_link_verifies_no_email_and_is_refused_once_a_password_is_set(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it, Role.ADMINISTRATOR)
        answer = await create(it, admin, password_link="show")
        assert answer.status == 200, answer.body
        first = shown_link(answer)
        grace = await found(it, "grace")
        again = await do(admin, f"/admin/users/{grace.uid}/password-link", password_link="show")
        second = shown_link(again)
        here = await stranger(it, admin)
        assert (await here.get(first)).status == 410
        assert (await choose(here, second)).status == 200
        assert (await found(it, "grace")).email_verified_at is None
        assert (await here.get(second)).status == 410
        # An account that someone signs in to is not taken over by such a link.
        page = await admin.get(f"/admin/users/{grace.uid}")
        assert "password-link" not in page.body
        question = await admin.get(f"/admin/users/{grace.uid}/password-link")
        refused = await admin.submit(question, "do", password_link="show")
        assert refused.status == 400

    run(tmp_path, story, database_url)


def test_link_is_invalid_after_expiry_or_loss_of_the_issuers_role(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it, Role.ADMINISTRATOR)
        link = shown_link(await create(it, admin, password_link="show"))
        here = await stranger(it, admin)
        assert (await here.get(link)).status == 200
        now = it.clock.now
        await it.store.write(lambda tx: tx.user_directory.set_role(ALICE.uid, None, now))
        assert (await here.get(link)).status == 410
        await it.store.write(
            lambda tx: tx.user_directory.set_role(ALICE.uid, Role.ADMINISTRATOR, now)
        )
        assert (await here.get(link)).status == 200
        it.clock.forward(days(7))
        assert (await here.get(link)).status == 410

    run(tmp_path, story, database_url)


def test_invalid_users_are_not_created(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it, Role.ADMINISTRATOR)
        for typed, words in (
            ({"username": "bob"}, "username or email address is taken"),
            ({"email": "no address"}, "such as ada@example.com"),
            ({"name": "x" * 201}, "visible characters"),
            ({"username": "a\u202eb"}, "1 to 200 characters without spaces"),
            ({"groups": "nowhere"}, "Must be an existing group."),
            ({"password_link": "carrier pigeon"}, "Choose one of these values"),
            ({"password_link": "email"}, "No email was sent"),
        ):
            page = await create(it, admin, **{"password_link": "", **typed})
            assert page.status == 400, typed
            assert knows(page, words), (typed, page.body)
            assert await it.read(lambda tx: tx.users.find_by_username("grace")) is None
        for typed, field in (({"username": "BOB"}, "username"), ({"email": BOB.email}, "email")):
            page = await create(it, admin, **{"password_link": "", **typed})
            inputs = re.findall(r"<input[^>]*aria-invalid[^>]*>", page.body)
            assert [re.findall(r'\bname="(.*?)"', shown) for shown in inputs] == [[field]]
        # An administrator assigns no role, not even by a forged field.
        page = await admin.get(NEW)
        assert 'name="role"' not in page.body
        assert (await create(it, admin, role="owner", password_link="")).status == 303
        assert (await found(it, "grace")).role is None
        # Twice is once.
        assert (await create(it, admin, password_link="")).status == 400

    run(tmp_path, story, database_url)


def test_64_submits_create_one_user(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it)
        page = await admin.get(NEW)
        fields = {**GRACE, "password_link": "show"}
        answers = await asyncio.gather(*(admin.submit(page, "do", **fields) for _ in range(64)))
        made = [answer for answer in answers if answer.status == 200]
        assert len(made) == 1
        assert {answer.status for answer in answers} <= {200, 400, 503}

    run(tmp_path, story, database_url)


def test_profile_is_edited_and_a_stale_form_changes_nothing(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it, Role.ADMINISTRATOR)
        stale = await admin.get(EDIT)
        answer = await do(
            admin,
            EDIT,
            given_name="Bob",
            **{"address.locality": "Ulm", "zoneinfo": "Europe/Berlin"},
        )
        assert answer.status == 303, answer.body
        assert knows(await admin.follow(answer), "The profile is saved.")
        claims = (await bob(it)).claims
        assert (claims.given_name, claims.address.locality) == ("Bob", "Ulm")
        refused = await admin.submit(stale, "do", given_name="Robert")
        assert refused.status == 400
        assert knows(refused, "It was changed while you edited it.")
        assert (await bob(it)).claims.given_name == "Bob"
        # What the other saved is in the way once only.
        again = await admin.submit(refused, "do")
        assert again.status == 303
        assert (await bob(it)).claims.given_name == "Robert"
        for field, value in (
            ("birthdate", "yesterday"),
            ("zoneinfo", "Mars/Olympus"),
            ("address.country", "x" * 201),
            ("email", "<script>alert(1)</script>"),
            ("username", "alice"),
        ):
            page = await do(admin, EDIT, **{field: value})
            assert page.status == 400, field
            assert "<script>alert" not in page.body

    run(tmp_path, story, database_url)


def test_new_email_address_is_unverified_and_the_old_one_is_notified(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now
        verified = await bob(it)
        await it.store.write(lambda tx: it.foundation.accounts().verify_email(tx, verified, now))
        admin = await administrator(it, Role.ADMINISTRATOR)
        answer = await do(admin, EDIT, email="new@example.com", username="robert")
        assert answer.status == 303, answer.body
        user = await bob(it)
        assert (user.email, user.username) == ("new@example.com", "robert")
        assert user.email_verified_at is None
        email = await only(it, EmailKind.EMAIL_CHANGED)
        assert email.to == "bob@example.com"

    run(tmp_path, story, database_url, mail=BOX)


def test_forgeries_and_edits_of_higher_roles_are_refused(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it, Role.ADMINISTRATOR)
        forged = await admin.post(NEW, {**GRACE, "csrf": "x"})
        assert forged.status == 403
        now = it.clock.now
        await it.store.write(lambda tx: tx.user_directory.set_role(BOB.uid, Role.OWNER, now))
        assert (await admin.get(EDIT)).status == 403
        page = await admin.get(f"/admin/users/{ALICE.uid}/edit")
        assert page.status == 200
        await it.store.write(lambda tx: tx.user_directory.set_role(ALICE.uid, Role.SUPPORT, now))
        assert (await admin.submit(page, "do", name="x")).status == 404
        assert (await admin.get(NEW)).status == 404

    run(tmp_path, story, database_url)


def test_address_of_several_lines_is_kept_and_edited(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        admin = await administrator(it, Role.ADMINISTRATOR)
        assert (await do(admin, EDIT, nickname="Bob")).status == 303
        assert (await bob(it)).claims.address == Address()
        typed = {"address.street_address": "House 12\r\nSecond floor", "address.region": "Kent"}
        assert (await do(admin, EDIT, **typed)).status == 303
        street = "House 12\nSecond floor"
        assert (await bob(it)).claims.address.street_address == street
        # A form that is submitted as it was shown changes nothing.
        assert (await do(admin, EDIT, nickname="Bobby")).status == 303
        assert (await bob(it)).claims.address.street_address == street

    run(tmp_path, story, database_url)
