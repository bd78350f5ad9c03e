"""Another password: only for who knows the current one; everything else ends."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import grant_of, knows, live, signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, run
from valetkey.config.settings import LimitSettings
from valetkey.kernel.moment import minutes
from valetkey.kernel.scope import Scope

NEW = "four words nobody knows"


async def change(
    browser: Browser, current: str = PASSWORD, new: str = NEW, again: str = ""
) -> Answer:
    page = await browser.get("/account/security/password")
    assert page.status == 200, page.body
    return await browser.submit(page, "change", current=current, new=new, again=again or new)


async def is_in(browser: Browser) -> bool:
    return 'id="sign-out"' in (await browser.get("/")).body


async def stored(it: Harness) -> str | None:
    return await it.store.read(lambda tx: tx.users.password_hash(ALICE.uid))


def test_password_change_ends_other_sessions(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        phone, browser = await signed_in(it), await signed_in(it)
        await grant_of(it, "web1", Scope.of("read"))
        before = dict(browser.cookies)
        it.clock.forward(minutes(7))
        answer = await change(browser)
        assert answer.location == "/account/security/password?changed=1"
        page = await browser.follow(answer)
        assert knows(page, "Password changed")
        assert await is_in(browser)
        assert not await is_in(phone)
        assert not await is_in(it.browser(before)), "the cookie of before"
        assert await live(it, ALICE) == []
        assert (await it.events()).count("password.changed") == 1
        assert (await it.events()).count("session.ended") == 1
        it.clock.forward(minutes(6))
        again = await browser.get("/account/security/password", changed="1")
        assert not knows(again, "Your password was changed")
        stranger = it.browser()
        refused = await stranger.submit(
            await stranger.get("/oauth/sign-in"), "sign-in", username="alice", password=PASSWORD
        )
        assert refused.status == 401
        accepted = await stranger.submit(
            await stranger.get("/oauth/sign-in"), "sign-in", username="alice", password=NEW
        )
        assert accepted.location == "/"

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    ("new", "again", "words"),
    [
        ("seven77", "", "Use at least 8 characters"),
        ("", "", "Use at least 8 characters"),
        ("x" * 1_025, "", "too long or contains characters"),
        ("eight\x00888", "", "too long or contains characters"),
        ("ALICE@example.com", "", "The password must not be your username or email address"),
        (PASSWORD, "", "must differ from the current one"),
        (NEW, NEW.upper(), "The passwords do not match"),
    ],
)
def test_invalid_new_password_is_reported_at_its_field(
    tmp_path: Path, new: str, again: str, words: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        before = await stored(it)
        answer = await change(browser, new=new, again=again)
        assert answer.status == 400
        assert knows(answer, words)
        for secret in {new, again, PASSWORD} - {"", ALICE.email}:
            assert secret not in answer.body
        assert await stored(it) == before

    run(tmp_path, story)


def test_wrong_current_passwords_count_as_failed_sign_ins(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        before = await stored(it)
        for guess in ("", "null", "wrong wrong"):
            answer = await change(browser, current=guess)
            assert answer.status == 401
            assert knows(answer, "Incorrect current password. Nothing was changed")
        answer = await change(browser)
        assert answer.status == 429
        assert int(answer.header("retry-after")) > 0
        stranger = it.browser()
        refused = await stranger.submit(
            await stranger.get("/oauth/sign-in"), "sign-in", username="alice", password=PASSWORD
        )
        assert refused.status == 429
        assert await stored(it) == before
        assert (await it.events()).count("sign_in.failed") == 3
        assert "password.changed" not in await it.events()

    run(tmp_path, story, database_url, limits=LimitSettings(sign_in_failures=3))


def test_parallel_password_changes_succeed_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browsers = [await signed_in(it) for _ in range(2)]
        pages = [await browser.get("/account/security/password") for browser in browsers]
        answers = await asyncio.gather(
            *(
                browser.submit(
                    page, "change", current=PASSWORD, new=f"{NEW} {number}", again=f"{NEW} {number}"
                )
                for number, (browser, page) in enumerate(zip(browsers, pages, strict=True))
            )
        )
        done = [answer for answer in answers if "changed" in answer.location]
        assert len(done) == 1
        assert (await it.events()).count("password.changed") == 1
        assert [await is_in(browser) for browser in browsers].count(True) == 1

    run(tmp_path, story, database_url)


def test_password_change_requires_the_own_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser, elsewhere = await signed_in(it), await signed_in(it)
        before = await stored(it)
        passwords = {"current": PASSWORD, "new": NEW, "again": NEW}
        action, fields = (await browser.get("/account/security/password")).form("change")
        _, foreign = (await elsewhere.get("/account/security/password")).form("change")
        for wrong in ({}, {"csrf": "x"}, {"csrf": foreign["csrf"]}):
            assert (await browser.post(action, {**passwords, **wrong})).status == 403
        cross = {"sec-fetch-site": "cross-site"}
        assert (await browser.post(action, {**fields, **passwords}, cross)).status == 403
        assert (await browser.send("GET", f"{action}?current=x&new=y")).status == 200
        assert (await it.browser().post(action, passwords)).location == "/oauth/sign-in"
        assert await stored(it) == before

    run(tmp_path, story)
