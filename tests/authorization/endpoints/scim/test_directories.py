"""SCIM as common directories speak it: Okta's and Entra ID's requests, at one server each."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from tests.authorization.endpoints.scim.directory import Directory, directory, tell
from tests.support.harness import ADA
from valetkey.authorization.actions.account.removal import ExportOrigin, export
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.claims.model import Declarations
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.event.event import by_directory
from valetkey.authorization.model.user import Attribute, Session, Uid
from valetkey.authorization.operations.users import DISABLE_USER, ENABLE_USER
from valetkey.authorization.scim.operations import (
    END_SCIM_CREDENTIAL,
    ROTATE_SCIM_CREDENTIAL,
    ScimCredentialMade,
    ScimRotation,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.secret import Fingerprint

EXTENSION = "urn:ietf:params:scim:schemas:extension:valetkey:2.0:User"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


def test_directories_provision_users_and_groups(tmp_path: Path, database_url: str) -> None:
    stories = (
        _okta,
        _renamed,
        _entra,
        _disabled,
        _attributes,
        _members,
        _bulk,
        _lists,
        _versions,
        _usernames,
        _credentials,
    )
    asyncio.run(tell(tmp_path, database_url, *stories))


async def _okta(it: Directory) -> None:
    assert await it.find("Users", 'userName eq "grace@example.com"') == []
    made = await it.user(
        name={"givenName": "Grace", "familyName": "Hopper"},
        emails=[{"primary": True, "value": "grace@example.com", "type": "work"}],
        displayName="Grace Hopper",
        locale="en-US",
        externalId="00ujl29u0le5T6Aj10h7",
        groups=[],
        password="1mz050nq",
        active=True,
    )
    assert made["userName"] == "grace@example.com"
    assert "password" not in made
    user = await it.it.read(lambda tx: tx.users.find_by_email("grace@example.com"))
    assert user is not None
    assert (user.username, user.name) == ("grace", "Grace Hopper")
    assert user.email_verified_at is not None
    assert await it.it.read(lambda tx: tx.users.password_hash(user.uid)) is None
    # Okta reads the whole user, changes it, and sends it back.
    path = f"/Users/{made['id']}"
    read = (await it.call("GET", path)).json
    changed = await it.call("PUT", path, {**read, "displayName": "Rear Admiral Hopper"})
    assert changed.json["displayName"] == "Rear Admiral Hopper"
    # It disables by PATCH, and enables the same way.
    now = it.it.clock.now
    session = Session("se_1", user.uid, now, ("pwd",), "", now, now, later(now, days(1)), None)
    await it.it.write(lambda tx: tx.sessions.start(session, Fingerprint("print")))
    for active in (False, True):
        answer = await it.patch(path, {"op": "replace", "value": {"active": active}})
        assert answer.json["active"] is active
        assert not await it.it.read(lambda tx: tx.sessions.live_of(user.uid, now))
    events = [e for e in await it.it.event_records() if e.name.startswith("user.")]
    assert {event.done_by for event in events} == {by_directory(it.id)}
    assert {"user.disabled", "user.enabled", "user.changed"} <= {event.name for event in events}
    # It pushes a group with its name, its id and its members in one operation without a path.
    group = await it.group("Rear Admirals", made["id"])
    value = {"id": group["id"], "displayName": "Admirals of the Rear"}
    answer = await it.patch(f"/Groups/{group['id']}", {"op": "replace", "value": value})
    assert answer.json["displayName"] == "Admirals of the Rear"
    assert await it.it.read(lambda tx: tx.groups.names_of(user.uid)) == ["Admirals-of-the-Rear"]
    (resource,) = await it.find("Groups", 'displayName eq "admirals of the rear"')
    assert resource["id"] == group["id"]


async def _renamed(it: Directory) -> None:
    """A new displayName renames the group, for the apps that require it too."""
    group, other = await it.group("Lab Staff"), await it.group("Guests")
    path = f"/Groups/{group['id']}"
    required = OpenIdRegistration(required_groups=("Lab-Staff",))
    await it.it.client("lab", openid=required)
    for display, name in (("Lab Crew", "Lab-Crew"), ("Labör Crew", "Labor-Crew")):
        whole = (await it.call("GET", path)).json
        for _ in range(2):
            answer = await it.call("PUT", path, {**whole, "displayName": display})
            assert (answer.status, answer.json["displayName"]) == (200, display)
        client = await it.it.read(lambda tx: tx.clients.find("lab"))
        assert client is not None
        assert client.openid.required_groups == (name,)
    taken = {"op": "replace", "path": "displayName", "value": "guests?"}
    await it.patch(f"/Groups/{other['id']}", {**taken, "value": "labor-crew"})
    (await it.patch(path, {**taken, "value": "labor-crew"})).refused(409, "uniqueness")
    assert (await it.call("GET", path)).json["displayName"] == "Labör Crew"
    assert (await it.patch(path, {**taken, "value": "labor crew!"})).status == 200


async def _entra(it: Directory) -> None:
    # It asks for a user that exists by the address, and takes the account over.
    (ada,) = await it.find("Users", 'userName eq "Ada@example.com"')
    assert (ada["id"], ada["userName"]) == (str(ADA), "ada")
    path = f"/Users/{ada['id']}"
    answer = await it.patch(
        path,
        {"op": "Replace", "path": "userName", "value": "ada@example.com"},
        {"op": "Add", "path": "externalId", "value": "ada-at-entra"},
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "Add", "path": 'phoneNumbers[type eq "mobile"].value', "value": "+44 20 7946 0000"},
        {"op": "Add", "path": "name.givenName", "value": "Ada"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Engines"},
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "ada@lovelace.example"},
    )
    resource = answer.json
    assert (resource["userName"], resource["active"]) == ("ada@example.com", False)
    assert resource["phoneNumbers"][0]["value"] == "+442079460000"
    assert resource["emails"][0]["value"] == "ada@lovelace.example"
    (same,) = await it.find("Users", 'externalId eq "ada-at-entra"')
    assert same["name"] == {"givenName": "Ada"}
    assert (await it.call("DELETE", path)).status == 204
    (await it.call("GET", path)).refused(404)
    (await it.call("DELETE", path)).refused(404)
    assert await it.find("Users", 'externalId eq "ada-at-entra"') == []
    assert "user.removed" in await it.it.events()


async def _disabled(it: Directory) -> None:
    """A directory enables only what it disabled itself; an administrator's word counts more."""
    made = await it.user("tim@example.com")
    path, arguments = f"/Users/{made['id']}", {"uid": made["id"]}
    off, on = ({"op": "replace", "path": "active", "value": enabled} for enabled in (False, True))

    async def active(*operations: Mapping[str, object]) -> bool:
        answer = await it.patch(path, *operations)
        assert answer.status == 200, answer.json
        whole = (await it.call("GET", path)).json
        again = (await it.call("PUT", path, {**whole, "active": answer.json["active"]})).json
        assert again["active"] is answer.json["active"]
        return bool(again["active"])

    await it.it.perform(DISABLE_USER, arguments)
    assert not await active(on)
    assert not (await it.call("PUT", path, {**made, "active": True})).json["active"]
    assert not await active(off)
    assert not await active(on)
    await it.it.perform(ENABLE_USER, arguments)
    # What the directory disabled is disabled by the administrator as well.
    assert not await active(off)
    await it.it.perform(DISABLE_USER, arguments)
    assert not await active(on)
    await it.it.perform(ENABLE_USER, arguments)
    assert not await active(off)
    assert await active(on)
    assert (await it.call("DELETE", path)).status == 204


