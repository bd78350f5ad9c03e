"""Several apps, groups or APIs are changed at once, after a confirmation."""

import re
from pathlib import Path

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.model.user import Role

LIST = "/admin/clients"
SELECTED = "/admin/clients/selected"
BOTH = ["one", "two"]


async def _disabled(it: Harness) -> list[bool]:
    clients = await it.read(lambda tx: [tx.clients.find(client_id) for client_id in BOTH])
    return [client is None or client.disabled_at is not None for client in clients]


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
            form = {"csrf": csrf, "client": list(clients), **typed}
            return (await browser.post(f"{SELECTED}/{slug}", form)).body

        assert "<script>Two" not in await press("disable", *BOTH)
        assert await _disabled(it) == [False, False]
        result = await press("disable", *BOTH, "gone", "../x", "resource-server", confirmed="yes")
        assert "Done for 2 of 2." in result
        assert await _disabled(it) == [True, True]
        await press("enable", *BOTH, confirmed="yes")
        assert await _disabled(it) == [False, False]
        assert "Nothing selected" in await press("disable", "gone", confirmed="yes")
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


async def _api(browser: Browser, name: str) -> str:
    made = await do(
        browser, "/admin/apis/new", identifier=f"https://{name}.example/", name=name.title()
    )
    return made.location.partition("?")[0].rpartition("/")[2]


def test_selected_groups_are_deleted_with_those_in_them_first(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.ADMINISTRATOR)
        for name, parent in (("staff", ""), ("crew", "staff"), ("full", ""), ("rest", "full")):
            await do(browser, f"/admin/groups/new?in={parent}", name=name)
        shown = await page(browser, "/admin/groups")
        csrf = shown.body.partition('name="csrf" value="')[2].partition('"')[0]
        form: dict[str, str | list[str]] = {"csrf": csrf}
        form["group"] = ["staff", "crew", "full", "gone", "\u00e4"]
        question = await browser.post("/admin/selected-groups/delete", form)
        assert knows(question, "Selected: 3")
        typed = {"confirmed": "yes", "confirmation": "2"}
        wrong = await browser.post("/admin/selected-groups/delete", {**form, **typed})
        assert wrong.status == 400
        assert knows(wrong, "Enter the number above.")
        done = await browser.submit(question, "do", confirmation="3")
        assert knows(done, "Done for 2 of 3.")
        assert knows(done, "Not done for 1 of 3; the reasons are below.")
        assert "/admin/groups/full" in done.body
        assert "/admin/groups/staff" not in done.body
        left = await it.read(lambda tx: [group.name for group in tx.groups.list("", 10)])
        assert left == ["full", "rest"]

    run(tmp_path, story)


def test_selected_apis_are_disabled(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.ADMINISTRATOR)
        ids = [await _api(browser, name) for name in ("calendar", "files", "mail")]
        shown = await page(browser, "/admin/apis")
        assert shown.body.count('name="api"') == len(ids)
        csrf = shown.body.partition('name="csrf" value="')[2].partition('"')[0]
        form: dict[str, str | list[str]] = {"csrf": csrf, "api": [*ids[:2], "api_none"]}
        question = await browser.post("/admin/apis/selected/disable", form)
        assert knows(await browser.submit(question, "do"), "Done for 2 of 2.")
        apis = await it.read(lambda tx: [tx.apis.find(api_id) for api_id in ids])
        assert [api is None or api.disabled_at is not None for api in apis] == [True, True, False]

    run(tmp_path, story)


def test_auditor_selects_no_apps(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("one")
        browser = await administrator(it, Role.AUDITOR)
        assert not knows(await page(browser, LIST), "Selected apps:")
        assert (await browser.get(f"{SELECTED}/disable")).status == 404

    run(tmp_path, story)
