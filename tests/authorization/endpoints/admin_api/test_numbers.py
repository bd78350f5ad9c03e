"""Totals and events say of a thing what its list and its page say."""

import re
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.things.desk import WORD, administrator, page
from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.admin.server import totals
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.portal.rules.monitoring import users_of_app
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.kernel.moment import Instant

_VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
_CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_overview_counts_the_apps_of_the_list(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await it.client("web")
        declared = {"identifier": "https://mcp.example/mcp", "name": "Calendar"}
        assert (await owner.call("POST", "/apis", declared)).status == 201
        listed = (await owner.call("GET", "/clients")).items
        assert [client["client_id"] for client in listed] == ["web"]
        seen = await it.read(lambda tx: totals(tx, CommandLine(), it.clock.now).clients)
        assert (seen.count, seen.more) == (1, False)
        # The credential of the resource server is no app, but events lead to its page.
        for query in ("?q=resource", "?type=confidential", "?disabled=false"):
            clients = (await owner.call("GET", f"/clients{query}")).items
            assert [client["client_id"] for client in clients] in ([], ["web"]), query
        assert (await owner.call("GET", "/clients/resource-server")).status == 200

    run(tmp_path, story)


def test_password_link_of_an_administrator_is_not_a_reset_request(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        new = {"username": "bob", "email": "bob@example.com", "password_link": "show"}
        made = await owner.call("POST", "/users", new)
        assert made.status == 201, made.body
        uid = Uid(int(str(made.record["uid"])))
        path = f"/users/{uid}/password-link"
        assert (await owner.call("POST", path, {"password_link": "show"})).status == 200
        events = [event["name"] for event in (await owner.call("GET", "/events")).items]
        assert events.count("set_password_link.issued") == 2
        assert "password_reset.requested" not in events
        await it.password(WORD, uid)
        browser = Browser(it.app, host="localhost:8400", scheme="http")
        await browser.sign_in(await browser.get("/oauth/sign-in"), "bob", WORD)
        activity = (await browser.get("/account/activity")).body
        assert activity.count("An administrator issued a link to set your password.") == 2
        assert "reset was requested" not in activity

    run(tmp_path, story)


async def _numbers(it: Harness, browser: Browser) -> tuple[int, int]:
    """The connected users and the authorizations of the app `web`, as every page tells them."""
    now = it.clock.now
    body = (await page(browser, "/admin/clients/web")).body
    people, grants = map(int, re.findall(r"<dd>\s*(\d+)\s*</dd>", body)[:2])
    portal = (await page(browser, "/developer/apps/web/people")).body
    client = await it.read(lambda tx: tx.clients.find("web"))
    assert client is not None
    subjects = Subjects(it.foundation.keyring.fingerprint_key)
    position = (Instant(1 << 53), 0)
    crowd = await it.read(lambda tx: users_of_app(tx, client, subjects, position, 9, now))
    assert (crowd.total, len(crowd.people)) == (people, people)
    assert portal.count('data-label="Last active"') == people
    user = (await page(browser, f"/admin/users/{ADA}")).body
    assert user.count("app=web") == people
    assert ("Inactive; can reconnect" in user) == (people > 0 and not grants)
    own = (await page(browser, "/account/apps")).body
    assert ("?app=web" in own) == bool(people)
    assert ("Inactive; can reconnect" in own) == (people > 0 and not grants)
    total = await it.read(lambda tx: totals(tx, CommandLine(), now).grants.count)
    live = await it.read(lambda tx: tx.grants.live_of_user(ADA, now, 99))
    assert total == len(live) == grants
    return people, grants


@pytest.mark.parametrize("ending", ["code", "refresh token", "session", "consent"])
def test_pages_show_equal_numbers_after_a_grant_ended(
    ending: str, tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", type="public")
        browser = await administrator(it)
        owner = Membership("web", ADA, TeamRole.OWNER, it.clock.now)
        await it.write(lambda tx: tx.members.add(owner))
        assert await _numbers(it, browser) == (0, 0)
        code = await it.code("web", code_challenge=_CHALLENGE)
        first = await it.exchange("web", code, code_verifier=_VERIFIER)
        assert first.status == 200
        assert await _numbers(it, browser) == (1, 1)
        if ending == "code":
            assert (await it.exchange("web", code, code_verifier=_VERIFIER)).status == 400
            assert await _numbers(it, browser) == (1, 0)
        elif ending == "refresh token":
            second = await it.refresh("web", first.text("refresh_token"))
            assert (await it.refresh("web", second.text("refresh_token"))).status == 200
            assert await _numbers(it, browser) == (1, 1)
            it.clock.forward(60)
            assert (await it.refresh("web", first.text("refresh_token"))).status == 400
            assert await _numbers(it, browser) == (1, 0)
        elif ending == "session":
            await it.write(lambda tx: tx.db.run("UPDATE sessions SET ended_at = :at", at=1))
            browser = await administrator(it)
            assert (await _numbers(it, browser))[0] == 1
        else:
            await it.write(lambda tx: tx.consents.delete(ADA, "web"))
            assert await _numbers(it, browser) == (1, 1)

    run(tmp_path, story, database_url)


def test_idle_sessions_are_not_shown_or_counted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.code("web")
        it.clock.forward(it.settings.sessions.idle)
        browser = await administrator(it, Role.AUDITOR)
        user = (await page(browser, f"/admin/users/{ADA}")).body
        assert user.count("<span>Last active") == 1
        assert "Last active" not in (await page(browser, "/account/sessions")).body
        assert "signed out of 1 browser" in (await page(browser, "/account/delete")).body

    run(tmp_path, story)
