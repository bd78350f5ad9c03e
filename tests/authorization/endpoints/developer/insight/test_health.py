"""The health list: each finding has a button, which asks once and then fixes the problem."""

import re
from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.developer.insight.teams import (
    WEB1,
    are_for_the_team_alone,
    team,
)
from tests.support.harness import NOON, Harness
from tests.support.visitors import WEB, run
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

LEGACY = replace(
    WEB,
    grant_types=WEB.grant_types | {"implicit"},
    requires_pkce=True,
    scope=Scope.of("read", "write", "notes:read"),
)
FIX = f"{WEB1}/health/drop-implicit"


async def old(it: Harness) -> None:
    """The app is a hundred days old, and everything that happened is counted."""
    await team(it)
    await it.change(LEGACY)
    it.clock.forward(days(100))
    await it.store.write(lambda tx: tx.events.sweep(Instant(NOON + days(1)), 1_000))


def test_finding_is_fixed_by_a_button_with_confirmation(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await old(it)
        # Whoever is of the team may do it, and it is written down who did.
        browser = await signed_in(it, "bob")
        page = await browser.get(f"{WEB1}/health")
        assert knows(page, "The implicit grant is enabled but unused for 90 days")
        assert f'href="{FIX}"' in page.body
        question = await browser.get(FIX)
        assert knows(question, "The app can no longer get tokens with this grant")
        answer = await browser.submit(question, "fix")
        after = await browser.follow(answer)
        assert knows(after, "Saved.")
        assert "implicit grant" not in after.body
        client = await it.server.directory.find("web1")
        assert client is not None
        assert "implicit" not in client.grant_types
        newest = await it.store.read(lambda tx: tx.events.newest(50))
        assert [event.done_by for event in newest if event.name == "client.changed"] == [
            "user 1002"
        ]
        # Pressed twice, the fix is applied once.
        assert (await browser.submit(question, "fix")).status == 303
        assert (await it.events()).count("client.changed") == 1
        assert (await browser.get(FIX)).location == f"{WEB1}/health"
        # An unknown fix is not reported as applied.
        assert "Done." not in (await browser.get(f"{WEB1}/health", fixed="x")).body

    run(tmp_path, story, database_url)


def test_health_page_requires_team_membership_and_its_own_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await old(it)
        owner = await are_for_the_team_alone(it, f"{WEB1}/health", FIX)
        stranger = await signed_in(it, "mallory")
        action, fields = (await owner.get(FIX)).form("fix")
        assert (await stranger.post(action, fields)).status in {403, 404}
        mine = re.search(
            r'name="csrf" value="([^"]+)"', (await stranger.get("/developer/apps/nat1/team")).body
        )
        assert mine
        assert (await stranger.post(action, {"csrf": mine[1]})).status == 404
        assert (await owner.post(action, {})).status == 403
        foreign = {"origin": "https://evil.example"}
        assert (await owner.post(action, fields, foreign)).status == 403
        for wrong in ("x", "DROP-IMPLICIT", "%00"):
            assert (await owner.get(f"{WEB1}/health/{wrong}")).status == 404
            assert (await owner.post(f"{WEB1}/health/{wrong}", fields)).status == 404
        client = await it.server.directory.find("web1")
        assert client is not None
        assert "implicit" in client.grant_types

    run(tmp_path, story)
