"""Users of secured accounts add a second factor before anything else, however they sign in."""

import asyncio
import re
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.account.security.factors import code, key_of, options
from tests.authorization.endpoints.admin.people import administrator, do
from tests.authorization.endpoints.admin.test_user_forms import WORD, choose, found
from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.authenticator import SoftAuthenticator
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, BOB, PKCE, WEB, run
from valetkey.authorization.authentication.session import PROOF_LASTS
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import FactorKind, Role
from valetkey.authorization.operations.operation import Done
from valetkey.authorization.operations.user_access import SECURE, WAIVE_FACTOR
from valetkey.authorization.operations.user_records import (
    AccountSecured,
    PasswordLink,
    PasswordLinkIssued,
)
from valetkey.authorization.protocol.interaction import LIFETIME
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

REQUIRED = "/account/security/second-factor"
AUTHENTICATOR = "/account/security/authenticator/new"
PASSKEY = "/account/security/passkeys/new"
OPENID = replace(WEB, scope=WEB.scope | Scope.of("openid"))
BOBS = {"uid": str(BOB.uid)}


async def secure(it: Harness) -> str:
    """Secure Bob's account; return the path of the link for a new password."""
    issued = await it.perform(SECURE, BOBS, AccountSecured(PasswordLink.SHOW))
    assert isinstance(issued, PasswordLinkIssued)
    assert issued.password_link is not None
    link = urlsplit(issued.password_link)
    return f"{link.path}?{link.query}"


async def secured(it: Harness) -> Browser:
    """A browser of Bob, who has the new password and has not signed in yet."""
    browser = it.browser()
    assert (await choose(browser, await secure(it))).status == 200
    return browser


async def is_required(it: Harness) -> bool:
    return (await found(it, "bob")).factor_required_at is not None


def link(page: Answer, name: str) -> str:
    """Where the link with this id leads."""
    match = re.search(rf'<a[^>]*id="{name}"[^>]*href="([^"]*)"', page.body)
    assert match is not None, page.body
    return unescape(match[1])


async def with_app(it: Harness, browser: Browser, page: Answer) -> Answer:
    """Set up an authenticator app from the page that requires a factor; return what follows."""
    assert knows(page, "Your account was secured"), page.body
    setup = await browser.get(link(page, "add-authenticator"))
    assert setup.status == 200, setup.location
    codes = await browser.submit(setup, "set-up", code=code(it, key_of(setup)))
    assert knows(codes, "Save your recovery codes"), codes.body
    return await browser.get(link(codes, "done"))


@pytest.mark.parametrize(
    "to", ["/account/sessions", "/account/apps?q=x", "/developer", "/device", "/device/BCDF-GHJK"]
)
def test_user_continues_to_the_page_after_adding_a_factor(
    tmp_path: Path, database_url: str, to: str
) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.get("/oauth/sign-in", to=to), "bob", WORD)
        assert await is_required(it)
        assert (await bob.get(to)).location.startswith(REQUIRED)
        assert (await bob.get("/")).location == REQUIRED
        after = await with_app(it, bob, page)
        assert not await is_required(it)
        # No device waits for that code.
        assert after.status == (400 if to.endswith("GHJK") else 200)
        assert (await bob.get("/")).status == 200
        assert (await bob.get(REQUIRED)).location == "/"

    run(tmp_path, story, database_url)


def test_other_sessions_end_when_the_factor_is_added(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.get("/oauth/sign-in"), "bob", WORD)
        other = it.browser()
        await other.sign_in(await other.get("/oauth/sign-in"), "bob", WORD)
        assert (await other.get("/account/apps")).location.startswith(REQUIRED)
        await with_app(it, bob, page)
        assert (await bob.get("/account/apps")).status == 200
        assert (await other.get("/account/apps")).location.startswith("/oauth/sign-in")
        assert (await other.ask(prompt="none")).told["error"] == "login_required"

    run(tmp_path, story, database_url)


def test_user_continues_to_the_start_page_without_a_target(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.get("/oauth/sign-in"), "bob", WORD)
        after = await with_app(it, bob, page)
        assert knows(after, "Your account") or after.status == 200

    run(tmp_path, story)


