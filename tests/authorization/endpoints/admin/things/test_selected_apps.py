"""Several apps are disabled, enabled or deleted at once, after a confirmation."""

import re
from pathlib import Path

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.admin.things.desk import administrator, page
from tests.support.harness import Harness, run
from valetkey.authorization.model.account.user import Role

LIST = "/admin/clients"
SELECTED = "/admin/clients/selected"
BOTH = ["one", "two"]


async def _disabled(it: Harness) -> list[bool]:
    found = await it.read(lambda tx: [tx.clients.find(each) for each in BOTH])
    return [each is None or each.disabled_at is not None for each in found]


def test_several_apps_are_disabled_enabled_and_deleted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("one", name="One")
        await it.client("two", name="<script>Two")
        browser = await administrator(it, Role.ADMINISTRATOR)
        body = (await page(browser, LIST)).body
        assert body.count('name="client"') == len(BOTH)
        token = re.search(r'name="csrf" value="([^"]*)"', body)
        assert token is not None
        csrf = token[1]

        async def press(slug: str, *clients: str, **typed: str | list[str]) -> str:
            asked = {"csrf": csrf, "client": list(clients), **typed}
            return (await browser.post(f"{SELECTED}/{slug}", asked)).body

        assert "<script>Two" not in await press("disable", *BOTH)
        assert await _disabled(it) == [False, False]
        said = await press("disable", *BOTH, "gone", "../x", "resource-server", confirmed="yes")
        assert "Done for all selected apps." in said
        assert await _disabled(it) == [True, True]
        await press("enable", *BOTH, confirmed="yes")
        assert await _disabled(it) == [False, False]
        assert "No apps selected" in await press("disable", "gone", confirmed="yes")
        question = await press("delete", *BOTH)
        assert "Type 2 to confirm." in question
        for wrong in ("", "1", "two"):
            await press("delete", *BOTH, confirmed="yes", confirmation=wrong)
            assert await _disabled(it) == [False, False], wrong
        await press("delete", *BOTH, confirmed="yes", confirmation="2")
        assert LIST + "/one" not in (await page(browser, LIST)).body
        forged = await browser.post(f"{SELECTED}/disable", {"client": "one", "csrf": "x"})
        assert forged.status == 403
        assert (await browser.post(f"{SELECTED}/rotate", {"csrf": csrf})).status == 404

    run(tmp_path, story, database_url)


def test_auditor_selects_no_apps(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("one")
        browser = await administrator(it, Role.AUDITOR)
        assert not knows(await page(browser, LIST), "Selected apps:")
        assert (await browser.get(f"{SELECTED}/disable")).status == 404

    run(tmp_path, story)
