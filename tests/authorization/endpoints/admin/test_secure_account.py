"""A compromised account is secured with one operation, and a user's data is exported."""

import asyncio
import json
import threading
import time
from pathlib import Path

from tests.authorization.endpoints.account.people import grant_of, knows, signed_in
from tests.authorization.endpoints.account.security.factors import code, key_of
from tests.authorization.endpoints.admin.people import administrator, confirmation, do
from tests.authorization.endpoints.admin.test_user_forms import choose, found, shown_link, stranger
from tests.authorization.endpoints.admin_api.programs import caller
from tests.authorization.endpoints.mailed.post import BOX, letters, link_of, only
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.actions.account.email_change import remove_sign_in_methods
from valetkey.authorization.actions.users import UserRecord, end_everything
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Authenticator, Role, User
from valetkey.authorization.providers.model import Identity
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

PAGE = f"/admin/users/{BOB.uid}"
NOTES = Scope.of("notes:read")
HOST = {"host": "auth.example"}
THIEF = "thief@evil.example"


async def infiltrated(it: Harness) -> None:
    """Give Bob's account everything that a thief could have left in it."""
    now = it.clock.now

    def add(tx: Transaction) -> None:
        assert tx.users.change(replace(BOB, email_verified_at=now, changed_at=now))
        app = Authenticator("cr_thief", BOB.uid, "sealed", now)
        assert tx.credentials.add_authenticator(app, 0)
        assert Identities.of(tx).link(Identity("https://evil.example", "7", BOB.uid, "thief", now))
        tx.consents.save(Consent(BOB.uid, WEB.id, NOTES, "", now))
        tx.account_removals.plan(BOB.uid, later(now, days(7)), now)

    await it.store.write(add)
    await grant_of(it, WEB.id, NOTES, user=BOB)


async def change_email(it: Harness, email: str) -> None:
    """Change Bob's address as Bob, so that the old one is notified."""
    bob = await found(it, "bob")
    record = UserRecord(bob.username, email, bob.name, email_verified=True)
    accounts = it.foundation.accounts()
    changed = await it.store.write(
        lambda tx: accounts.change(tx, bob, record, it.clock.now), done_by=by_user(BOB.uid)
    )
    assert isinstance(changed, User), changed


async def exported(it: Harness) -> dict[str, object]:
    answer = await (await caller(it, uid=ALICE.uid)).call(
        "POST", f"/users/{BOB.uid}/export", headers=HOST
    )
    assert answer.status == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="account.json"'
    return answer.json


