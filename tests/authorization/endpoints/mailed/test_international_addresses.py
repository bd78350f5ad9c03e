"""An international address is the same account at every entrance, in each of its forms."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.authorization.endpoints.admin_api.programs import caller
from tests.authorization.endpoints.mailed.post import (
    OTHER,
    WORD,
    ada,
    asked_to_sign_up,
    browser,
    letters,
    link_of,
    may_sign_in,
    only,
    proven,
    run,
    signed_in,
)
from tests.authorization.endpoints.scim.directory import Directory, tell
from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import Role, User, fold_letters
from valetkey.authorization.storage.transaction import Transaction

LETTERS = "grace@bücher.example"
ASCII = "grace@xn--bcher-kva.example"
FORMS = (LETTERS, ASCII, "Grace@BÜCHER.example", "grace@XN--BCHER-KVA.Example")


@pytest.mark.parametrize("typed", [LETTERS, ASCII])
def test_sign_up_stores_the_ascii_form_and_sign_in_accepts_all_forms(
    database_url: str, tmp_path: Path, typed: str
) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        answer = await asked_to_sign_up(it, here, email=typed)
        assert "Check your email" in answer.body
        letter = await only(it, EmailKind.SIGN_UP)
        assert letter.to == ASCII
        await here.submit(await here.get(link_of(letter)), "finish")
        for form in FORMS:
            assert await may_sign_in(it, OTHER, form)
        assert LETTERS in (await here.get("/")).body
        # The address is taken in its other form, too, and its password can be reset with it.
        other = LETTERS if typed == ASCII else ASCII
        await asked_to_sign_up(it, browser(it), username="hopper", email=other)
        assert (await only(it, EmailKind.SIGN_UP_TAKEN)).to == ASCII
        there = browser(it)
        await there.submit(await there.get("/account/forgotten"), "send", name=other)
        assert (await only(it, EmailKind.PASSWORD_RESET)).to == ASCII

    run(tmp_path, story, database_url)


@pytest.mark.parametrize("typed", ["a@Ü.xn--bcher-kva.example", "a@xn--bcher-kva.ＤＥ"])
def test_address_in_a_mixed_form_is_looked_up_without_error(tmp_path: Path, typed: str) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        answer = await here.submit(await here.get("/account/forgotten"), "send", name=typed)
        assert answer.status < 400
        assert not await may_sign_in(it, WORD, typed)

    run(tmp_path, story)


def test_changed_address_is_stored_in_ascii_and_equals_its_unicode_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        await here.submit(await here.get("/account/email"), "change", email=LETTERS)
        letter = await only(it, EmailKind.EMAIL_CHANGE)
        assert letter.to == ASCII
        there = browser(it)
        await there.submit(await there.get(link_of(letter)), "confirm")
        assert (await ada(it)).email == ASCII
        here = await signed_in(it, name=LETTERS)
        answer = await here.submit(await here.get("/account/email"), "change", email=LETTERS)
        assert answer.status == 400

    run(tmp_path, story)


def test_admin_api_creates_and_finds_one_account_for_all_forms(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        by = await caller(it)
        made = await by.call("POST", "/users", {"username": "grace", "email": LETTERS})
        assert (made.status, made.record["email"]) == (201, ASCII)
        own = f"/users/{made.record['uid']}/email"
        assert (await by.call("PUT", own, {"email": LETTERS})).status == 200
        user = await it.read(lambda tx: tx.users.find_by_email(LETTERS))
        assert user is not None
        assert (user.email, user.email_verified_at) == (ASCII, it.clock.now)
        again = await by.call("POST", "/users", {"username": "hopper", "email": ASCII})
        assert again.status == 400
        wrong = await by.call(
            "POST", "/users", {"username": "snow", "email": "a@\N{SNOWMAN}.example"}
        )
        assert wrong.status == 400
        for text in (LETTERS, ASCII, "b%C3%BCcher"):
            answer = await by.call("GET", f"/users?q={quote(text, safe='%')}")
            assert [account["username"] for account in answer.items] == ["grace"], text

    run(tmp_path, story)


def test_scim_finds_and_keeps_the_address_in_each_form(tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        made = await it.user(LETTERS, emails=[{"value": LETTERS}])
        assert made["emails"][0]["value"] == ASCII
        for form in FORMS:
            for name in ("userName", "emails.value"):
                resources = await it.find("Users", f'{name} eq "{form}"')
                assert [resource["id"] for resource in resources] == [made["id"]], (name, form)
        path = f"/Users/{made['id']}"
        operation = {"op": "replace", "path": "emails", "value": [{"value": LETTERS}]}
        assert (await it.patch(path, operation)).status in {200, 204}
        user = await it.it.read(lambda tx: tx.users.find_by_email(LETTERS))
        assert user is not None
        assert (user.email, user.email_verified_at) == (ASCII, user.created_at)

    asyncio.run(tell(tmp_path, "", story))


def test_account_with_a_stored_unicode_address_keeps_working(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)

        def store(tx: Transaction, email: str, uid: int) -> None:
            # As version 0.2 did.
            tx.db.run(
                "UPDATE users SET email = :email, email_key = :key WHERE uid = :uid",
                email=email,
                key=fold_letters(email),
                uid=uid,
            )

        await it.write(lambda tx: store(tx, LETTERS, ADA))
        for form in FORMS:
            assert await may_sign_in(it, WORD, form)
        await asked_to_sign_up(it, browser(it), username="hopper", email=ASCII)
        assert (await only(it, EmailKind.SIGN_UP_TAKEN)).uid == ADA
        # Another change of the account is no change of the address.
        written = len(await letters(it))
        by, any_state = await caller(it, Role.OWNER), {"if-match": "*"}
        changed = await by.call("PATCH", f"/users/{ADA}", {"name": "Ada L."}, headers=any_state)
        assert changed.status == 200, changed.body
        assert (await ada(it)).email == LETTERS
        assert len(await letters(it)) == written
        # Two accounts whose addresses became the same: both can be changed, the ASCII one is found.
        other = UserRecord("other", "other@example.com")
        made = await it.write(
            lambda tx: it.foundation.accounts().register(tx, other, it.clock.now, uid=77)
        )
        assert isinstance(made, User)
        await it.write(lambda tx: store(tx, ASCII, 77))
        for uid in (ADA, 77):
            answer = await by.call("PATCH", f"/users/{uid}", {"name": "Both"}, headers=any_state)
            assert answer.status == 200, answer.body
        user = await it.read(lambda tx: tx.users.find_by_email(LETTERS))
        assert user is not None
        assert user.uid == 77
        # What folds to the same letters is another address.
        await it.write(lambda tx: store(tx, "ada@straße.example", ADA))
        assert await it.read(lambda tx: tx.users.find_by_email("ada@strasse.example")) is None
        assert await may_sign_in(it, WORD, "ada@straße.example")

    run(tmp_path, story, database_url)
