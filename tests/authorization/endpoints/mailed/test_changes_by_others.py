"""What others change about an account is told to its owner as their own changes are, with a name.

By the admin API, the console and the command line; the old address can take the account back.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import Caller, caller, person
from tests.authorization.endpoints.mailed.post import (
    OTHER,
    ada,
    browser,
    letters,
    link_of,
    may_sign_in,
    only,
    proven,
    run,
)
from tests.cli.running import valetkey
from tests.cli.site import begin
from tests.support.harness import ADA, Harness
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.email.message import write
from valetkey.authorization.email.notices import NOTICE_LIMIT
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.user import Authenticator, Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.load import load
from valetkey.kernel.runtime import SYSTEM

_THIEF = "thief@evil.example"


def text(letter: Email) -> str:
    """The email as it is read, in one line."""
    return " ".join(write(letter, brand=Brand()).text.split())


async def _change(program: Caller, changes: Mapping[str, object]) -> None:
    headers = {"if-match": "*"}
    answer = await program.call("PATCH", f"/users/{ADA}", changes, headers=headers)
    assert answer.status == 200, answer.body


async def _grace(it: Harness) -> Caller:
    """A program with an API token of Grace, an owner."""
    await proven(it)
    return await caller(it, uid=await person(it, "grace", Role.OWNER, 1002))


@pytest.mark.parametrize("verified", [True, False])
def test_address_change_by_api_is_reported_and_can_be_undone(
    tmp_path: Path, database_url: str, verified: bool
) -> None:
    async def story(it: Harness) -> None:
        program = await _grace(it)
        await _change(program, {"email": _THIEF, "email_verified": verified})
        letter = await only(it, EmailKind.EMAIL_CHANGED)
        assert letter.to == "ada@example.com"
        assert "a program with an API token of Grace" in text(letter)
        await program.call("POST", f"/users/{ADA}/verify-email")
        assert (await program.call("POST", f"/users/{ADA}/send-reset")).status == 200
        reset = await only(it, EmailKind.PASSWORD_RESET)
        assert "a program with an API token of Grace" in text(reset)
        there = browser(it)
        page = await there.get(link_of(reset))
        assert (await there.submit(page, "change", new=OTHER)).status == 200
        # Neither a second change nor a disabled account keeps the first address out.
        await _change(program, {"email": "second@evil.example", "email_verified": True})
        notices = [notice for notice in await letters(it) if notice.kind is EmailKind.EMAIL_CHANGED]
        assert {notice.to: notice.values["link"] for notice in notices} == {
            "ada@example.com": letter.values["link"],
            _THIEF: "",
        }
        assert (await program.call("POST", f"/users/{ADA}/disable")).status == 200
        here = browser(it)
        assert (await here.submit(await here.get(link_of(letter)), "confirm")).status == 303
        assert (await ada(it)).email == "ada@example.com"
        assert (await program.call("POST", f"/users/{ADA}/enable")).status == 200
        assert not await may_sign_in(it, OTHER)

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    "quietly", ["unverified first", "after many notices", "address given away"]
)
def test_undo_link_reaches_the_old_address_in_every_order_of_changes(
    tmp_path: Path, quietly: str
) -> None:
    async def story(it: Harness) -> None:
        program, changes = await _grace(it), {"email": _THIEF, "email_verified": True}
        if quietly == "unverified first":
            await _change(program, {"email_verified": False})
        if quietly == "after many notices":
            for number in range(NOTICE_LIMIT.attempts + 1):
                role = "auditor" if number % 2 else "support"
                await program.call("PUT", f"/users/{ADA}/role", {"role": role})
        await _change(program, changes)
        if quietly == "address given away":
            account = {"username": "ada2", "email": "Ada@Example.com"}
            assert (await program.call("POST", "/users", account)).status == 400
            headers = {"if-match": "*"}
            body = {"email": "ada@example.com"}
            path = "/users/1002"
            assert (await program.call("PATCH", path, body, headers=headers)).status == 400
        notices = [notice for notice in await letters(it) if notice.kind is EmailKind.EMAIL_CHANGED]
        assert [notice.to for notice in notices] == ["ada@example.com"]
        assert "a program with an API token of Grace" in text(notices[0])
        here = browser(it)
        assert (await here.submit(await here.get(link_of(notices[0])), "confirm")).status == 303
        assert (await ada(it)).email == "ada@example.com"
        assert (await ada(it)).email_verified_at is not None
        await _change(program, changes)

    run(tmp_path, story)


def test_factor_role_and_verification_changes_name_the_actor_in_the_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        program = await _grace(it)
        app = Authenticator("cr_app", ADA, "", it.clock.now)
        assert await it.write(lambda tx: tx.credentials.add_authenticator(app, 0))
        assert (await program.call("POST", f"/users/{ADA}/reset-factors")).status == 200
        assert (await program.call("PUT", f"/users/{ADA}/role", {"role": "auditor"})).status == 200
        await _change(program, {"email_verified": False})
        assert (await program.call("POST", f"/users/{ADA}/verify-email")).status == 200
        for kind in (
            EmailKind.FACTORS_RESET,
            EmailKind.ROLE_CHANGED,
            EmailKind.EMAIL_VERIFIED,
        ):
            letter = await only(it, kind)
            assert letter.to == "ada@example.com"
            assert "a program with an API token of Grace" in text(letter), kind

    run(tmp_path, story)


@pytest.mark.parametrize("end", ["role", "disabled", "token", "rank"])
def test_reset_link_ends_with_the_role_in_which_it_was_sent(tmp_path: Path, end: str) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        support = await person(it, "sam", Role.SUPPORT, 1003)
        program = await caller(it, Role.SUPPORT, uid=support)
        assert (await program.call("POST", f"/users/{ADA}/send-reset")).status == 200
        link = link_of(await only(it, EmailKind.PASSWORD_RESET))
        here = browser(it)
        page = await here.get(link)
        assert page.status == 200

        def ended(tx: Transaction) -> None:
            now, accounts = it.clock.now, it.foundation.accounts()
            if end == "role":
                tx.user_directory.set_role(support, Role.AUDITOR, now)
            elif end == "rank":
                tx.user_directory.set_role(ADA, Role.OWNER, now)
            elif end == "token":
                (token,) = tx.api_tokens.live_of(support, now)
                assert tx.api_tokens.end(token.id, now)
            else:
                user = tx.users.find(support)
                assert user is not None
                assert accounts.disable(tx, user, now)

        await it.write(ended)
        assert (await here.get(link)).status == 410
        assert (await here.submit(page, "change", new=OTHER)).status == 410
        assert not await may_sign_in(it, OTHER)

    run(tmp_path, story)


def test_command_line_changes_are_reported_as_made_by_the_operators(tmp_path: Path) -> None:
    file = begin(tmp_path)
    file.write_text(file.read_text() + '[mail]\ntransport = "mailbox"\n')
    for arguments in (
        ("create", "ada", "--email", "ada@example.com", "--generate-password"),
        ("password", "ada", "--generate-password"),
        ("change", "ada", "--email", "new@example.com"),
    ):
        done = valetkey("user", *arguments, here=tmp_path)
        assert done.code == 0, done.err
    notices = {notice.kind: notice for notice in asyncio.run(_kept(file))}
    assert notices.keys() == {EmailKind.PASSWORD_CHANGED, EmailKind.EMAIL_CHANGED}
    assert {notice.to for notice in notices.values()} == {"ada@example.com"}
    assert all("the operators of" in text(notice) for notice in notices.values())
    assert "/account/email/undo?link=" in notices[EmailKind.EMAIL_CHANGED].values["link"]


async def _kept(file: Path) -> list[Email]:
    foundation = build_foundation(load(file, {}), SYSTEM, {})
    try:
        kept = await foundation.store.read(lambda tx: tx.mails.for_mailbox(SYSTEM.now(), 99))
        opened = [foundation.outbox.open(mail) for mail in kept]
        return [letter for letter in opened if letter is not None]
    finally:
        await foundation.store.engine.close()