def test_securing_an_account_revokes_all_access_of_an_attacker(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        thief = await signed_in(it, "bob")
        await infiltrated(it)
        before = await exported(it)
        assert all(before[name] for name in ("sessions", "grants", "consents", "credentials"))
        await change_email(it, THIEF)
        undo = link_of(await only(it, EmailKind.EMAIL_CHANGED))
        await thief.submit(await thief.get("/account/forgotten"), "send", name="bob")
        admin = await administrator(it, Role.ADMINISTRATOR)
        question = await admin.get(f"{PAGE}/secure")
        assert knows(question, "1 session ends.")
        typed = {"email": "bob@example.com", "password_link": "email"}
        answer = await admin.submit(question, "do", **confirmation(question), **typed)
        assert knows(await admin.follow(answer), "The account is secured.")

        assert (await thief.get("/account/sessions")).status == 303
        after = await exported(it)
        for name in ("sessions", "grants", "consents", "credentials", "accounts_elsewhere"):
            assert not after[name], name
        assert await it.read(lambda tx: tx.account_removals.due_at(BOB.uid)) is None
        letter = await only(it, EmailKind.ACCOUNT_SECURED)
        assert letter.to == "bob@example.com"
        # Neither the password, nor a link that was sent before, at whatever address.
        here = await stranger(it, admin)
        refused = await here.sign_in(
            await here.get("/oauth/sign-in"), "bob", "correct horse battery staple"
        )
        assert refused.status == 401
        assert (await here.get(undo)).status == 410
        for email in await letters(it):
            if email.kind is EmailKind.PASSWORD_RESET:
                assert (await here.get(link_of(email))).status == 410
        assert [email.kind for email in await letters(it) if email.to == THIEF] == [
            EmailKind.PASSWORD_RESET
        ]

        assert (await choose(here, link_of(letter))).status == 200
        bob = await found(it, "bob")
        assert (bob.email, bob.email_verified_at) == ("bob@example.com", it.clock.now)
        events = await it.events()
        assert "user.secured" in events
        assert "data.exported" in events

    run(tmp_path, story, database_url, mail=BOX)


def test_earlier_address_cannot_take_a_secured_account_back(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(
            lambda tx: tx.users.change(replace(BOB, email_verified_at=it.clock.now))
        )
        await change_email(it, THIEF)
        program = await caller(it, uid=ALICE.uid)
        path, shown = f"/users/{BOB.uid}/secure", {"password_link": "show"}
        # Either of the two addresses may be the thief's: it must be said which is right.
        unsaid = await program.call("POST", path, shown, headers=HOST)
        assert (unsaid.status, b"email" in unsaid.body) == (400, True), unsaid.body
        it.clock.forward(days(8))
        # An administrator corrects the address first, so the thief's is notified, with a link.
        await change_email(it, "bob@example.com")
        undo = next(link_of(email) for email in await letters(it) if email.to == THIEF)
        program = await caller(it, uid=ALICE.uid)
        body = {**shown, "email": "bob@example.com"}
        done = await program.call("POST", path, body, headers=HOST)
        assert done.status == 200, done.body
        here = await stranger(it, await administrator(it, Role.ADMINISTRATOR))
        assert (await here.get(undo)).status == 410
        assert (await found(it, "bob")).email == "bob@example.com"

    run(tmp_path, story, database_url, mail=BOX)


def test_link_is_shown_where_no_email_is_sent(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, "bob")
        admin = await administrator(it, Role.ADMINISTRATOR)
        refused = await do(admin, f"{PAGE}/secure", password_link="email")
        assert refused.status in {400, 409}
        # A refusal changes nothing.
        assert (await exported(it))["sessions"]
        link = shown_link(await do(admin, f"{PAGE}/secure", password_link="show"))
        assert not (await exported(it))["sessions"]
        assert (await choose(await stranger(it, admin), link)).status == 200

    run(tmp_path, story, database_url)


def test_bad_address_and_own_account_are_refused(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, "bob")
        program = await caller(it, uid=ALICE.uid)
        for email in ("", "bob", "a b@example.com", "x" * 300 + "@example.com"):
            body = {"password_link": "show", "email": email}
            answer = await program.call("POST", f"/users/{BOB.uid}/secure", body, headers=HOST)
            assert answer.status == 400, (email, answer.body)
        body = {"password_link": "show", "email": ALICE.email}
        taken = await program.call("POST", f"/users/{BOB.uid}/secure", body, headers=HOST)
        assert taken.status == 400, taken.body
        body = {"password_link": "show"}
        own = await program.call("POST", f"/users/{ALICE.uid}/secure", body, headers=HOST)
        assert own.status == 409
        assert (await exported(it))["sessions"]

    run(tmp_path, story, database_url)


def test_administrator_downloads_the_file_that_the_user_can_download(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, "bob")
        admin = await administrator(it, Role.ADMINISTRATOR)
        answer = await do(admin, f"{PAGE}/export")
        assert answer.status == 200
        assert json.loads(answer.body)["profile"]["username"] == "bob"
        support = await administrator(it, Role.SUPPORT)
        assert (await support.get(f"{PAGE}/export")).status == 404
        assert (await support.get(f"{PAGE}/secure")).status == 404

    run(tmp_path, story, database_url)


def test_factor_that_is_added_while_the_account_is_secured_is_not_kept(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        thief = await signed_in(it, "bob")
        page = await thief.get("/account/security/authenticator/new")
        typed = code(it, key_of(page))
        begun, request_sent = threading.Event(), threading.Event()

        def secure(tx: Transaction) -> None:
            assert tx.users.find_to_change(BOB.uid)
            begun.set()
            # The thief's request arrives meanwhile, and waits for this one or for the database.
            assert request_sent.wait(5)
            time.sleep(0.5)
            remove_sign_in_methods(tx, BOB.uid, Instant(0), "account_secured", it.clock.now)
            end_everything(tx, BOB, it.clock.now, "account_secured")

        async def add() -> None:
            await asyncio.to_thread(begun.wait)
            adding = asyncio.create_task(thief.submit(page, "set-up", code=typed))
            request_sent.set()
            assert (await adding).status in {303, 403}

        await asyncio.gather(it.store.write(secure, done_by=by_user(ALICE.uid)), add())
        assert await it.read(lambda tx: tx.credentials.authenticator_of(BOB.uid)) is None

    run(tmp_path, story, database_url)
