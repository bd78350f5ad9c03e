"""Groups in the console: created, joined, left and deleted."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.people import confirmation
from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.user import Group, Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


async def _required(it: Harness, client_id: str) -> tuple[str, ...]:
    client = await it.read(lambda tx: tx.clients.find(client_id))
    assert client is not None
    return client.openid.required_groups


def test_group_gets_access_to_app_from_either_page_and_loses_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        for name in ("staff", "crew"):
            await do(browser, "/admin/groups/new", name=name)
        app = await page(browser, "/admin/clients/web")
        assert "All users can sign in to the app." in app.body
        answer = await browser.submit(app, "give", group="staff")
        assert answer.location == "/admin/clients/web?done=group"
        group = await page(browser, "/admin/groups/crew")
        answer = await browser.submit(group, "give", client="web")
        assert answer.location == "/admin/groups/crew?done=app"
        assert await _required(it, "web") == ("staff", "crew")
        again = await browser.submit(group, "give", client="web")
        assert again.location == "/admin/groups/crew?done=unchanged"
        assert await _required(it, "web") == ("staff", "crew")
        assert "/admin/clients/web" in (await page(browser, "/admin/groups/crew")).body
        for path in ("/admin/clients/web", "/admin/groups/crew"):
            body = (await page(browser, path)).body
            assert "/admin/clients/web/remove-group?group=crew" in body
        question = await page(browser, "/admin/clients/web/remove-group?group=crew")
        assert "If it is the last group, all users can sign in." in question.body
        removed = await browser.submit(question, "do")
        assert removed.location == "/admin/clients/web?done=remove-group"
        assert await _required(it, "web") == ("staff",)

    run(tmp_path, story)


def test_unknown_groups_and_lower_roles_cannot_change_access(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        app = await page(browser, "/admin/clients/web")
        none = await browser.submit(app, "give", group="nobody")
        assert "Group not found." in (await page(browser, none.location.partition("#")[0])).body
        group = await page(browser, "/admin/groups/staff")
        none = await browser.submit(group, "give", client="nothing %00")
        assert (
            "This app does not exist."
            in (await page(browser, none.location.partition("#")[0])).body
        )
        foreign = await browser.get("/admin/clients/web/remove-group?group=staff")
        assert foreign.status == 404
        await administrator(it, Role.SUPPORT)
        assert 'id="give"' not in (await page(browser, "/admin/clients/web")).body
        assert (await browser.submit(app, "give", group="staff")).status == 404
        assert (await browser.submit(group, "give", client="web")).status == 404
        assert await _required(it, "web") == ()

    run(tmp_path, story)


def test_group_is_created_joined_left_and_deleted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", openid=OpenIdRegistration(required_groups=("staff",)))
        await it.client("other", openid=OpenIdRegistration(required_groups=("staff2",)))
        browser = await administrator(it)
        owner = await caller(it)
        for name, required in (("Calendar", ["x", "staff"]), ("Files", ["staff2"])):
            body: dict[str, object] = {
                "identifier": f"https://{name.lower()}.example",
                "name": name,
            }
            body["required_groups"] = required
            assert (await owner.call("POST", "/apis", body)).status == 201
        made = await do(browser, "/admin/groups/new", name="staff", description="All of us")
        assert made.location == "/admin/groups/staff?done=new"
        await do(browser, "/admin/groups/new?in=staff", name="engineering")
        shown = (await page(browser, "/admin/groups/staff")).body
        assert "/admin/groups/engineering" in shown
        assert "/admin/clients/web" in shown
        assert "/admin/clients/other" not in shown
        assert "APIs that require it" in shown
        assert ">Calendar<" in shown
        assert ">Files<" not in shown
        group = await page(browser, "/admin/groups/engineering")
        added = await browser.submit(group, "add", person="ada")
        assert added.location == "/admin/groups/engineering?done=add"
        member = await page(browser, "/admin/groups/engineering")
        assert "/admin/users/1001" in member.body
        assert "/admin/groups/engineering" in (await page(browser, "/admin/users/1001")).body
        question = " ".join((await page(browser, "/admin/groups/engineering/delete")).body.split())
        assert "1 user loses the group." in question
        left = await do(browser, "/admin/groups/engineering/remove?uid=1001")
        assert left.location == "/admin/groups/engineering?done=remove"
        assert not await it.read(lambda tx: tx.groups.names_of(ADA))
        for name in ("engineering", "staff"):
            question = " ".join((await page(browser, f"/admin/groups/{name}/delete")).body.split())
            assert ("1 app requires the group." in question) == (name == "staff")
            assert ("1 API requires the group." in question) == (name == "staff")
            assert (await do(browser, f"/admin/groups/{name}/delete")).location == (
                "/admin/groups?deleted=1"
            )
            assert (await browser.get(f"/admin/groups/{name}")).status == 404

    run(tmp_path, story)


def test_group_is_renamed_and_moved_with_faults_at_the_fields(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", openid=OpenIdRegistration(required_groups=("staff",)))
        browser = await administrator(it)
        for name in ("staff", "board"):
            await do(browser, "/admin/groups/new", name=name)
        form = await page(browser, "/admin/groups/staff/edit")
        for fields, message in (
            ({"name": "board"}, "this one is taken"),
            ({"name": "a b"}, "apps receive this name"),
            ({"parent": "staff"}, "Choose another group: a group cannot contain itself."),
        ):
            answer = await do(browser, "/admin/groups/staff/edit", **fields)
            assert (answer.status, message in answer.body) == (400, True), message
        saved = await do(browser, "/admin/groups/staff/edit", name="crew", parent="board")
        assert saved.location == "/admin/groups/crew?done=edit"
        shown = (await page(browser, saved.location)).body
        assert "/admin/clients/web" in shown
        assert "/admin/groups/board" in shown
        assert (await browser.submit(form, "do", name="late")).status == 404
        form = await page(browser, "/admin/groups/crew/edit")
        await do(browser, "/admin/groups/crew/edit", description="Everyone")
        stale = await browser.submit(form, "do", description="Late")
        assert (stale.status, "changed while you edited it" in stale.body) == (400, True)

    run(tmp_path, story)


def test_groups_are_searched_and_sorted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for number in range(51):
            group = Group(
                f"gr_{number}", f"g{number:02}", "", "", Instant(it.clock.now - 60 + number)
            )
            await it.write(partial(_create, group))
        await do(browser, "/admin/groups/new", name="staff", description="Everyone here")
        for part in ("taf", "TAF", "one+h"):
            body = (await page(browser, f"/admin/groups?q={part}")).body
            assert "/admin/groups/staff" in body
            assert "Total: 1" in body
            assert "/admin/groups/g00" not in body
        first = (await page(browser, "/admin/groups?q=g")).body
        assert "/admin/groups/g49" in first
        assert "/admin/groups/g50" not in first
        more = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
        second = (await page(browser, more.replace("&amp;", "&"))).body
        assert "/admin/groups/g50" in second
        assert "/admin/groups/staff" not in second
        assert "No group found" in (await page(browser, "/admin/groups?q=%C3%A4x")).body
        names = [f"g{number:02}" for number in range(51)] + ["staff"]
        orders = {
            "": names,
            "?sort=-name": names[::-1],
            "?sort=oldest": names,
            "?sort=newest": names[::-1],
        }
        for sort, expected in orders.items():
            listed = await _listed_both_ways(browser, f"/admin/groups{sort}")
            assert listed == expected, sort
        shown = await page(browser, "/admin/groups?sort=-name&q=taf")
        await browser.submit(shown, "save", name="Staff", do="save")
        saved = (await page(browser, "/admin/groups")).body
        assert "/admin/groups?q=taf&amp;sort=-name" in saved

    run(tmp_path, story, database_url)


def _create(group: Group, tx: Transaction) -> bool:
    return tx.groups.create(group, "")


async def _listed_both_ways(browser: Browser, path: str) -> list[str]:
    """Return the names on all pages of the list, checked on the way back."""
    shown = await page(browser, path)
    assert "Total: 52" in shown.body
    pages = [_rows(shown)]
    while following := shown.beside("next"):
        shown = await page(browser, following)
        pages.append(_rows(shown))
    back = []
    while previous := shown.beside("prev"):
        shown = await page(browser, previous)
        back.append(_rows(shown))
    assert back == pages[-2::-1]
    return [name for one in pages for name in one]


def _rows(shown: Answer) -> list[str]:
    return re.findall(r'name="group"\s+value="([^"]*)"', shown.body)


def test_invalid_input_is_explained(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        for fields, message in (
            ({"name": "staff"}, "this one is taken"),
            ({"name": "a b"}, "apps receive this name"),
            ({"name": "new", "parent": "nowhere"}, "an existing group"),
        ):
            answer = await do(browser, "/admin/groups/new", **fields)
            assert (answer.status, message in answer.body) == (400, True), message
        staff = await page(browser, "/admin/groups/staff")
        for person in ("nobody", "x" * 201, "", "\x00"):
            unknown = await browser.submit(staff, "add", person=person)
            assert unknown.status == 400
            assert "User not found" in unknown.body
        for path in ("none", "none/delete", "staff/nonsense", "%00", "%ff", "staff/remove?uid=9"):
            assert (await browser.get(f"/admin/groups/{path}")).status == 404, path

    run(tmp_path, story)


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.SUPPORT])
def test_reader_sees_group_and_may_change_nothing(tmp_path: Path, role: Role) -> None:
    async def story(it: Harness) -> None:
        await do(await administrator(it), "/admin/groups/new", name="staff")
        browser = await administrator(it, role)
        shown = (await page(browser, "/admin/groups/staff")).body
        assert "Actions" not in shown
        assert 'id="add"' not in shown
        for path in ("new", "staff/edit", "staff/delete", "staff/remove?uid=1001"):
            assert (await browser.get(f"/admin/groups/{path}")).status == 404, path

    run(tmp_path, story)


def test_deleted_group_is_shown_at_apps_that_require_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        openid = OpenIdRegistration(required_groups=("staff",))
        await it.client("web", name="Reading Club", openid=openid)
        browser = await administrator(it)
        owner = await caller(it)
        body = {"identifier": "https://a.example", "name": "A", "required_groups": ["staff"]}
        api = await owner.call("POST", "/apis", body)
        api_id = api.headers["location"].rpartition("/")[2]
        await do(browser, "/admin/groups/new", name="staff")
        assert 'href="/admin/groups/staff"' in (await page(browser, "/admin/clients/web")).body
        question = await page(browser, "/admin/groups/staff/delete")
        assert 'href="/admin/clients/web"><bdi>Reading Club</bdi>' in question.body
        assert "still require it after the deletion" in question.body
        await do(browser, "/admin/groups/staff/delete")
        assert await _required(it, "web") == ("staff",)
        for path in ("/admin/clients/web", f"/admin/apis/{api_id}"):
            shown = (await page(browser, path)).body
            assert "This group does not exist." in shown
            assert 'href="/admin/groups/staff"' not in shown
        removed = await do(browser, "/admin/clients/web/remove-group?group=staff")
        assert removed.location == "/admin/clients/web?done=remove-group"

    run(tmp_path, story)


def test_group_that_contains_groups_is_not_asked_about(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        earlier = await page(browser, "/admin/groups/staff/delete")
        await do(browser, "/admin/groups/new?in=staff", name="engineering")
        question = (await page(browser, "/admin/groups/staff/delete")).body
        assert "This group contains groups; delete or move them first." in question
        assert 'id="do"' not in question
        full = await browser.submit(earlier, "do", **confirmation(earlier))
        assert full.status == 400
        assert full.body.count("This group contains groups; delete or move them first.") == 1
        assert "loses the group" not in question
        await do(browser, "/admin/groups/engineering/edit", parent="")
        deleted = await do(browser, "/admin/groups/staff/delete")
        assert deleted.location == "/admin/groups?deleted=1"

    run(tmp_path, story)


def test_event_names_required_groups(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        await browser.submit(await page(browser, "/admin/clients/web"), "give", group="staff")
        await do(browser, "/admin/groups/staff/edit", name="crew")
        changes = [
            record.data for record in await it.event_records() if record.name == "client.changed"
        ]
        assert len(changes) == 2
        for data, before, after in zip(changes, ("", "staff"), ("staff", "crew"), strict=True):
            assert '"fields":["required_groups"]' in data
            assert f'"before":["{before}"],"after":["{after}"]' in data

    run(tmp_path, story)


def test_second_attempt_says_that_nothing_changed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        group, app = "/admin/groups/staff", "/admin/clients/web"
        forms: tuple[tuple[Answer, str, dict[str, str]], ...] = (
            (await page(browser, group), "add", {"person": "ada"}),
            (await page(browser, group), "give", {"client": "web"}),
            (await page(browser, app), "give", {"group": "staff"}),
            (await page(browser, app), "add", {"person": "ada"}),
            (await page(browser, f"{app}/disable"), "do", {}),
            (await page(browser, f"{app}/enable"), "do", {}),
            (await page(browser, f"{group}/remove?uid=1001"), "do", {}),
        )
        for form, button, typed in forms:
            await browser.submit(form, button, **typed)
            again = await browser.submit(form, button, **typed)
            assert again.location.endswith("?done=unchanged")
            assert "Nothing changed" in (await page(browser, again.location)).body

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/admin/groups/new", "parent"),
        ("/admin/users/new", "groups"),
        ("/admin/clients/web/edit", "required_groups"),
    ],
)
def test_similar_name_of_a_group_is_suggested(tmp_path: Path, path: str, field: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="readers")
        form = await page(browser, path)
        others = {"name": "young", "username": "eve", "email": "eve@example.com"}
        others = {name: text for name, text in others.items() if "users" in path or "new" in path}
        wrong = await browser.submit(form, "do", **{**others, field: "Readers"})
        assert wrong.status == 400
        assert "Did you mean readers?" in re.sub(r"</?bdi>", "", wrong.body)
        right = await browser.submit(form, "do", **{**others, field: " readers "})
        assert right.status in {200, 303}

    run(tmp_path, story)
