"""Totals and events say of a thing what its list and its page say."""

from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import WORD
from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.admin.overview import overview
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.model.account.user import Uid


def test_overview_counts_the_apps_of_the_list(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await it.client("web")
        declared = {"identifier": "https://mcp.example/mcp", "name": "Calendar"}
        assert (await owner.call("POST", "/apis", declared)).status == 201
        listed = (await owner.call("GET", "/clients")).items
        assert [each["client_id"] for each in listed] == ["web"]
        seen = await it.read(lambda tx: overview(tx, CommandLine(), it.clock.now).clients)
        assert (seen.count, seen.more) == (1, False)
        # The credential of the resource server is no app, but events lead to its page.
        for query in ("?q=resource", "?type=confidential", "?disabled=false"):
            found = (await owner.call("GET", f"/clients{query}")).items
            assert [each["client_id"] for each in found] in ([], ["web"]), query
        assert (await owner.call("GET", "/clients/resource-server")).status == 200

    run(tmp_path, story)


def test_link_of_an_administrator_is_no_requested_reset(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        new = {"username": "bob", "email": "bob@example.com", "password_link": "show"}
        made = await owner.call("POST", "/users", new)
        assert made.status == 201, made.body
        uid = Uid(int(str(made.record["uid"])))
        path = f"/users/{uid}/password-link"
        assert (await owner.call("POST", path, {"password_link": "show"})).status == 200
        events = [each["name"] for each in (await owner.call("GET", "/events")).items]
        assert events.count("set_password_link.issued") == 2
        assert "password_reset.requested" not in events
        await it.password(WORD, uid)
        browser = Browser(it.app, host="localhost:8400", scheme="http")
        await browser.sign_in(await browser.get("/oauth/sign-in"), "bob", WORD)
        activity = (await browser.get("/account/activity")).body
        assert activity.count("An administrator issued a link to set your password.") == 2
        assert "reset was requested" not in activity

    run(tmp_path, story)
