"""The sign-in page: who gets in, what is kept, and what a session is good for."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.visitor.looks import is_page
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.model.grant import Grant
from valetkey.config.settings import LimitSettings
from valetkey.kernel.moment import days, hours, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

LIMITS = LimitSettings(
    sign_in_failures=3, sign_in_failures_per_address=50, sign_in_window=minutes(3)
)


@pytest.mark.parametrize(
    "word", ["wrong", "null", "", "a" * 10_240, PASSWORD + "\0", "<script>"], ids=lambda w: w[:9]
)
def test_lg_13_wrong_password_shows_the_form_again_with_an_error(tmp_path: Path, word: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        failed = await alice.submit(page, "sign-in", username='al"<ice', password=word)
        assert failed.status == 401
        assert failed.location == ""
        assert "Incorrect username or password" in failed.body
        assert 'value="al&#34;&lt;ice"' in failed.body
        assert not word or word not in failed.body
        assert "__Host-session" not in alice.cookies
        assert await it.events() == ["sign_in.failed"]
        # From the same page it can be tried again.
        assert (await alice.sign_in(failed)).status == 200

    run(tmp_path, story)


@pytest.mark.parametrize(
    "name", ["", "a\0b", "\r\n", "a" * 9_000, "\u202e", "' or 1=1--"], ids=ascii
)
def test_invalid_username_is_refused_like_a_wrong_password(tmp_path: Path, name: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        failed = await alice.submit(page, "sign-in", username=name, password=PASSWORD)
        assert failed.status == 401
        assert "Incorrect username or password" in failed.body

    run(tmp_path, story)


def test_after_many_failures_the_page_says_how_long_to_wait(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        for _ in range(3):
            await alice.submit(page, "sign-in", username="alice", password="wrong")
        waits = await alice.submit(page, "sign-in", username="alice", password=PASSWORD)
        assert waits.status == 429
        assert int(waits.header("retry-after")) in {60, 61}
        assert "many attempts" in waits.body
        assert "__Host-session" not in alice.cookies

    run(tmp_path, story, limits=LIMITS)


def test_login_hint_fills_in_the_username(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        page = await it.browser().ask(login_hint="ada@example.com")
        assert 'value="ada@example.com"' in page.body

    run(tmp_path, story)


def test_sign_in_without_an_app_redirects_to_home(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.get("/oauth/sign-in")
        assert 'id="cancel"' not in page.body
        home = await alice.sign_in(page)
        assert "Alice Liddell" in home.body
        assert (await alice.get("/oauth/sign-in")).location == "/"

    run(tmp_path, story)


def test_repeated_sign_in_keeps_the_session_and_replaces_its_cookie(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.ask())
        first, mark = alice.cookies["__Host-session"], alice.cookies["__Host-browser-state"]
        assert first.startswith("vk_se_")
        before = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
        it.clock.forward(100)
        await alice.sign_in(await alice.ask(prompt="login"))
        assert alice.cookies["__Host-session"] != first
        assert alice.cookies["__Host-browser-state"] == mark
        old = it.browser({"__Host-session": first})
        assert "Alice" not in (await old.get("/")).body
        assert "Alice" in (await alice.get("/")).body
        after = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
        assert [session.id for session in after] == [session.id for session in before]
        assert after[0].auth_time == before[0].auth_time + 100
        assert after[0].expires_at == before[0].expires_at + 100
        assert sorted(await it.events()) == ["session.renewed", "session.started"]

    run(tmp_path, story, database_url)


def test_sign_in_as_another_user_ends_the_earlier_session(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        await browser.sign_in(await browser.ask())
        first = browser.cookies["__Host-session"]
        await browser.sign_in(await browser.ask(prompt="login"), "bob")
        assert browser.cookies["__Host-session"] != first
        assert await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now)) == []
        assert len(await it.store.read(lambda tx: tx.sessions.live_of(BOB.uid, it.clock.now))) == 1
        assert sorted(await it.events()) == ["session.ended", "session.started", "session.started"]

    run(tmp_path, story, database_url)


def test_sign_in_after_the_idle_limit_starts_a_new_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.ask())
        it.clock.forward(it.server.sessions.idle)
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        assert sorted(await it.events()) == ["session.ended", "session.started", "session.started"]

    run(tmp_path, story)


def test_parallel_repeated_sign_ins_renew_the_session_once(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.ask())
        one = dict(alice.cookies)
        tabs = [it.browser(one) for _ in range(8)]
        pages = [await tab.ask(prompt="login") for tab in tabs]
        await asyncio.gather(*(tab.sign_in(page) for tab, page in zip(tabs, pages, strict=True)))
        assert all(["Alice" in (await tab.get("/")).body for tab in tabs])
        names = await it.events()
        assert names.count("session.renewed") == 1
        assert names.count("session.started") == len(tabs)
        assert "session.ended" not in names

    run(tmp_path, story, database_url)


def test_sign_in_replaces_a_planted_session_cookie(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        planted = "vk_se_" + "0" * 49
        alice = it.browser({"__Host-session": planted})
        await alice.sign_in(await alice.ask())
        assert alice.cookies["__Host-session"] != planted

    run(tmp_path, story)


def test_lg_07_altered_session_cookies_are_ignored(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        whole = alice.cookies["__Host-session"]
        for text in (whole[:-1], whole + "0", whole.upper(), "vk_br" + whole[5:], ""):
            other = it.browser({"__Host-session": text})
            assert "Alice" not in (await other.get("/")).body
        twice = it.browser({"x": f"1; __Host-session={whole}; __Host-session={whole}"})
        assert "Alice" not in (await twice.get("/")).body

    run(tmp_path, story)


def test_session_ends_after_idle_time_and_maximum_age(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        for _ in range(3):
            it.clock.forward(hours(7))
            assert "Alice" in (await alice.get("/")).body
        it.clock.forward(hours(8))
        assert "Alice" not in (await alice.get("/")).body
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        for _ in range(30 * 4 - 1):
            it.clock.forward(days(1) // 4)
            assert "Alice" in (await alice.get("/")).body
        it.clock.forward(days(1) // 4)
        assert "Alice" not in (await alice.get("/")).body

    run(tmp_path, story)


def test_last_use_of_a_session_is_stored_at_most_once_a_minute(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        begun = it.clock.now

        async def seen() -> int:
            sessions = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, begun))
            return sessions[0].last_seen_at - begun

        for passes, noted in ((59, 0), (1, 60), (30, 60), (30, 120)):
            it.clock.forward(passes)
            await alice.get("/")
            assert await seen() == noted

    run(tmp_path, story)


def test_sign_in_with_a_wrong_csrf_token_or_origin_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.get("/oauth/sign-in")
        good = {"username": "alice", "password": PASSWORD}
        is_page(await alice.submit(page, "sign-in", csrf="x", **good), 403)
        is_page(await it.browser().post("/oauth/sign-in", good), 403)
        token = page.form("sign-in")[1]["csrf"]
        is_page(await it.browser().post("/oauth/sign-in", {**good, "csrf": token}), 403)
        foreign = {"origin": "https://evil.test"}
        is_page(await alice.post("/oauth/sign-in", {**good, "csrf": token}, foreign), 403)
        assert await it.events() == []

    run(tmp_path, story)


def test_lg_21_parallel_sign_ins_get_separate_sessions(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        async def one(name: str, shown: str) -> None:
            browser = it.browser()
            home = await browser.sign_in(await browser.get("/oauth/sign-in"), name)
            assert shown in home.body

        people = [("alice", "alice@example.com"), ("bob", "bob@example.com")] * 8
        await asyncio.gather(*(one(*person) for person in people))

    run(tmp_path, story)


def test_sign_out_requires_confirmation_and_ends_the_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        cookies = dict(alice.cookies)
        page = await alice.get("/oauth/sign-out")
        assert "Alice Liddell" in page.body
        assert "Alice" in (await alice.get("/")).body
        done = await alice.follow(await alice.submit(page, "sign-out"))
        assert "You are signed out" in done.body
        assert "__Host-session" not in alice.cookies
        # The cookie is worth nothing any more, wherever it was kept.
        assert "Alice" not in (await it.browser(cookies).get("/")).body
        assert sorted(await it.events()) == ["session.ended", "session.started"]
        again = await alice.get("/oauth/sign-out")
        assert "You are signed out" in again.body

    run(tmp_path, story)


def test_lg_23_sign_out_requires_the_own_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        page = await alice.get("/oauth/sign-out")
        is_page(await alice.post("/oauth/sign-out", {}), 403)
        is_page(await alice.submit(page, "sign-out", csrf="x"), 403)
        action, fields = page.form("sign-out")
        is_page(await alice.post(action, fields, {"sec-fetch-site": "cross-site"}), 403)
        assert "Alice" in (await alice.get("/")).body
        # The button on the home page is as good.
        home = await alice.get("/")
        await alice.submit(home, "sign-out")
        assert "Alice" not in (await alice.get("/")).body

    run(tmp_path, story)


def test_lg_23_grants_bound_to_the_session_end_with_it_and_no_others(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        now = it.clock.now
        (session,) = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, now))
        bound = Grant(
            id="gr_bound",
            client_id=WEB.id,
            uid=ALICE.uid,
            session_id=session.id,
            scope=Scope.of("read"),
            audience="https://api.example",
            grant_type="authorization_code",
            auth_time=now,
            created_at=now,
            last_used_at=now,
            expires_at=session.expires_at,
        )
        free = replace(bound, id="gr_free", session_id="")
        others = replace(bound, id="gr_bob", uid=BOB.uid, session_id="")
        for grant in (bound, free, others):
            await it.store.write(lambda tx, grant=grant: tx.grants.issue(grant))  # type: ignore[misc]
        await alice.submit(await alice.get("/oauth/sign-out"), "sign-out")
        of_alice = await it.store.read(lambda tx: tx.grants.live_of_user(bound.uid, now, 9))
        of_bob = await it.store.read(lambda tx: tx.grants.live_of_user(BOB.uid, now, 9))
        assert [grant.id for grant in (*of_alice, *of_bob)] == ["gr_free", "gr_bob"]
        assert "grant.revoked" in await it.events()

    run(tmp_path, story)


def test_scope_removed_meanwhile_is_refused_before_sign_in(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        await it.change(replace(WEB, scope=Scope.of("write")))
        action, _ = page.form("sign-in")
        for answer in (await alice.get(action), await alice.sign_in(page)):
            assert answer.told["error"] == "invalid_scope"
        assert await it.events() == []

    run(tmp_path, story)


def test_repeated_sign_out_succeeds_and_ends_the_session_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        page = await alice.get("/oauth/sign-out")
        both = await asyncio.gather(*(alice.submit(page, "sign-out") for _ in range(2)))
        assert [answer.status for answer in both] == [303, 303]
        late = await alice.submit(page, "sign-out")
        assert (late.status, late.location) == (303, "/oauth/sign-out")
        assert (await it.events()).count("session.ended") == 1

    run(tmp_path, story)
