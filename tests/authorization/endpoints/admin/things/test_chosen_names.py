"""Objects that are called as a page beside theirs have pages of their own."""

import re
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import Harness, run
from valetkey.kernel.url import FIXED_SEGMENTS

_NOT_CHOSEN = {"{act}", "{uid}", "{import_id}", "{kid}", "{setting}", "{+file}", "{code}"}
"""Arguments that are words of the server, numbers, or ids that it makes."""


def _beside(chosen: str, fixed: str) -> str:
    """The word of a path that stands where the other path has a name that people choose."""
    pair = chosen.split("/"), fixed.split("/")
    if len(pair[0]) != len(pair[1]):
        return ""
    segments = list(zip(*pair, strict=True))
    first = next((it for it in segments if it[0] != it[1]), ("", ""))
    argument = first[0].startswith("{") and first[0] not in _NOT_CHOSEN
    if not argument or first[1].startswith("{"):
        return ""
    fits = all(one == other or "{" in one or "{" in other for one, other in segments)
    return first[1] if fits else ""


def test_words_beside_chosen_names_are_known(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        paths = [route.path for route in it.app.routes]
        words = {_beside(chosen, fixed) for chosen in paths for fixed in paths} - {""}
        assert words == FIXED_SEGMENTS

    run(tmp_path, story)


def test_group_called_new_has_a_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        made = await do(browser, "/admin/groups/new", name="new")
        assert made.location == "/admin/groups/%6Eew?done=new"
        assert "/admin/groups/%6Eew" in (await page(browser, "/admin/groups")).body
        group = await page(browser, "/admin/groups/%6Eew")
        added = await browser.submit(group, "add", person="ada")
        assert added.location == "/admin/groups/%6Eew?done=add"
        given = await browser.submit(group, "give", client="web")
        assert given.location == "/admin/groups/%6Eew?done=app"
        assert "/admin/groups/%6Eew" in (await page(browser, "/admin/users/1001")).body
        assert "/admin/groups/%6Eew" in (await page(browser, "/admin/clients/web")).body
        edited = await do(browser, "/admin/groups/%6Eew/edit", description="New people")
        assert edited.location == "/admin/groups/%6Eew?done=edit"
        deleted = await do(browser, "/admin/groups/%6Eew/delete")
        assert deleted.location == "/admin/groups?deleted=1"

    run(tmp_path, story)


def test_apps_called_as_pages_have_pages(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for client_id, quoted in (("new", "%6Eew"), ("selected", "%73elected")):
            await it.client(client_id)
            browser = await administrator(it)
            body = (await page(browser, "/admin/clients")).body
            assert re.search(f'href="/admin/clients/{quoted}"', body)
            shown = await page(browser, f"/admin/clients/{quoted}")
            assert f"/admin/clients/{quoted}/disable" in shown.body
            disabled = await do(browser, f"/admin/clients/{quoted}/disable")
            assert disabled.location == f"/admin/clients/{quoted}?done=disable"
            await page(browser, f"/admin/clients/{quoted}/edit")

    run(tmp_path, story)
