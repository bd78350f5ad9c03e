"""Who gets into administration, for how long, and what everybody else finds there: nothing."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.authorization.endpoints.admin.people import administrator, give
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.model.user import Role
from valetkey.kernel.moment import hours, minutes

COOKIE = "__Host-administration"


def test_visitors_sign_in_and_users_without_role_get_404(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        paths = ("/admin/users", "/admin/users/1001", "/admin/users/9999", "/admin/roles")
        stranger = it.browser()
        for path in ("/admin", *paths):
            # Neither says whether there is such a user.
            assert (await stranger.get(path)).location == f"/oauth/sign-in?to={path}", path
        assert (await stranger.get("/admin/owner")).status == 404
        bob = await signed_in(it, "bob")
        for path in ("/admin", "/admin/owner", *paths):
            assert (await bob.get(path)).status == 404, path
        assert "/admin" not in (await bob.get("/account/sessions")).body
        assert COOKIE not in bob.cookies

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/users/1002",
        "/admin/users?q=bob",
        "/admin/events?name=session.started&before=%32",
        "/account/activity",
        "/account/apps/app?id=web1",
        "/developer",
    ],
)
def test_deep_link_redirects_to_sign_in_and_back(path: str, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await give(it, Role.OWNER)
        browser = it.browser()
        answer = await browser.get(path)
        assert answer.status == 303
        page = await browser.follow(answer)
        done = await browser.submit(page, "sign-in", username="alice", password=PASSWORD)
        assert done.location == path

    run(tmp_path, story)


@pytest.mark.parametrize("role", list(Role))
def test_every_role_can_read_the_console(role: Role, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, role)
        for path in ("/admin", "/admin/users", "/admin/users/1002", "/admin/roles"):
            assert (await browser.get(path)).status == 200, path
        assert 'href="/admin"' in (await browser.get("/account/sessions")).body

    run(tmp_path, story)


def test_console_requires_its_samesite_strict_cookie(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await give(it, Role.OWNER)
        browser = await signed_in(it)
        page = await browser.get("/admin")
        (cookie,) = [v for n, v in page.headers if n == "set-cookie" and v.startswith(COOKIE)]
        assert "SameSite=Strict" in cookie
        assert "HttpOnly" in cookie
        assert "Secure" in cookie
        it.clock.forward(minutes(20))
        assert (await browser.get("/admin/users")).status == 200
        stolen = {n: v for n, v in browser.cookies.items() if n != COOKIE}
        thief = it.browser(stolen)
        assert (await thief.get("/admin/users")).location == "/account/confirm?to=/admin/users"
        for planted in (browser.cookies[COOKIE][:-1], "vk_am_", "x" * 60):
            thief = it.browser({**stolen, COOKIE: planted})
            assert (await thief.get("/admin")).status == 303

    run(tmp_path, story)


def test_console_requires_authentication_after_30_idle_minutes_or_12_hours(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for _ in range(3):
            it.clock.forward(minutes(29))
            assert (await browser.get("/admin/users")).status == 200
        for _ in range(2):
            # What a script asks for does not count as use.
            it.clock.forward(minutes(14))
            assert (await browser.get("/admin/events/live")).status == 200
        it.clock.forward(minutes(2))
        assert (await browser.get("/admin/events/live")).location == "/admin"
        # Elsewhere they are still signed in.
        assert (await browser.get("/account/sessions")).status == 200
        page = await browser.get("/admin/users")
        assert page.location == "/account/confirm?to=/admin/users"
        page = await browser.follow(page)
        answer = await browser.submit(page, "confirm", password="correct horse battery staple")
        assert answer.location == "/admin/users"
        assert (await browser.follow(answer)).status == 200
        # However busy they are.
        for _ in range(24):
            it.clock.forward(minutes(29))
            assert (await browser.get("/admin")).status == 200
        it.clock.forward(hours(1) - minutes(30))
        assert (await browser.get("/admin")).status == 303

    run(tmp_path, story)


def test_removed_role_takes_effect_immediately(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        page = await browser.get("/admin/users/1002/disable")
        await give(it, Role.AUDITOR)
        assert (await browser.submit(page, "do")).status == 404
        await give(it, None)
        assert (await browser.get("/admin")).status == 404
        bob = await it.store.read(lambda tx: tx.users.find(BOB.uid))
        assert bob is not None
        assert bob.disabled_at is None
        assert "user.disabled" not in await it.events()

    run(tmp_path, story, database_url)


def test_cross_site_or_forged_form_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        page = await browser.get("/admin/users/1002/disable")
        action, fields = page.form("do")
        for form, headers in (
            ({**fields, "csrf": ["x"]}, {}),
            ({}, {}),
            (fields, {"origin": "https://evil.example"}),
            (fields, {"sec-fetch-site": "cross-site"}),
        ):
            assert (await browser.post(action, form, headers)).status == 403
        assert "user.disabled" not in await it.events()

    run(tmp_path, story)


def test_session_of_disabled_admin_has_no_access(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await give(it, Role.OWNER, BOB)
        bob = await administrator(it, Role.OWNER, BOB)
        page = await bob.get(f"/admin/users/{ALICE.uid}/disable")
        assert (await bob.submit(page, "do")).status == 303
        assert (await browser.get("/admin")).location == "/oauth/sign-in?to=/admin"

    run(tmp_path, story)