def test_app_gets_its_code_after_a_factor_was_added(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.ask(**PKCE), "bob", WORD)
        # No address of the request leads past it: neither the page of consent, nor a second tab.
        sealed = link(page, "add-authenticator").partition("?")[2]
        for path in ("/oauth/authorize", "/oauth/consent"):
            on = await bob.follow(await bob.get(f"{path}?{sealed}"))
            assert knows(on, "Your account was secured"), path
        assert knows(await bob.ask(state="again"), "Your account was secured")
        consent = await with_app(it, bob, page)
        consent = await bob.follow(consent)
        assert (await bob.allow(consent)).told["code"]

    run(tmp_path, story, database_url)


def test_request_continues_after_late_confirmation_and_its_expiry(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.ask(state="s" * 1_500), "bob", WORD)
        setup = page
        for later in (PROOF_LASTS, LIFETIME):
            it.clock.forward(later)
            confirm = await bob.follow(await bob.get(link(page, "add-authenticator")))
            assert knows(confirm, "Confirm your identity")
            setup = await bob.follow(await bob.submit(confirm, "confirm", password=WORD))
        codes = await bob.submit(setup, "set-up", code=code(it, key_of(setup)))
        consent = await bob.follow(await bob.get(link(codes, "done")))
        assert (await bob.allow(consent)).told["state"] == "s" * 1_500

    run(tmp_path, story)


def test_request_survives_the_end_of_the_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.ask(state="s" * 1_500), "bob", WORD)
        setup = link(page, "add-authenticator")
        bob.cookies.pop("__Host-session")
        again = await bob.follow(await bob.get(setup))
        done = await bob.sign_in(again, "bob", WORD)
        codes = await bob.submit(done, "set-up", code=code(it, key_of(done)))
        consent = await bob.follow(await bob.get(link(codes, "done")))
        assert (await bob.allow(consent)).told["code"]

    run(tmp_path, story)