async def _attributes(it: Directory) -> None:
    declared = (
        Attribute("department", "Department", {"type": "string", "maxLength": 20}),
        Attribute("cost_centers", schema={"type": "array", "items": {"type": "integer"}}),
        Attribute("desk", schema={"type": "object"}),
    )

    async def declare(attribute: Attribute) -> None:
        await it.it.write(lambda tx: Declarations.of(tx).save_attribute(attribute, Instant(1)))

    for attribute in declared:
        await declare(attribute)
    schema = (await it.call("GET", f"/Schemas/{EXTENSION}")).json
    assert [(a["name"], a["type"], a["multiValued"]) for a in schema["attributes"]] == [
        ("cost_centers", "integer", True),
        ("department", "string", False),
    ]
    values = {"department": "Research", "cost_centers": [7]}
    made = await it.user("tim@example.com", active="False", **{EXTENSION: values})
    assert (made[EXTENSION], made["active"]) == (values, False)
    path = f"/Users/{made['id']}"
    answer = await it.patch(
        path,
        {"op": "replace", "path": f"{EXTENSION}:department", "value": "Web"},
        {"op": "add", "path": f"{EXTENSION}:cost_centers", "value": [8]},
    )
    assert answer.json[EXTENSION] == {"department": "Web", "cost_centers": [7, 8]}
    wrong = {"op": "replace", "path": f"{EXTENSION}:department", "value": "x" * 21}
    assert (await it.patch(path, wrong)).json[EXTENSION] == answer.json[EXTENSION]
    # A directory that does not map the extension leaves it alone.
    body = {"userName": "tim@example.com", "displayName": "Tim"}
    assert (await it.call("PUT", path, body)).json[EXTENSION]["department"] == "Web"
    answer = await it.patch(path, {"op": "remove", "path": EXTENSION})
    assert EXTENSION not in answer.json
    only = await it.call("GET", f"{path}?attributes=userName,{EXTENSION}:department")
    assert set(only.json) == {"schemas", "id", "userName"}


