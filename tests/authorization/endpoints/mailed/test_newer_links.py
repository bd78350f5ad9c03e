"""A newer link of a kind ends the older ones of its account, whatever the kind."""

import re
from collections.abc import Awaitable, Callable
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.authorization.endpoints.admin.people import administrator, do
from tests.authorization.endpoints.mailed.post import (
    BOX,
    OPEN,
    OTHER,
    asked_to_sign_up,
    letters,
    link_of,
)
from tests.support.harness import Harness
from tests.support.plain_browser import Answer
from tests.support.visitors import ALICE, run
from valetkey.authorization.actions.admin.owner import fresh_link, issue_link
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.email.notices import ASKED_LIMIT, LIFETIMES, UNDO_LIFETIME
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.runtime import SYSTEM

RIGHT = "lovelace@example.com"
TYPO = "lovelance@example.com"

TwoLinks = tuple[str, str]
"""An older link and a newer one, as paths of the server."""


async def newest(it: Harness, kind: EmailKind) -> str:
    return next(link_of(letter) for letter in await letters(it) if letter.kind is kind)


async def address(it: Harness, email: str, *, verified: bool = True) -> None:
    """Give alice this address, as an administrator or a directory does."""
    record = UserRecord("alice", email, "Alice Liddell", email_verified=verified)

    def work(tx: Transaction) -> None:
        user = tx.users.find(ALICE.uid)
        assert user is not None
        assert isinstance(it.foundation.accounts().change(tx, user, record, it.clock.now), User)

    await it.foundation.store.write(work, done_by=by_user(ALICE.uid))


async def alice(it: Harness) -> User:
    user = await it.read(lambda tx: tx.users.find(ALICE.uid))
    assert user is not None
    return user


async def forgotten(it: Harness) -> None:
    here = it.browser()
    assert (await here.submit(await here.get("/account/forgotten"), "send", name="alice")).status


async def two(
    it: Harness, kind: EmailKind, ask: Callable[[str], Awaitable[object]], *texts: str
) -> TwoLinks:
    """Ask twice, a minute apart."""
    links: list[str] = []
    for text in texts:
        await ask(text)
        links.append(await newest(it, kind))
        it.clock.forward(60)
    older, newer = links
    return older, newer


async def resets(it: Harness) -> TwoLinks:
    await address(it, ALICE.email)
    return await two(it, EmailKind.PASSWORD_RESET, lambda _: forgotten(it), "", "")


async def changes(it: Harness) -> TwoLinks:
    await address(it, ALICE.email)
    here = await signed_in(it)

    async def ask(email: str) -> Answer:
        return await here.submit(await here.get("/account/email"), "change", email=email)

    return await two(it, EmailKind.EMAIL_CHANGE, ask, TYPO, RIGHT)


async def verifications(it: Harness) -> TwoLinks:
    here = await signed_in(it)

    async def ask(_: str) -> Answer:
        return await here.submit(await here.get("/account/email"), "verify", verify="1")

    return await two(it, EmailKind.VERIFY_EMAIL, ask, "", "")


async def undos(it: Harness) -> TwoLinks:
    await address(it, ALICE.email)

    async def ask(email: str) -> None:
        it.clock.forward(UNDO_LIFETIME)
        here, there = await signed_in(it), it.browser()
        await here.submit(await here.get("/account/email"), "change", email=email)
        page = await there.get(await newest(it, EmailKind.EMAIL_CHANGE))
        assert (await there.submit(page, "confirm")).status == 200

    return await two(it, EmailKind.EMAIL_CHANGED, ask, TYPO, RIGHT)


async def sign_ups(it: Harness) -> TwoLinks:
    here = it.browser()
    return await two(
        it, EmailKind.SIGN_UP, lambda to: asked_to_sign_up(it, here, email=to), TYPO, RIGHT
    )


async def invitations(it: Harness) -> TwoLinks:
    inviting = it.foundation.people_invitations

    async def ask(email: str) -> str:
        link, now = inviting.links.fresh(), it.clock.now
        return await it.write(lambda tx: inviting.invite(tx, email, link, "en", now))

    return await two(it, EmailKind.INVITATION, ask, "Grace@example.com", "grace@example.com")


async def first_passwords(it: Harness) -> TwoLinks:
    admin = await administrator(it)
    who = {"username": "grace", "email": "grace@example.com", "name": "Grace Hopper"}
    made = await do(admin, "/admin/users/new", **who, password_link="show")
    grace = await it.read(lambda tx: tx.users.find_by_username("grace"))
    assert grace is not None
    again = await do(admin, f"/admin/users/{grace.uid}/password-link", password_link="show")
    return _shown(made), _shown(again)


def _shown(page: Answer) -> str:
    match = re.search(r'https?://[^/"< ]+(/account/reset\?link=[^"< ]+)', page.body)
    assert match is not None, page.body
    return unescape(match[1])