def test_prompt_none_returns_interaction_required_until_a_factor_exists(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        scope, now = Scope.of("read", "notes:read"), it.clock.now
        bob = await secured(it)
        page = await bob.sign_in(await bob.get("/oauth/sign-in"), "bob", WORD)
        consent = Consent(BOB.uid, WEB.id, scope, WEB.appearance, now)
        await it.write(lambda tx: tx.consents.save(consent))
        refused = await bob.ask(prompt="none")
        assert refused.told["error"] == "interaction_required"
        assert "code" not in refused.told
        # Without a session it is the sign-in that is missing.
        assert (await it.browser().ask(prompt="none")).told["error"] == "login_required"
        await with_app(it, bob, page)
        assert (await bob.ask(prompt="none")).told["code"]

    run(tmp_path, story, database_url)


@pytest.mark.parametrize("prompt", ["login", "consent", "select_account"])
def test_factor_is_required_with_every_prompt_value(tmp_path: Path, prompt: str) -> None:
    async def story(it: Harness) -> None:
        await it.change(OPENID)
        bob = await secured(it)
        page = await bob.sign_in(await bob.get("/oauth/sign-in"), "bob", WORD)
        answer = await bob.ask(prompt=prompt, scope="openid read", nonce="n-1")
        if 'name="password"' in answer.body:
            answer = await bob.sign_in(answer, "bob", WORD)
        assert knows(answer, "Your account was secured")
        consent = await bob.follow(await with_app(it, bob, answer))
        assert (await bob.allow(consent)).told["code"]
        assert page.status == 200

    run(tmp_path, story)


def test_app_that_needs_two_factors_gets_them_after_another_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.change(OPENID)
        acr = '{"id_token":{"acr":{"essential":true,"value":"urn:valetkey:acr:two_factors"}}}'
        parameters = {"scope": "openid read", "claims": acr, "nonce": "n-1"}
        bob = await secured(it)
        page = await bob.sign_in(await bob.ask(**parameters), "bob", WORD)
        silent = await bob.ask(**{**parameters, "prompt": "none"})
        assert silent.told["error"] == "unmet_authentication_requirements"
        setup = await bob.get(link(page, "add-authenticator"))
        key = key_of(setup)
        codes = await bob.submit(setup, "set-up", code=code(it, key))
        again = await bob.follow(await bob.get(link(codes, "done")))
        second = await bob.sign_in(again, "bob", WORD)
        it.clock.forward(30)
        consent = await bob.follow(await bob.submit(second, "with-code", code=code(it, key)))
        assert (await bob.allow(consent)).told["code"]

    run(tmp_path, story)


def test_a_passkey_ends_the_requirement_and_recovery_codes_do_not(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        bob = await secured(it)
        page = await bob.sign_in(await bob.get("/oauth/sign-in"), "bob", WORD)
        assert (await bob.get("/account/security/recovery-codes")).location.startswith(REQUIRED)
        setup = await bob.get(link(page, "add-passkey"))
        # The form itself, whatever page it is from: a token of the account area is the right one.
        _, fields = setup.form("add")
        csrf = {"csrf": fields["csrf"]}
        answer = await bob.post("/account/security/recovery-codes", csrf)
        assert answer.location.startswith(REQUIRED)
        assert await is_required(it)
        made = SoftAuthenticator().create(options(setup))
        codes = await bob.submit(setup, "add", name="Laptop", credential=made)
        assert knows(codes, "Save your recovery codes")
        assert not await is_required(it)
        assert (await bob.get("/account/sessions")).status == 200

    run(tmp_path, story, database_url)


def test_factors_added_before_securing_are_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        thief, device = await signed_in(it, "bob"), SoftAuthenticator()
        page = await thief.get(PASSKEY)
        assert (
            await thief.submit(page, "add", name="x", credential=device.create(options(page)))
        ).status == 200
        bob = await secured(it)
        assert await is_required(it)
        kinds = await it.read(lambda tx: tx.credentials.kinds_of(BOB.uid))
        assert kinds == {FactorKind.PASSWORD}
        signing = await it.browser().get("/oauth/sign-in")
        refused = await thief.submit(signing, "passkey", credential=device.get(options(signing)))
        assert refused.status in {401, 403}
        assert (await bob.get("/account/sessions")).status == 303

    run(tmp_path, story, database_url)


def test_administrator_can_see_and_waive_required_factor(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        at = it.clock.now
        bob = await secured(it)
        assert (await bob.sign_in(await bob.get("/oauth/sign-in"), "bob", WORD)).status == 200
        admin, path = await administrator(it, Role.ADMINISTRATOR), f"/admin/users/{BOB.uid}"
        must = "the user must add a passkey or an authenticator app"
        assert knows(await admin.get(path), must)
        program = await caller(it, uid=ALICE.uid)
        host = {"host": "auth.example"}
        read = await program.call("GET", f"/users/{BOB.uid}", headers=host)
        assert read.record["factor_required_at"] == at
        done = await do(admin, f"{path}/waive-factor")
        assert knows(await admin.follow(done), "A second factor is no longer required.")
        assert not knows(await admin.get(path), must)
        read = await program.call("GET", f"/users/{BOB.uid}", headers=host)
        assert read.record["factor_required_at"] is None
        assert (await bob.get("/account/sessions")).status == 200
        support = await administrator(it, Role.SUPPORT)
        assert (await support.get(f"{path}/waive-factor")).status == 404

    run(tmp_path, story, database_url)


def test_secured_administrator_cannot_waive_the_factor_for_themselves(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        program = await caller(it, uid=ALICE.uid)
        path = f"/users/{ALICE.uid}/required-factor"
        answer = await program.call("DELETE", path, headers={"host": "auth.example"})
        assert answer.status == 409

    run(tmp_path, story)


def test_factor_that_arrives_while_the_account_is_secured_does_not_end_the_requirement(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        word = PASSWORD
        for _ in range(4):
            thief = it.browser()
            page = await thief.sign_in(await thief.get("/oauth/sign-in"), "bob", word)
            assert page.status == 200
            setup = await thief.get(AUTHENTICATOR)
            typed = code(it, key_of(setup))
            adding, issued = await asyncio.gather(
                thief.submit(setup, "set-up", code=typed), secure(it)
            )
            assert adding.status in {200, 303, 403}
            assert await it.read(lambda tx: tx.credentials.authenticator_of(BOB.uid)) is None
            assert await is_required(it)
            assert (await choose(it.browser(), issued)).status == 200
            # For the next turn: whoever signs in now is not stopped by the requirement.
            assert await it.perform(WAIVE_FACTOR, BOBS) == Done(changed=True)
            assert await it.perform(WAIVE_FACTOR, BOBS) == Done(changed=False)
            word = WORD
            it.clock.forward(30)

    run(tmp_path, story, database_url)