async def _members(it: Directory) -> None:
    ids = [(await it.user(f"m{number}@example.com"))["id"] for number in range(3)]
    group = await it.group("Members", ids[0])
    path = f"/Groups/{group['id']}"

    async def members() -> set[str]:
        entries = (await it.call("GET", path)).json.get("members", [])
        return {member["value"] for member in entries}

    add = [{"value": user_id, "display": "x"} for user_id in ids]
    assert (await it.patch(path, {"op": "Add", "path": "members", "value": add})).status == 200
    assert await members() == set(ids)
    one = f'id eq "{group["id"]}" and members eq "{ids[1]}"'
    assert len(await it.find("Groups", one)) == 1
    gone = (
        {"op": "remove", "path": f'members[value eq "{ids[1]}"]'},
        {"op": "Remove", "path": "members", "value": [{"value": ids[2]}]},
    )
    assert (await it.patch(path, *gone)).status == 200
    assert await members() == {ids[0]}
    assert await it.find("Groups", one) == []
    body = {"displayName": "Members", "members": [{"value": ids[1]}]}
    await it.call("PUT", path, body)
    assert await members() == {ids[1]}
    mine = await it.call("GET", f"/Users/{ids[1]}?attributes=groups")
    assert [membership["value"] for membership in mine.json["groups"]] == [group["id"]]
    (resource,) = await it.find("Groups", f'members.value eq "{ids[1]}"')
    assert resource["id"] == group["id"]
    without = await it.call("GET", f"{path}?excludedAttributes=members")
    assert "members" not in without.json
    await it.patch(path, {"op": "remove", "path": "members"})
    assert await members() == set()
    assert (await it.call("DELETE", path)).status == 204
    (await it.call("GET", path)).refused(404)


async def _bulk(it: Directory) -> None:
    refer = {"displayName": "Bulk", "members": [{"value": "bulkId:b1"}]}
    answer = await it.bulk(
        {"method": "POST", "path": "/Groups", "bulkId": "g", "data": refer},
        {
            "method": "POST",
            "path": "/Users",
            "bulkId": "b1",
            "data": {"userName": "b1@example.com"},
        },
        {
            "method": "POST",
            "path": "/Users",
            "bulkId": "b2",
            "data": {"userName": "b1@example.com"},
        },
        {"method": "DELETE", "path": "/Users/12"},
        {"method": "PATCH", "path": "/Users/bulkId:none", "data": {}},
    )
    by_id = {
        operation.get("bulkId", operation["method"]): operation
        for operation in answer.json["Operations"]
    }
    assert {name: operation["status"] for name, operation in by_id.items()} == {
        "b1": "201",
        "g": "201",
        "b2": "409",
        "DELETE": "404",
        "PATCH": "400",
    }
    assert by_id["b2"]["response"]["scimType"] == "uniqueness"
    group = await it.call("GET", by_id["g"]["location"].partition("/scim/v2")[2])
    assert group.json["members"][0]["value"] == by_id["b1"]["location"].rpartition("/")[2]
    gone = [{"method": "DELETE", "path": f"/Users/{number}"} for number in range(1, 9)]
    stopped = await it.bulk(*gone, failOnErrors=2)
    assert [operation["status"] for operation in stopped.json["Operations"]] == ["404", "404"]


