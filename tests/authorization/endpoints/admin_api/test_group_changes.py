"""Groups that are renamed and moved: the apps that require them, roles, and races."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.authorization.endpoints.admin_api.test_groups import make_groups
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions import groups
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.user import Group
from valetkey.authorization.storage.transaction import Transaction

SCOPES = ("openid", "groups")


async def _change(owner: Caller, group: str, **fields: str) -> int:
    tag = (await owner.call("GET", f"/groups/{group}")).headers.get("etag", '""')
    answer = await owner.call("PATCH", f"/groups/{group}", fields, headers={"if-match": tag})
    return answer.status


async def _call(owner: Caller, method: str, path: str, **body: str) -> int:
    return (await owner.call(method, path, body or None)).status


async def _create(owner: Caller, name: str, parent: str = "") -> int:
    return await _call(owner, "POST", "/groups", name=name, parent=parent)


def _requires(*names: str) -> OpenIdRegistration:
    return OpenIdRegistration(required_groups=names)


def test_renamed_group_keeps_members_roles_and_apps(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff", "engineering<staff")
        await it.client("app", scopes=SCOPES, openid=_requires("staff", "team", "crew"))
        await it.client("other", openid=_requires("staff2"))
        await owner.call("PUT", f"/groups/engineering/members/{ADA}")
        api = {"identifier": "https://a.example", "name": "A", "roles": ["editor"]}
        made = await owner.call("POST", "/apis", api)
        assert made.status == 201, made.body
        role = f"/apis/{made.json['api_id']}/roles/editor"
        assert (await owner.call("PUT", f"{role}/groups/staff")).status == 200
        tokens = await it.exchange("app", await it.code("app", "openid groups"))
        assert await _change(owner, "staff", name="team", description="Everyone") == 200
        assert (await owner.call("GET", "/groups/staff")).status == 404
        assert (await owner.call("GET", "/groups/engineering")).json["parent"] == "team"
        assert (await owner.call("GET", role)).json["groups"] == ["team"]
        required = await it.read(
            lambda tx: [
                client.openid.required_groups
                for client in map(tx.clients.find, ("app", "other"))
                if client is not None
            ]
        )
        assert required == [("team", "crew"), ("staff2",)]
        assert (await it.refresh("app", tokens.text("refresh_token"))).status == 200
        userinfo = await it.call(
            "GET", "/oauth/userinfo", authorization=f"Bearer {tokens.text('access_token')}"
        )
        assert userinfo.json["groups"] == ["engineering", "team"]
        events = [record.name for record in await it.event_records()]
        assert (events.count("group.changed"), events.count("client.changed")) == (1, 1)

    run(tmp_path, story, database_url)


def test_group_moves_below_another_and_back(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff", "board", "engineering<staff")
        await owner.call("PUT", f"/groups/engineering/members/{ADA}")
        for name, fields in (
            ("staff", {"parent": "board"}),
            ("board", {"parent": "engineering"}),
            ("board", {"parent": "board"}),
            ("board", {"parent": "nowhere"}),
            ("board", {"name": "staff", "description": "x"}),
            ("board", {"name": "with space"}),
        ):
            assert await _change(owner, name, **fields) in {400, 422}, (name, fields)
        assert (await owner.call("GET", "/groups/board")).json["description"] == ""
        for parent, groups_of in (
            ("board", ["board", "engineering"]),
            ("", ["engineering"]),
            ("staff", ["engineering", "staff"]),
        ):
            assert await _change(owner, "engineering", parent=parent) == 200
            assert (await owner.call("GET", f"/users/{ADA}/groups")).json["all"] == groups_of
        stale = {"if-match": '"old"'}
        answer = await owner.call("PATCH", "/groups/board", {"name": "b"}, headers=stale)
        assert answer.status == 412
        assert (await owner.call("PATCH", "/groups/board", {"name": "b"})).status == 428

    run(tmp_path, story)


def test_group_that_too_many_apps_require_is_not_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_RENAMED", 1)

    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff")
        await it.client("app", openid=_requires("staff"))
        assert await _change(owner, "staff", name="team") == 200
        await it.client("other", openid=_requires("team"))
        assert await _change(owner, "team", name="staff") == 409
        assert (await owner.call("GET", "/groups/team")).status == 200

    run(tmp_path, story)


def test_parallel_changes_keep_names_and_nesting_valid(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "a", "b", "c")
        await it.client("app", openid=_requires("a"))
        members = [f"/groups/{name}/members/{ADA}" for name in "abcx"]
        answers = await asyncio.gather(
            *(_change(owner, "a", name="x") for _ in range(8)),
            *(_change(owner, "b", name="x") for _ in range(8)),
            *(_create(owner, "x") for _ in range(8)),
            *(_create(owner, f"in{number}", "a") for number in range(4)),
            *(_change(owner, "c", parent=name) for name in ("a", "b", "x")),
            *(_change(owner, name, parent="c") for name in ("a", "b", "x")),
            *(_call(owner, "PUT", path) for path in members * 4),
            *(_call(owner, "DELETE", path) for path in (*members, "/groups/c", "/groups/c")),
            *(_call(owner, "PUT", f"/users/{ADA}/groups", groups="a b") for _ in range(4)),
        )
        assert set(answers) <= {200, 201, 400, 404, 409, 412, 422}
        listed = (await owner.call("GET", "/groups")).items
        names = [str(group["name"]) for group in listed]
        assert names.count("x") == 1
        assert len(set(names)) == len(names)
        tops = {group["name"] for group in listed if not group["parent"]}
        assert {group["parent"] for group in listed} <= {"", *tops}
        app = await it.read(lambda tx: tx.clients.find("app"))
        assert app is not None
        assert app.openid.required_groups == (("a",) if "a" in names else ("x",))

    run(tmp_path, story, database_url)


def test_name_that_another_transaction_is_taking_is_refused(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "a")
        other, begun = Group("gr_other", "x", "", "", it.clock.now), threading.Event()

        def create_slowly(tx: Transaction) -> None:
            groups.create(tx, other, it.clock.now)
            begun.set()
            time.sleep(0.3)

        async def rename() -> int:
            assert await asyncio.to_thread(begun.wait, 10)
            return await _change(owner, "a", name="x")

        _, status = await asyncio.gather(it.write(create_slowly), rename())
        assert status in {400, 422}
        assert (await owner.call("GET", "/groups/a")).status == 200

    run(tmp_path, story, database_url)
