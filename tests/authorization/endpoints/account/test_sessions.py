"""Where one is signed in: every browser by its name, and the end of each but this."""

import re
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import grant_of, knows, live, signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import Browser
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import hours, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
)
TOLD = replace(
    WEB,
    id="told",
    openid=OpenIdRegistration(backchannel_logout_uri="https://told.example/logout"),
)


async def is_in(browser: Browser) -> bool:
    return 'id="sign-out"' in (await browser.get("/")).body


async def session_ids(it: Harness) -> list[str]:
    sessions = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
    return [session.id for session in sorted(sessions, key=lambda session: session.last_seen_at)]


def test_each_browser_is_named_and_current_one_marked(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, agent=IPHONE)
        it.clock.forward(minutes(3))
        await signed_in(it, "bob", agent="Mozilla/5.0 (Windows NT 10.0) Firefox/140.0")
        browser = await signed_in(it)
        page = await browser.get("/account/sessions")
        assert page.status == 200
        assert "no-store" in page.header("cache-control")
        assert knows(page, "Firefox on Linux")
        assert knows(page, "Safari on iPhone")
        assert knows(page, "3 minutes ago")
        assert "Windows" not in page.body
        assert page.body.count("This browser") == 1
        assert page.body.index("This browser") < page.body.index("Safari")

    run(tmp_path, story, database_url)


def test_session_started_in_the_future_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        earlier = await signed_in(it, agent=IPHONE)
        it.clock.forward(hours(1))
        later = await signed_in(it)
        assert [await is_in(earlier), await is_in(later)] == [True, True]
        it.clock.forward(-hours(1))
        assert [await is_in(earlier), await is_in(later)] == [True, False]

    run(tmp_path, story)


def test_other_session_can_be_signed_out_and_its_apps_are_notified(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(TOLD)
        phone = await signed_in(it, agent=IPHONE)
        (lost,) = await session_ids(it)

        def join(tx: Transaction) -> None:
            assert tx.participants.add(lost, "told", it.clock.now)

        await it.store.write(join)
        it.clock.forward(minutes(3))
        third = await signed_in(it)
        it.clock.forward(minutes(3))
        browser = await signed_in(it)
        bound = await grant_of(it, "web1", Scope.of("read"), session_id=lost)
        lasting = await grant_of(it, "nat1", Scope.of("read"))
        assert sorted(await live(it, ALICE)) == sorted([bound, lasting])
        page = await browser.get("/account/sessions")
        after = await browser.follow(await browser.submit(page, "end-3", session=lost))
        assert knows(after, "The session was signed out. Apps used in it are notified")
        assert not await is_in(phone)
        assert await is_in(third)
        assert await is_in(browser)
        assert await live(it, ALICE) == [lasting]
        assert await it.count("outbox") == 1
        assert (await it.events()).count("session.ended") == 1

    run(tmp_path, story, database_url)


def test_all_other_sessions_are_signed_out_at_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        others = [await signed_in(it, agent=IPHONE) for _ in range(3)]
        it.clock.forward(hours(5))
        assert await is_in(others[0])
        it.clock.forward(hours(5))
        bobs = await signed_in(it, "bob")
        browser = await signed_in(it)
        page = await browser.get("/account/sessions")
        assert page.body.count("Safari on iPhone</h2>") == 1, "two let nobody in any more"
        after = await browser.follow(await browser.submit(page, "end-all"))
        assert knows(after, "All other sessions were signed out")
        assert len(await session_ids(it)) == 1, "those that let nobody in have ended as well"
        assert await is_in(browser)
        assert await is_in(bobs)
        for other in others:
            assert not await is_in(other)

    run(tmp_path, story, database_url)


def test_session_of_another_user_is_not_found(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, agent=IPHONE)
        (hers,) = await session_ids(it)
        victim = await signed_in(it)
        browser = await signed_in(it, "bob")
        other = await signed_in(it, "bob")
        _, fields = (await browser.get("/account/sessions")).form("end-all")
        for wrong in (hers, hers[:-1], "", "se_", "\u00e9", "x" * 5_000):
            answer = await browser.post("/account/sessions", {**fields, "session": wrong})
            assert answer.status == 404, wrong
            shown = await browser.get("/account/sessions", ended=wrong)
            assert "signed out" not in shown.body
        for alive in (victim, other, browser):
            assert await is_in(alive)

    run(tmp_path, story, database_url)


def test_current_session_ends_only_at_the_sign_out_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, agent=IPHONE)
        it.clock.forward(minutes(2))
        browser = await signed_in(it)
        this = (await session_ids(it))[-1]
        page = await browser.get("/account/sessions")
        _, fields = page.form("end-all")
        assert 'href="/oauth/sign-out"' in page.body
        answer = await browser.post("/account/sessions", {**fields, "session": this})
        assert answer.status == 404
        assert await is_in(browser)

    run(tmp_path, story)


def test_cross_site_request_signs_no_user_out(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        phone = await signed_in(it, agent=IPHONE)
        browser = await signed_in(it)
        action, fields = (await browser.get("/account/sessions")).form("end-all")
        for method in ("GET", "HEAD"):
            assert (await browser.send(method, "/account/sessions?ended=others")).status == 200
        assert (
            "All other sessions were signed out"
            not in (await browser.get("/account/sessions", ended="others")).body
        )
        _, foreign = (await phone.get("/account/sessions")).form("end-all")
        assert (await browser.post(action, foreign)).status == 403
        assert (await browser.post(action, {})).status == 403
        assert (await browser.post(action, fields, {"sec-fetch-site": "cross-site"})).status == 403
        assert await is_in(phone)
        assert (await it.browser().get("/account/sessions")).location == (
            "/oauth/sign-in?to=/account/sessions"
        )

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (("pwd",), "a password"),
        (("pwd", "otp", "mfa"), "a password and a second factor"),
        (("pwd", "swk", "mfa"), "a password and a second factor"),
        (("hwk", "user", "mfa"), "a passkey"),
        ((), "a linked account"),
    ],
)
def test_session_shows_its_authentication_method(
    tmp_path: Path, methods: tuple[str, ...], words: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        stored_methods = " ".join(methods)
        await it.store.write(
            lambda tx: tx.db.run("UPDATE sessions SET methods = :m", m=stored_methods)
        )
        page = await browser.get("/account/sessions")
        assert re.search(rf"Signed in <time[^<]+</time> with {words}(?! and)", page.body)

    run(tmp_path, story)
