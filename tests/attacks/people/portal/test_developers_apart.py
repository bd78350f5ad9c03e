"""AD-03, XS-01, XS-05: between developers, and between an app and those who read its name."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.authorization.endpoints.developer.developers import WEB_APP, developer, join, registered
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.site.app_team import APP
from valetkey.web.router import Route

# What a member gets by GET and by an empty form; an owner gets 200 or goes on.
MEMBER = {
    f"{APP}": (200, 405),
    f"{APP}/settings": (200, 400),
    f"{APP}/secrets": (200, 409),
    f"{APP}/secrets/end": (303, 303),
    f"{APP}/webhooks": (200, 405),
    f"{APP}/webhooks/new": (403, 403),
    f"{APP}/team": (200, 403),
    f"{APP}/team/remove": (404, 404),
    f"{APP}/delete": (403, 403),
}


def _of_apps(it: Harness) -> list[Route]:
    """Every route of the portal that is about one app."""
    return [route for route in it.app.routes if route.path.startswith(APP)]


def _place(route: str, client_id: str) -> str:
    return route.replace("{client_id}", client_id).replace("{reference}", "VK-0000-0000-0000")


async def _token(browser: Browser) -> str:
    page = await browser.get("/developer/new", kind="server")
    return page.form("do")[1]["csrf"][0]


def test_ad_03_apps_of_other_developers_are_not_found_by_any_route(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        token = await _token(bob)
        routes = _of_apps(it)
        assert {route.path for route in routes} >= MEMBER.keys()
        for route in routes:
            for method in route.methods:
                answers = []
                for client_id in (app.id, "app_unknown", "web1", "resource-server"):
                    address = _place(route.path, client_id)
                    if method == "POST":
                        answer = await bob.post(address, {"csrf": token, "name": "Mine"})
                    else:
                        answer = await bob.send(method, address)
                    answers.append(answer)
                assert {answer.status for answer in answers} == {404}, (method, route.path)
                bodies = {answer.body.split("<dl")[0] for answer in answers}
                assert len(bodies) == 1, route.path
        after = await it.store.read(lambda tx: tx.clients.find(app.id))
        assert after is not None
        assert after.name == "Printer"

    run(tmp_path, story)


def test_ad_03_app_pages_require_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        for route in _of_apps(it):
            answer = await it.browser().get(_place(route.path, app.id))
            assert answer.status == 303 or "GET" not in route.methods
            assert answer.location.startswith("/oauth/sign-in") or "GET" not in route.methods

    run(tmp_path, story)


@pytest.mark.parametrize("role", list(TeamRole))
def test_ad_03_team_role_decides_access_to_app_pages(role: TeamRole, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, role)
        token = await _token(bob)
        for path, (reading, writing) in MEMBER.items():
            address = _place(path, app.id)
            got = (await bob.get(address)).status
            sent = (await bob.post(address, {"csrf": token})).status
            if role is TeamRole.MEMBER:
                assert (got, sent) == (reading, writing), path
            else:
                assert got in {200, 303, 404}, path
                assert sent != 403, path
        assert await it.count("memberships") == 2

    run(tmp_path, story)


def test_ad_03_a_form_without_the_token_of_this_browser_changes_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await signed_in(it, "bob")
        app, _ = await registered(it, alice)
        foreign = await _token(bob)
        for route in _of_apps(it):
            if "POST" not in route.methods:
                continue
            for token in ("", "x", foreign):
                answer = await alice.post(_place(route.path, app.id), {"csrf": token})
                assert answer.status == 403, route.path
        strange = {"origin": "https://evil.example"}
        answer = await alice.post(f"/developer/apps/{app.id}/delete", {}, strange)
        assert answer.status == 403

    run(tmp_path, story)


SAID = (
    ("name", "<script>alert(1)</script>", 200),
    ("name", "{{7*7}}${7*7}", 200),
    ("name", '"><img src=x onerror=alert(1)>', 200),
    ("name", "Prin\u202eter", 400),
    ("name", "Print\u2066er", 400),
    ("name", "Pri\x00nter", 400),
    ("description", "<script>alert(1)</script>", 200),
    ("logo_uri", "JAVASCRIPT:alert(1)", 400),
    ("logo_uri", "data:text/html,<script>alert(1)</script>", 400),
    ("client_uri", 'https://evil" onclick=alert(1)', 400),
    ("policy_uri", "https://evil.example/\"'><script>", 400),
    ("tos_uri", "//evil.example", 400),
)
"""What an app says of itself, and what registering it so is answered."""


def test_xs_01_05_app_metadata_is_escaped_or_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, pages = await developer(it), list[Answer]()
        for field, value, status in SAID:
            form = await alice.get("/developer/new", kind="server")
            page = await alice.submit(form, "do", **{**WEB_APP, field: value})
            assert page.status == status, value
            pages.append(page)
        pages.append(await alice.get("/developer"))
        for one in await it.store.read(lambda tx: tx.members.of_user(ALICE.uid)):
            address = f"/developer/apps/{one.client_id}"
            ways = ("", "/settings", "/delete", "/team")
            pages += [await alice.get(f"{address}{way}") for way in ways]
        assert len(pages) == len(SAID) + 1 + 4 * [status for _, _, status in SAID].count(200)
        for answer in pages:
            assert "<script>" not in answer.body
            assert "<img src=x" not in answer.body
            assert " onclick=" not in answer.body.replace("&#34; onclick=", "")
            assert "49" not in answer.body.partition("<h1>")[2].partition("</h1>")[0]

    run(tmp_path, story)
