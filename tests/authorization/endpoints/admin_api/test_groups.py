"""Groups: their administration, the claim, and apps that only members may sign in to."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.support import visitors
from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.user import MOST_OF_USER
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.jwt import parse
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace

SCOPES = ("openid", "groups", "notes:read")


async def make_groups(owner: Caller, *names: str) -> None:
    for group in names:
        name, _, parent = group.partition("<")
        made = await owner.call("POST", "/groups", {"name": name, "parent": parent})
        assert made.status == 201, made.body


def _told(answer: Answer) -> Mapping[str, object]:
    claims: Mapping[str, object] = json.loads(parse(answer.text("id_token"), ("jwt",)).payload)
    return claims


async def _claims(it: Harness, token: str) -> dict[str, object]:
    answer = await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")
    assert answer.status == 200, answer.body
    return answer.json


def test_groups_are_created_nested_once_and_deleted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff", "engineering<staff", "board")
        for body, field in (
            ({"name": "staff"}, "name"),
            ({"name": "deep", "parent": "engineering"}, "parent"),
            ({"name": "lost", "parent": "nowhere"}, "parent"),
            ({"name": "with space"}, "name"),
        ):
            answer = await owner.call("POST", "/groups", body)
            assert answer.status in {400, 422}, answer.body
            assert field in answer.body.decode()
        first = await owner.call("GET", "/groups?limit=2")
        assert [group["name"] for group in first.items] == ["board", "engineering"]
        rest = await owner.call("GET", f"/groups?limit=2&cursor={first.json['next']}")
        assert ([group["name"] for group in rest.items], rest.json["next"]) == (["staff"], None)
        assert (await owner.call("DELETE", "/groups/staff")).status == 409
        assert (await owner.call("DELETE", "/groups/engineering")).json == {"changed": True}
        assert (await owner.call("DELETE", "/groups/engineering")).status == 404
        assert (await owner.call("DELETE", "/groups/staff")).json == {"changed": True}
        events = [name for name in await it.events() if name.startswith("group.")]
        assert sorted(events) == ["group.created"] * 3 + ["group.deleted"] * 2

    run(tmp_path, story, database_url)


def test_membership_is_in_userinfo_at_once_and_in_the_next_token(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff", "engineering<staff", "board")
        path = f"/groups/engineering/members/{ADA}"
        added = await asyncio.gather(*(owner.call("PUT", path) for _ in range(8)))
        assert sorted(str(reply.json["changed"]) for reply in added) == ["False"] * 7 + ["True"]
        assert (await it.events()).count("group_member.added") == 1
        listed = await owner.call("GET", "/groups/engineering/members")
        assert [member["uid"] for member in listed.items] == [ADA]
        own = (await owner.call("GET", f"/users/{ADA}/groups")).json
        assert own == {"direct": ["engineering"], "all": ["engineering", "staff"]}
        await it.client("app", scopes=SCOPES)
        first = await it.exchange("app", await it.code("app", "openid groups"))
        groups = _told(first)["groups"]
        assert groups == ["engineering", "staff"]
        assert (await _claims(it, first.text("access_token")))["groups"] == groups
        plain = await it.exchange("app", await it.code("app", "openid"))
        assert "groups" not in _told(plain)
        assert "groups" not in await _claims(it, plain.text("access_token"))
        assert (await owner.call("DELETE", path)).json == {"changed": True}
        assert (await _claims(it, first.text("access_token")))["groups"] == []
        again = await it.refresh("app", first.text("refresh_token"))
        assert _told(again)["groups"] == []

    run(tmp_path, story, database_url)


def test_all_groups_of_a_user_are_set_at_once_and_bounded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "a", "b", "c")
        path = f"/users/{ADA}/groups"
        for names, direct in (("a b", ["a", "b"]), ("b c", ["b", "c"]), ("", [])):
            assert (await owner.call("PUT", path, {"groups": names})).json == {"changed": True}
            assert (await owner.call("GET", path)).json["direct"] == direct
        assert (await owner.call("PUT", path, {"groups": ""})).json == {"changed": False}
        unknown = await owner.call("PUT", path, {"groups": "a nowhere"})
        assert unknown.status in {400, 422}
        assert (await owner.call("GET", path)).json["direct"] == []

        def fill(tx: Transaction) -> None:
            for number in range(MOST_OF_USER):
                tx.db.run(
                    "INSERT INTO user_groups (id, name, description, parent_id, created_at)"
                    " VALUES (:id, :id, '', '', 0)",
                    id=f"g{number}",
                )
                tx.db.run(
                    "INSERT INTO group_members (uid, group_id, since) VALUES (:uid, :id, 0)",
                    uid=ADA,
                    id=f"g{number}",
                )

        await it.write(fill)
        assert (await owner.call("PUT", f"/groups/a/members/{ADA}")).status == 409
        again = await owner.call("PUT", f"/groups/g{MOST_OF_USER - 1}/members/{ADA}")
        assert again.json == {"changed": False}

    run(tmp_path, story)


def test_deleted_group_is_swept_and_its_name_starts_empty(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff")
        await owner.call("PUT", f"/groups/staff/members/{ADA}")
        await owner.call("DELETE", "/groups/staff")
        await make_groups(owner, "staff")
        assert (await owner.call("GET", "/groups/staff/members")).items == []
        later = Instant(it.clock.now + days(2))
        swept = [await it.write(lambda tx: tx.groups.sweep(later, 10)) for _ in range(3)]
        assert swept == [1, 1, 0]
        assert (await owner.call("GET", "/groups")).items[0]["name"] == "staff"

    run(tmp_path, story, database_url)


def test_only_members_get_tokens_of_an_app_with_required_groups(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await make_groups(owner, "staff", "engineering<staff")
        required = OpenIdRegistration(required_groups=("staff",))
        await it.client("app", scopes=SCOPES, openid=required)
        (await it.exchange("app", await it.code("app", "openid"))).refused(400, "invalid_grant")
        path = f"/groups/engineering/members/{ADA}"
        await owner.call("PUT", path)
        tokens = await it.exchange("app", await it.code("app", "openid"))
        assert tokens.status == 200
        await owner.call("DELETE", path)
        refresh = tokens.text("refresh_token")
        (await it.refresh("app", refresh)).refused(400, "invalid_grant")
        await owner.call("PUT", path)
        assert (await it.refresh("app", refresh)).status == 200

    run(tmp_path, story)


def test_user_in_none_of_the_required_groups_is_denied_before_consent(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        required = OpenIdRegistration(required_groups=("staff",))
        await it.register(replace(visitors.WEB, id="closed", openid=required))
        alice = it.browser()
        answer = await alice.sign_in(await alice.ask(client_id="closed"))
        assert answer.told["error"] == "access_denied"

    visitors.run(tmp_path, story)