async def _lists(it: Directory) -> None:
    first = (await it.call("GET", "/Users?startIndex=1&count=2")).json
    total = first["totalResults"]
    seen = [user["id"] for user in first["Resources"]]
    for start in range(3, total + 1, 2):
        page = (await it.call("GET", f"/Users?startIndex={start}&count=2")).json
        seen += [user["id"] for user in page["Resources"]]
    assert len(seen) == len(set(seen)) == total
    back = (await it.call("GET", "/Users?sortBy=id&sortOrder=descending")).json["Resources"]
    assert [user["id"] for user in back] == seen[::-1]
    none = (await it.call("GET", "/Users?count=0")).json
    assert (none["totalResults"], none["Resources"]) == (total, [])
    body = {"filter": 'emails[type eq "work" and value eq "grace@example.com"]'}
    answer = await it.call("POST", "/Users/.search", {**body, "attributes": ["userName"]})
    assert [set(user) for user in answer.json["Resources"]] == [{"schemas", "id", "userName"}]
    groups = (await it.call("GET", "/Groups?attributes=displayName")).json
    assert {group["displayName"] for group in groups["Resources"]} >= {"Bulk"}
    both = 'userName eq "grace@example.com" or (externalId eq "x" and not (active eq true))'
    assert len(await it.find("Users", both)) == 1


async def _versions(it: Directory) -> None:
    made = await it.user("ver@example.com")
    path, version = f"/Users/{made['id']}", made["meta"]["version"]
    body = {"userName": "ver@example.com", "displayName": "Version"}
    changed = await it.call("PUT", path, body, if_match=version)
    assert changed.status == 200
    assert changed.etag == changed.json["meta"]["version"] != version
    (await it.call("PUT", path, body, if_match=version)).refused(412)
    (await it.call("DELETE", path, if_match=version)).refused(412)
    assert (await it.call("DELETE", path, if_match=changed.etag)).status == 204


async def _usernames(it: Directory) -> None:
    """A username that an administrator changed is not changed back by the next PATCH."""
    made = await it.user("kate", emails=[{"value": "kate@example.com"}])
    accounts, now = it.it.foundation.accounts(), it.it.clock.now
    origin = ExportOrigin("x", it.it.foundation.issuer, "x")

    def work(tx: Transaction) -> bytes:
        user = tx.users.find_to_change(Uid(int(made["id"])))
        assert user is not None
        accounts.change(tx, user, UserRecord("katherine", user.email), now)
        return export(tx, user, origin, now)

    exported = json.loads(await it.it.write(work))
    assert exported["directories"] == [{"name": "Okta", "user_name": "kate", "external_id": ""}]
    path = f"/Users/{made['id']}"
    answer = await it.patch(path, {"op": "replace", "path": "displayName", "value": "Kate"})
    assert answer.json["userName"] == "kate"
    user = await it.it.read(lambda tx: tx.users.find_by_username("katherine"))
    assert user is not None
    assert user.name == "Kate"
    await it.patch(path, {"op": "replace", "path": "userName", "value": "kath"})
    assert await it.it.read(lambda tx: tx.users.find_by_username("kath")) is not None


async def _credentials(it: Directory) -> None:
    """Two directories see names of their own; a rotated token works for a while, an ended not."""
    other = await directory(it.it, "Entra")
    made = await it.user("two@example.com", externalId="one")
    seen = (await other.call("GET", f"/Users/{made['id']}")).json
    assert (seen["userName"], "externalId" in seen) == ("two", False)
    await other.patch(f"/Users/{made['id']}", {"op": "add", "value": {"externalId": "other"}})
    assert (await it.call("GET", f"/Users/{made['id']}")).json["externalId"] == "one"
    arguments = {"credential_id": other.id}
    rotated = await it.it.perform(ROTATE_SCIM_CREDENTIAL, arguments, ScimRotation(60))
    assert isinstance(rotated, ScimCredentialMade)
    fresh = Directory(it.it, rotated.token, other.id)
    for connection in (other, fresh):
        assert (await connection.call("GET", "/Users?count=0")).status == 200
    it.it.clock.forward(61)
    (await other.call("GET", "/Users?count=0")).refused(401)
    assert (await fresh.call("GET", "/Users?count=0")).status == 200
    await it.it.perform(END_SCIM_CREDENTIAL, arguments)
    (await fresh.call("GET", "/Users?count=0")).refused(401)
