"""Authenticator apps: set up by a code, asked for after the password, each code once."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.account.security.factors import (
    after_password,
    code,
    key_of,
    with_app,
)
from tests.support.harness import Harness
from tests.support.plain_browser import Browser
from tests.support.visitors import ALICE, run
from valetkey.authorization.authentication.factors import PERIOD


def test_authenticator_app_is_added_only_by_valid_code(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await signed_in(it)
        page = await alice.get("/account/security/authenticator/new")
        key = key_of(page)
        assert "<svg" in page.body
        wrong = await alice.submit(page, "set-up", code="000000")
        assert wrong.status == 400
        assert key_of(wrong) == key
        assert not await it.store.read(lambda tx: tx.users.has_second_factor(ALICE.uid))
        done = await alice.submit(wrong, "set-up", code=code(it, key))
        assert knows(done, "Save your recovery codes")
        assert await it.store.read(lambda tx: tx.users.has_second_factor(ALICE.uid))
        overview = await alice.get("/account/security")
        assert knows(overview, "You have 10 codes left")
        events = await it.events()
        assert events.count("authenticator.added") == events.count("recovery_codes.issued") == 1
        # The secret is sealed where it lies.
        row = await it.store.read(lambda tx: tx.credentials.authenticator_of(ALICE.uid))
        assert row is not None
        assert row.sealed.startswith("v1.")

    run(tmp_path, story, database_url)


def test_password_alone_is_refused_with_second_factor(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        assert knows(page, "One more step")
        assert "__Host-session" not in browser.cookies
        assert (await browser.get("/account/apps")).status == 303
        wrong = await browser.submit(page, "with-code", code="000000")
        assert wrong.status == 401
        assert knows(wrong, "Incorrect or already used code")
        done = await browser.submit(wrong, "with-code", code=code(it, key))
        assert done.location == "/"
        assert (await browser.get("/account/apps")).status == 200
        assert "__Host-step" not in browser.cookies
        assert "second_factor.failed" in await it.events()

    run(tmp_path, story, database_url)


def test_second_factor_continues_to_the_app_or_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser, to="/account/sessions")
        done = await browser.submit(page, "with-code", code=code(it, key))
        assert done.location == "/account/sessions"
        it.clock.forward(PERIOD)
        other = it.browser()
        page = await other.sign_in(await other.ask())
        assert knows(page, "One more step")
        consent = await other.follow(await other.submit(page, "with-code", code=code(it, key)))
        assert (await other.allow(consent)).told["code"]

    run(tmp_path, story)


def test_cancel_at_the_second_factor_returns_access_denied(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await with_app(it)
        browser = it.browser()
        page = await browser.sign_in(await browser.ask())
        denied = await browser.follow(await browser.submit(page, "cancel", decision="deny"))
        assert denied.told["error"] == "access_denied"

    run(tmp_path, story)


_STEPS = [(-2, False), (-1, True), (0, True), (1, True), (2, False)]


@pytest.mark.parametrize(("off", "good"), _STEPS)
def test_mf_03_codes_of_adjacent_time_steps_are_accepted(
    tmp_path: Path, off: int, good: bool
) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        it.clock.forward(10 * PERIOD)
        browser = it.browser()
        page = await after_password(it, browser)
        done = await browser.submit(page, "with-code", code=code(it, key, off))
        assert (done.status == 303) is good

    run(tmp_path, story)


def test_mf_01_parallel_uses_of_one_code_succeed_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        step = browser.cookies["__Host-step"]
        action, fields = page.form("with-code")
        right = code(it, key)

        async def try_it() -> int:
            tab = it.browser({**browser.cookies, "__Host-step": step})
            return (await tab.post(action, {**fields, "code": right})).status

        statuses = await asyncio.gather(*(try_it() for _ in range(64)))
        assert statuses.count(303) == 1
        assert set(statuses) <= {303, 401, 429}

    run(tmp_path, story, database_url)


def test_mf_01_used_code_is_refused_in_another_browser(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        right = code(it, key)
        mine, thief = it.browser(), it.browser()
        page = await after_password(it, mine)
        seen = await after_password(it, thief)
        assert (await mine.submit(page, "with-code", code=right)).status == 303
        assert (await thief.submit(seen, "with-code", code=right)).status == 401
        # Nor is one from before it.
        assert (await thief.submit(seen, "with-code", code=code(it, key, -1))).status == 401

    run(tmp_path, story)


@pytest.mark.parametrize(
    "typed",
    ["", "12345", "1234567", "abcdef", "١٢٣٤٥٦", "１２３４５６", "1\x0023456", "x" * 10_000],
    ids=lambda typed: repr(typed)[:12],
)
def test_malformed_code_is_refused_without_server_error(tmp_path: Path, typed: str) -> None:
    async def story(it: Harness) -> None:
        await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        assert (await browser.submit(page, "with-code", code=typed)).status == 401

    run(tmp_path, story)


def test_second_step_is_bound_to_its_browser_target_and_lifetime(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        step = browser.cookies["__Host-step"]
        # Another browser with the copied cookie.
        thief = it.browser()
        await thief.get("/oauth/sign-in")
        thief.cookies["__Host-step"] = step
        assert (await thief.get("/oauth/second-factor")).location == "/oauth/sign-in"
        # Another way in the same browser.
        other = await browser.get("/oauth/second-factor", to="/account/apps")
        assert other.location.startswith("/oauth/sign-in?to=")
        assert "__Host-step" not in browser.cookies
        browser.cookies["__Host-step"] = step
        it.clock.forward(600)
        late = await browser.submit(page, "with-code", code=code(it, key))
        assert late.location == "/oauth/sign-in"

    run(tmp_path, story)


def test_password_change_ends_the_second_step(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        await it.store.write(
            lambda tx: tx.users.set_password_hash(ALICE.uid, "cr_new", "another", it.clock.now)
        )
        done = await browser.submit(page, "with-code", code=code(it, key))
        assert done.location == "/oauth/sign-in"
        assert "__Host-session" not in browser.cookies

    run(tmp_path, story)


def test_waits_for_wrong_codes_grow_and_spare_a_familiar_browser(
    tmp_path: Path,
) -> None:
    async def guess(it: Harness, browser: Browser) -> int:
        page = await after_password(it, browser)
        answer = await browser.submit(page, "with-code", code="000000")
        return int(answer.header("retry-after") or 0)

    async def story(it: Harness) -> None:
        mine, key, _ = await with_app(it)
        await mine.submit(await mine.get("/oauth/sign-out"), "sign-out")
        thief = it.browser()
        waits = [await guess(it, thief) for _ in range(6)]
        assert waits[:5] == [0] * 5
        assert 0 < waits[5] <= 181
        later: list[int] = []
        for _ in range(2):
            it.clock.forward(900)
            later += [await guess(it, thief) for _ in range(5)]
        assert max(later) > 181
        # Who signed in here before is not kept out by it.
        page = await after_password(it, mine)
        assert (await mine.submit(page, "with-code", code=code(it, key))).status == 303

    run(tmp_path, story)


def test_removing_the_last_factor_is_confirmed_and_deletes_recovery_codes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        ask = await alice.get("/account/security/authenticator/remove")
        assert knows(ask, "This is the last second factor of your account")
        done = await alice.submit(ask, "remove")
        assert done.location.startswith("/account/security?done=")
        assert knows(await alice.follow(done), "Codes from that authenticator app no longer work")
        left = await it.store.read(lambda tx: tx.credentials.recovery_codes_of(ALICE.uid))
        assert left.left == 0
        browser = it.browser()
        assert knows(await after_password(it, browser), "Alice")
        assert "__Host-session" in browser.cookies

    run(tmp_path, story)
