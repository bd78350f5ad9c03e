"""A group with 100,000 members in SCIM, the admin API and the console: answers stay bounded."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.admin.people import administrator
from tests.authorization.endpoints.admin_api.programs import caller
from tests.authorization.endpoints.scim.directory import GROUP, Directory, tell
from tests.support.harness import ADA, Harness
from tests.support.visitors import run
from valetkey.authorization.model.user import Group
from valetkey.authorization.storage.transaction import Transaction

_MEMBERS = 100_000
_LARGEST = 400_000
"""Maximum size of an answer in bytes: a page of members, never all of them."""


def _crowd(tx: Transaction) -> None:
    """Fill the group with new users, beside the interfaces: through them it takes minutes."""
    tx.db.run(
        "INSERT INTO uids (uid, given_at) WITH RECURSIVE n(i) AS"
        " (SELECT 1000000 UNION ALL SELECT i + 1 FROM n WHERE i < 999999 + :most)"
        " SELECT i, 0 FROM n",
        most=_MEMBERS,
    )
    tx.db.run(
        "INSERT INTO users (uid, username, username_key, email, email_key, name, created_at,"
        " changed_at) SELECT uid, 'u' || uid, 'u' || uid, 'u' || uid || '@x.example',"
        " 'u' || uid || '@x.example', '', 0, 0 FROM uids WHERE uid >= 1000000 AND uid <= :last",
        last=999_999 + _MEMBERS,
    )
    tx.db.run(
        "INSERT INTO group_members (uid, group_id, since) SELECT u.uid, g.id, 0"
        " FROM users u JOIN user_groups g ON g.name = 'everybody'"
        " WHERE u.uid >= 1000000 AND u.uid <= :last",
        last=999_999 + _MEMBERS,
    )


def _names_of(tx: Transaction) -> object:
    return tx.groups.names_of(ADA)


async def _story(it: Directory) -> None:
    harness = it.it
    made = await it.call("POST", "/Groups", {"schemas": [GROUP], "displayName": "everybody"})
    assert made.status == 201, made.json
    path = f"/Groups/{made.json['id']}"
    await harness.write(_crowd)
    await _of_scim(it, path)
    owner = await caller(harness)
    listed = await owner.call("GET", "/groups/everybody/members")
    assert (listed.status, len(listed.body) < _LARGEST) == (200, True)
    assert listed.items
    assert listed.json["next"]
    for changed in (True, False):
        added = await owner.call("PUT", f"/groups/everybody/members/{ADA}")
        assert added.json == {"changed": changed}
    assert await harness.read(_names_of) == ["everybody"]
    assert (await owner.call("DELETE", f"/groups/everybody/members/{ADA}")).status == 200
    assert (await owner.call("DELETE", "/groups/everybody")).json == {"changed": True}
    assert await harness.read(_names_of) == []


async def _of_scim(it: Directory, path: str) -> None:
    without = await it.call("GET", f"{path}?excludedAttributes=members")
    assert without.status == 200, without.json
    assert "members" not in without.json
    for method, member in (("add", ADA), ("remove", ADA)):
        change = {
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
            "Operations": [{"op": method, "path": "members", "value": [{"value": str(member)}]}],
        }
        answer = await it.call("PATCH", f"{path}?excludedAttributes=members", change)
        assert answer.status in {200, 204}, answer.json
    whole = await it.call("GET", path)
    assert (whole.status, len(str(whole.json)) < _LARGEST) == (200, True)


def test_group_with_100000_members_keeps_answers_bounded(tmp_path: Path, database_url: str) -> None:
    asyncio.run(tell(tmp_path, database_url, _story))


def test_console_shows_one_page_of_100000_members(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        group = Group("gp_1", "everybody", "", "", it.clock.now)
        assert await it.write(lambda tx: tx.groups.create(group, ""))
        await it.write(_crowd)
        browser = await administrator(it)
        page = await browser.get("/admin/groups/everybody")
        assert (page.status, len(page.body) < _LARGEST) == (200, True)
        assert "u1000001" in page.body

    run(tmp_path, story)
