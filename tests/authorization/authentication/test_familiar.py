"""Familiar browsers: strangers who guess keep nobody out, and gain nothing by it."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import run
from valetkey.authorization.authentication.browsers import KnownBrowser
from valetkey.authorization.model.user import Uid
from valetkey.config.settings import LimitSettings
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import FingerprintKey

KEY = FingerprintKey(b"k" * 32)
FEW = LimitSettings(sign_in_failures=3, sign_in_failures_per_address=4)
NAME = "__Host-familiar"


async def sign_in(browser: Browser, word: str, name: str = "alice") -> Answer:
    page = await browser.get("/oauth/sign-in")
    return await browser.submit(page, "sign-in", username=name, password=word)


async def guessed_from_everywhere(it: Harness) -> None:
    """Strangers have used up every try at the account."""
    for number in range(15):
        stranger = it.browser()
        stranger.address = f"198.51.{number}.7"
        for _ in range(3):
            await sign_in(stranger, "guess")
    assert (await sign_in(it.browser(), PASSWORD)).status == 429


async def away(browser: Browser) -> None:
    browser.cookies.pop("__Host-session")


def test_known_browser_is_not_locked_out_by_guesses_from_elsewhere(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        mine = await signed_in(it)
        assert NAME in mine.cookies
        await away(mine)
        await guessed_from_everywhere(it)
        # Nor by a neighbour who guesses at others.
        near = it.browser()
        for name in "bcdefg":
            await sign_in(near, "guess", name)
        assert (await sign_in(mine, "mistyped")).status == 401
        assert (await sign_in(mine, PASSWORD)).status == 303

    run(tmp_path, story, limits=FEW)


def test_familiar_browser_has_the_same_attempt_limit(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        mine = await signed_in(it)
        await away(mine)
        statuses = [(await sign_in(mine, "guess")).status for _ in range(4)]
        assert statuses == [401, 401, 401, 429]
        # A copy of the cookie has no more of them.
        copy = it.browser({NAME: mine.cookies[NAME]})
        copy.address = "203.0.113.9"
        assert (await sign_in(copy, PASSWORD)).status == 429
        many = await asyncio.gather(*(sign_in(it.browser(dict(copy.cookies)), "x") for _ in "1234"))
        assert {answer.status for answer in many} == {429}

    run(tmp_path, story, limits=FEW)


def test_known_browser_counts_only_for_accounts_that_used_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        bobs = await signed_in(it, "bob")
        await away(bobs)
        await guessed_from_everywhere(it)
        assert (await sign_in(bobs, PASSWORD)).status == 429

    run(tmp_path, story, limits=FEW)


def test_cookie_holds_at_most_five_accounts_and_cannot_be_forged() -> None:
    cookie = ""
    for uid in range(1, 8):
        cookie = KnownBrowser(cookie, KEY).with_account(Uid(uid), SYSTEM.random)
    uids = [uid for uid in range(1, 8) if KnownBrowser(cookie, KEY).mark(Uid(uid))]
    assert uids == [3, 4, 5, 6, 7]
    again = KnownBrowser(cookie, KEY).with_account(Uid(5), SYSTEM.random)
    assert len(again) == len(cookie)
    assert not KnownBrowser(cookie, FingerprintKey(b"x" * 32)).mark(Uid(5))
    other_name = "A" * 22 + cookie[22:]
    assert not KnownBrowser(other_name, KEY).mark(Uid(5))


@pytest.mark.parametrize("text", ["", "x", "." * 60, "A" * 22, "A" * 22 + "." + "é" * 43])
def test_invalid_cookie_is_an_unknown_browser(text: str) -> None:
    assert KnownBrowser(text, KEY).mark(Uid(1)) == ""
    assert KnownBrowser(text, KEY).with_account(Uid(1), SYSTEM.random).count(".") == 1