async def owners(it: Harness) -> TwoLinks:
    key, now = it.server.keyring.fingerprint_key, it.clock.now
    links = [fresh_link(SYSTEM.random) for _ in "12"]

    def work(tx: Transaction) -> None:
        for link in links:
            issue_link(tx, link, key, now)

    await it.write(work)
    older, newer = (f"/admin/owner?link={link.reveal()}" for link in links)
    return older, newer


ASKED_TWICE: dict[VoucherKind, Callable[[Harness], Awaitable[TwoLinks]]] = {
    VoucherKind.PASSWORD_RESET: resets,
    VoucherKind.FIRST_PASSWORD: first_passwords,
    VoucherKind.EMAIL_CHANGE: changes,
    VoucherKind.EMAIL_VERIFY: verifications,
    VoucherKind.EMAIL_UNDO: undos,
    VoucherKind.SIGN_UP: sign_ups,
    VoucherKind.INVITATION: invitations,
    VoucherKind.OWNER: owners,
}
"""How two links of each kind are requested for one account."""


async def works(it: Harness, kind: VoucherKind, link: str) -> bool:
    """Whether the link opens something, in a browser of its own."""
    here = it.browser()
    answer = await here.get(link)
    if kind is VoucherKind.OWNER:
        answer = await here.follow(answer)
        return 'id="make"' in answer.body
    # Where everyone may sign up, an invitation that is void opens the usual form.
    return answer.status == 200 and (
        kind is not VoucherKind.INVITATION or "grace@example.com" in answer.body.lower()
    )


def test_every_kind_of_link_is_tested() -> None:
    assert set(ASKED_TWICE) == {*LIFETIMES, VoucherKind.OWNER}


@pytest.mark.parametrize("kind", ASKED_TWICE)
def test_newer_link_of_a_kind_ends_the_older_one(
    kind: VoucherKind, tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        older, newer = await ASKED_TWICE[kind](it)
        assert older != newer
        assert not await works(it, kind, older)
        assert await works(it, kind, newer)

    run(tmp_path, story, database_url, mail=BOX, accounts=OPEN)


def test_link_sent_to_a_mistyped_address_is_void_after_the_correction(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        stranger = it.browser()
        older, newer = await changes(it)
        assert (await stranger.get(older)).status == 410
        here = it.browser()
        assert (await here.submit(await here.get(newer), "confirm")).status == 200
        assert (await stranger.get(older)).status == 410
        assert (await alice(it)).email == RIGHT

    run(tmp_path, story, database_url, mail=BOX)


def test_confirmation_form_opened_before_a_newer_link_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await address(it, ALICE.email)
        here, stranger = await signed_in(it), it.browser()
        await here.submit(await here.get("/account/email"), "change", email=TYPO)
        page = await stranger.get(await newest(it, EmailKind.EMAIL_CHANGE))
        await here.submit(await here.get("/account/email"), "change", email=RIGHT)
        assert (await stranger.submit(page, "confirm")).status == 410
        assert (await alice(it)).email == ALICE.email

    run(tmp_path, story, mail=BOX)


@pytest.mark.parametrize("verified", [True, False])
def test_address_set_in_the_meantime_voids_a_pending_email_change(
    verified: bool, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await address(it, ALICE.email, verified=False)
        here = await signed_in(it)
        await here.submit(await here.get("/account/email"), "change", email=TYPO)
        link = await newest(it, EmailKind.EMAIL_CHANGE)
        await address(it, RIGHT, verified=verified)
        assert (await it.browser().get(link)).status == 410

    run(tmp_path, story, mail=BOX)


def test_request_for_the_current_address_voids_a_pending_email_change(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = await signed_in(it)
        await here.submit(await here.get("/account/email"), "change", email=TYPO)
        link = await newest(it, EmailKind.EMAIL_CHANGE)
        answer = await here.submit(await here.get("/account/email"), "change", email=ALICE.email)
        assert answer.status == 400
        assert (await it.browser().get(link)).status == 410

    run(tmp_path, story, mail=BOX)


def test_request_whose_email_is_not_sent_ends_no_link(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await address(it, ALICE.email)
        for _ in range(ASKED_LIMIT.attempts):
            await forgotten(it)
            it.clock.forward(1)
        link = await newest(it, EmailKind.PASSWORD_RESET)
        for _ in "123":
            await forgotten(it)
        assert await newest(it, EmailKind.PASSWORD_RESET) == link
        here = it.browser()
        assert (await here.submit(await here.get(link), "change", new=OTHER)).status == 200

    run(tmp_path, story, mail=BOX)


def test_sign_up_of_another_browser_ends_no_link(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = it.browser()
        await asked_to_sign_up(it, here)
        link = await newest(it, EmailKind.SIGN_UP)
        await asked_to_sign_up(it, it.browser())
        assert (await here.submit(await here.get(link), "finish")).status == 303

    run(tmp_path, story, mail=BOX, accounts=OPEN)
