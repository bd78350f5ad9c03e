"""Totals and events say of a thing what its list and its page say."""

from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import Harness, run
from valetkey.authorization.actions.admin.overview import overview
from valetkey.authorization.actions.admin.permissions import CommandLine


def test_overview_counts_the_apps_of_the_list(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await it.client("web")
        declared = {"identifier": "https://mcp.example/mcp", "name": "Calendar"}
        assert (await owner.call("POST", "/apis", declared)).status == 201
        listed = (await owner.call("GET", "/clients")).items
        seen = await it.read(lambda tx: overview(tx, CommandLine(), it.clock.now).clients)
        assert (seen.count, seen.more) == (len(listed), False)

    run(tmp_path, story)


def test_new_account_with_a_link_has_requested_no_reset(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        new = {"username": "bob", "email": "bob@example.com", "password_link": "show"}
        made = await owner.call("POST", "/users", new)
        assert made.status == 201, made.body
        events = [each["name"] for each in (await owner.call("GET", "/events")).items]
        assert "user.registered" in events
        assert "password_reset.requested" not in events

    run(tmp_path, story)
