"""Roles at APIs on the pages of users and groups."""

import re
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Answer
from valetkey.authorization.model.user import Role

API = "https://calendar.example"


def roles(answer: Answer) -> list[str]:
    """The roles on a page, with the groups that give them, and whether each can be removed."""
    entries = re.findall(
        r"<bdi>(editor|reader)</bdi></code>(.*?)</li>",
        answer.body.partition("API roles")[2],
        re.DOTALL,
    )
    return [
        " ".join((role, *re.findall(r"by the group <bdi>(.*?)</bdi>", rest), *_removes(rest)))
        for role, rest in entries
    ]


def _removes(text: str) -> list[str]:
    return ["(remove)"] if 'value="remove"' in text else []


async def _api(it: Harness) -> str:
    browser = await administrator(it)
    fields = {"identifier": API, "name": "Calendar", "roles": "editor\nreader"}
    made = await do(browser, "/admin/apis/new", **fields)
    assert made.status == 303, made.body
    path = made.location.partition("?")[0]
    assert "<bdi>reader</bdi></code>" in (await page(browser, path)).body
    return path.rpartition("/")[2]


def test_roles_are_assigned_to_users_and_groups_and_removed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        api_id = await _api(it)
        browser = await administrator(it)
        user = await page(browser, "/admin/users/1001")
        assert roles(user) == []
        done = await browser.submit(user, "assign", role=f"{api_id} reader")
        assert done.location == "/admin/users/1001?done=api-role"
        await do(browser, "/admin/groups/new", name="staff")
        await do(browser, "/admin/groups/new?in=staff", name="crew")
        for group, role in (("staff", "editor"), ("crew", "reader")):
            form = await page(browser, f"/admin/groups/{group}")
            assigned = await browser.submit(form, "assign", role=f"{api_id} {role}")
            assert assigned.location == f"/admin/groups/{group}?done=api-role"
        crew = await page(browser, "/admin/groups/crew")
        assert roles(crew) == ["editor staff", "reader (remove)"]
        await browser.submit(crew, "add", person="ada")
        user = await page(browser, "/admin/users/1001")
        assert roles(user) == ["editor staff", "reader crew (remove)"]
        assert "Calendar: editor" in user.body
        assert "Calendar: reader" not in user.body
        removed = await browser.submit(user, "assign", role=f"{api_id} reader", do="remove")
        assert removed.location == "/admin/users/1001?done=api-role-removed"
        assert roles(await page(browser, removed.location)) == ["editor staff", "reader crew"]
        held = await it.read(lambda tx: tx.api_roles.memberships(ADA, api_id))
        assert (held.groups, held.roles) == (["crew", "staff"], ["editor", "reader"])

    run(tmp_path, story)


def test_unknown_roles_and_readers_change_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        api_id = await _api(it)
        browser = await administrator(it)
        user = await page(browser, "/admin/users/1001")
        for role in ("", "reader", f"{api_id} ", f"{api_id} king", "none reader", f"{api_id} %00"):
            assert (await browser.submit(user, "assign", role=role)).status == 404, role
        auditor = await administrator(it, Role.AUDITOR)
        seen = await page(auditor, "/admin/users/1001")
        assert 'id="assign"' not in seen.body
        assert not await it.read(lambda tx: tx.api_roles.of_user(ADA, 9))

    run(tmp_path, story)
