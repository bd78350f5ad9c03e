"""Passkeys: made, named and removed; alone, after a password, and before what matters."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.account.security.factors import (
    CODE,
    after_password,
    options,
    with_app,
    with_passkey,
)
from tests.support.authenticator import SoftAuthenticator
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, run
from valetkey.authorization.authentication.session import PROOF_LASTS
from valetkey.kernel.replace import replace


async def passkeys(it: Harness) -> list[str]:
    stored_passkeys = await it.store.read(lambda tx: tx.credentials.passkeys_of(ALICE.uid))
    return [passkey.name for passkey in stored_passkeys]


async def sign_in(
    it: Harness, browser: Browser, device: SoftAuthenticator, which: int = 0
) -> Answer:
    page = await browser.get("/oauth/sign-in")
    return await browser.submit(page, "passkey", credential=device.get(options(page), which))


def test_passkey_signs_in_without_a_username(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice, device = await with_passkey(it)
        assert await passkeys(it) == ["Laptop"]
        assert knows(await alice.get("/account/security"), "Laptop")
        browser = it.browser()
        assert (await sign_in(it, browser, device)).location == "/"
        assert knows(await browser.get("/account/security"), "just now")
        stored_passkeys = await it.store.read(lambda tx: tx.credentials.passkeys_of(ALICE.uid))
        assert stored_passkeys[0].last_used_at == it.clock.now
        # It is as good as two factors: nothing more is asked before what matters.
        assert (await browser.get("/account/security/passkeys/new")).status == 200

    run(tmp_path, story, database_url)


def test_recovery_codes_are_issued_with_the_first_factor_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser, device = await signed_in(it), SoftAuthenticator()
        page = await browser.get("/account/security/passkeys/new")
        first = await browser.submit(page, "add", name="A", credential=device.create(options(page)))
        assert len(CODE.findall(first.body)) == 10
        page = await browser.get("/account/security/passkeys/new")
        assert page.status == 200
        again = device.create(options(page))
        second = await browser.submit(page, "add", name="B", credential=again)
        assert second.location == "/account/security?done=passkey-added"
        assert sorted(await passkeys(it)) == ["A", "B"]

    run(tmp_path, story)


def test_a_passkey_is_a_second_factor_too(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await after_password(it, browser)
        assert knows(page, "One more step")
        answer = await browser.submit(page, "passkey", credential=device.get(options(page)))
        assert answer.location == "/"
        assert (await browser.get("/account/apps")).status == 200

    run(tmp_path, story, database_url)


def test_passkey_signs_in_during_an_authorization_request(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.ask(prompt="login")
        answer = await browser.submit(page, "passkey", credential=device.get(options(page)))
        assert (await browser.allow(await browser.follow(answer))).told["code"]

    run(tmp_path, story)


def test_passkey_can_be_renamed_and_removed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _ = await with_passkey(it)
        (passkey,) = await it.store.read(lambda tx: tx.credentials.passkeys_of(ALICE.uid))
        path = f"/account/security/passkeys/{passkey.id}"
        page = await alice.get(path)
        for bad in ("", " ", "x" * 61, "a\u202eb"):
            answer = await alice.submit(page, "rename", name=bad)
            assert answer.status == 400
            assert knows(answer, "Enter a name of up to 60 characters")
        assert (await alice.submit(page, "rename", name="Old phone")).status == 303
        assert await passkeys(it) == ["Old phone"]
        ask = await alice.get(f"{path}/remove")
        assert knows(ask, "This is the last second factor of your account")
        assert (await alice.submit(ask, "remove")).status == 303
        assert await passkeys(it) == []
        assert (await alice.get(path)).status == 404

    run(tmp_path, story)


def test_passkey_of_another_user_is_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await with_passkey(it)
        (passkey,) = await it.store.read(lambda tx: tx.credentials.passkeys_of(ALICE.uid))
        bob, _ = await with_passkey(it, "bob")
        unknown = await bob.get("/account/security/passkeys/cr_unknown")
        for path in ("", "/remove"):
            seen = await bob.get(f"/account/security/passkeys/{passkey.id}{path}")
            assert seen.status == unknown.status == 404
        own = await it.store.read(lambda tx: tx.credentials.passkeys_of(1002))  # type: ignore[arg-type]
        page = await bob.get(f"/account/security/passkeys/{own[0].id}/remove")
        _, fields = page.form("remove")
        target = f"/account/security/passkeys/{passkey.id}"
        assert (await bob.post(f"{target}/remove", fields)).status == 404
        assert (await bob.post(target, {**fields, "name": "x"})).status == 404
        assert await passkeys(it) == ["Laptop"]

    run(tmp_path, story)


def test_password_can_be_removed_only_with_a_passkey_which_then_stays(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        ask = await alice.get("/account/security/password/remove")
        assert knows(ask, "Add a passkey first")
        device = SoftAuthenticator()
        page = await alice.get("/account/security/passkeys/new")
        await alice.submit(page, "add", name="A", credential=device.create(options(page)))
        ask = await alice.get("/account/security/password/remove")
        done = await alice.follow(await alice.submit(ask, "remove"))
        assert knows(done, "Password removed. You sign in with your passkeys")
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        failed = await browser.submit(page, "sign-in", username="alice", password=PASSWORD)
        assert failed.status == 401
        assert (await sign_in(it, browser, device)).location == "/"
        # The last way in stays.
        (passkey,) = await it.store.read(lambda tx: tx.credentials.passkeys_of(ALICE.uid))
        ask = await browser.get(f"/account/security/passkeys/{passkey.id}/remove")
        assert knows(ask, "This passkey is your only sign-in method")
        _, fields = (await browser.get("/account/confirm")).form("passkey")
        sent = await browser.post(f"/account/security/passkeys/{passkey.id}/remove", fields)
        assert sent.status == 303
        assert await passkeys(it) == ["A"]
        # A session that was not asked for long proves itself by the passkey.
        it.clock.forward(PROOF_LASTS)
        page = await browser.get("/account/confirm")
        right = device.get(options(page))
        assert (await browser.submit(page, "passkey", credential=right)).location == "/"

    run(tmp_path, story)


def test_passkey_of_a_disabled_account_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        closed = replace(ALICE, disabled_at=it.clock.now)
        await it.store.write(lambda tx: tx.users.change(closed))
        assert (await sign_in(it, it.browser(), device)).status == 401

    run(tmp_path, story)


def test_passkeys_are_unavailable_without_a_domain_name(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser(host="127.0.0.1:8400", scheme="http")
        page = await browser.get("/oauth/sign-in")
        assert "data-passkey" not in page.body
        await browser.submit(page, "sign-in", username="alice", password=PASSWORD)
        assert knows(
            await browser.get("/account/security"), "Passkeys require a server with a domain name"
        )
        made = await browser.get("/account/security/passkeys/new")
        assert made.location == "/account/security"

    run(tmp_path, story, issuer="http://127.0.0.1:8400")


@pytest.mark.parametrize("many", [32])
def test_mf_11_parallel_uses_of_one_passkey_assertion_succeed_once(
    tmp_path: Path, database_url: str, many: int
) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        action, fields = page.form("passkey")
        answer = device.get(options(page))
        cookies = dict(browser.cookies)

        async def try_it() -> int:
            tab = it.browser(cookies)
            return (await tab.post(action, {**fields, "credential": answer})).status

        statuses = await asyncio.gather(*(try_it() for _ in range(many)))
        assert sorted(set(statuses)) == [303, 401]
        assert statuses.count(303) == 1

    run(tmp_path, story, database_url)


def test_challenge_made_for_another_account_in_the_same_browser_proves_nothing(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        browser, _ = await with_passkey(it)
        for_alice = await browser.get("/account/confirm")
        for name in ("__Host-session", "__Host-browser-state"):
            browser.cookies.pop(name, None)
        page = await browser.get("/oauth/sign-in")
        await browser.submit(page, "sign-in", username="bob", password=PASSWORD)
        device = SoftAuthenticator()
        page = await browser.get("/account/security/passkeys/new")
        await browser.submit(page, "add", name="Bobs", credential=device.create(options(page)))
        for_bob = await browser.get("/account/confirm")
        for confirm_page, status in ((for_alice, 401), (for_bob, 303)):
            answer = device.get(options(confirm_page))
            assert (await browser.submit(for_bob, "passkey", credential=answer)).status == status

    run(tmp_path, story)
