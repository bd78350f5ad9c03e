"""Filters of the console's lists: saved under a name by one user, and bounded."""

from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, page
from tests.support.harness import Harness, run
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.storage.search import MOST, SavedFilters


async def _post(browser: Browser, csrf: str, **fields: str) -> Answer:
    return await browser.post("/admin/filters", {"csrf": csrf, **fields})


def test_filters_are_saved_replaced_and_deleted_for_one_user_and_list(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        shown = await page(browser, "/admin/events?name=session.started&person=ada&other=x")
        csrf = shown.form("save")[1]["csrf"][0]
        saved = await browser.submit(shown, "save", name="Sign-ins of <Ada>", do="save")
        url = "/admin/events?person=ada&name=session.started"
        assert saved.location == url
        link = f'<a href="{url}"><bdi class="long">Sign-ins of &lt;Ada&gt;</bdi></a>'
        shown = await page(browser, "/admin/events")
        assert link in shown.body.replace("&amp;", "&")
        assert 'id="save"' not in shown.body
        assert "Saved filters" not in (await page(browser, "/admin/users")).body
        for query in ("show=role", "show=disabled&nonsense=1"):
            await _post(browser, csrf, list="users", name="x", query=query, do="save")
        users = (await page(browser, "/admin/users")).body
        assert 'href="/admin/users?show=disabled"' in users
        assert "show=role" not in users
        gone = await _post(browser, csrf, list="users", name="x", query="", do="delete")
        assert gone.location == "/admin/users"
        assert "Saved filters" not in (await page(browser, "/admin/users")).body
        assert not await it.read(lambda tx: SavedFilters(tx.db).of_list(Uid(1002), "events"))

    run(tmp_path, story, database_url)


def test_number_and_content_of_saved_filters_are_limited(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        shown = await page(browser, "/admin/clients?q=print")
        csrf = shown.form("save")[1]["csrf"][0]
        fields = {"list": "clients", "query": "q=print", "do": "save"}
        for number in range(MOST):
            assert (await _post(browser, csrf, name=f"n{number}", **fields)).status == 303
        assert (await _post(browser, csrf, name="n0", **fields)).status == 303
        assert (await _post(browser, csrf, name="one more", **fields)).status == 400
        assert "Delete one first." in (await page(browser, "/admin/clients?q=print")).body
        for wrong, status in (
            ({"name": ""}, 400),
            ({"name": "x" * 81}, 400),
            ({"name": "a\u202eb"}, 400),
            ({"name": "n0", "query": "nonsense=1"}, 400),
            ({"name": "n0", "query": "q=%zz"}, 400),
            ({"name": "n0", "list": "nothing"}, 404),
            ({"name": "n0", "do": "else"}, 404),
        ):
            assert (await _post(browser, csrf, **{**fields, **wrong})).status == status, wrong
        kept = await it.read(lambda tx: SavedFilters(tx.db).of_list(Uid(1001), "clients"))
        assert {saved_filter.query for saved_filter in kept} == {"q=print"}
        assert len(kept) == MOST

    run(tmp_path, story)
