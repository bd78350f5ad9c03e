"""Values that cannot be kept: the rest of the request is applied, and the operator is told."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.endpoints.scim.directory import USER, Directory, tell
from tests.support.harness import ADA
from valetkey.authorization.actions.inspection.check import Installation, Level
from valetkey.authorization.actions.inspection.inspector import in_database
from valetkey.authorization.claims.model import Declarations
from valetkey.authorization.features import CHECKS
from valetkey.authorization.model.user import Attribute, Group, Role, Uid
from valetkey.authorization.scim.storage import ScimValuesIgnored
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

EXTENSION = "urn:ietf:params:scim:schemas:extension:valetkey:2.0:User"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
JUNK: tuple[object, ...] = (7, True, {}, [[]], "x" * 3_000, "\u202e", {"a": [{}]}, [None])
"""Values of a wrong type, too long, or with characters that no attribute takes."""

WRONG: Mapping[str, tuple[object, ...]] = {
    "externalId": JUNK,
    "name": ("Grace", 7, True, ["x"], {"givenName": 7}, {"familyName": "x" * 201}),
    "name.givenName": JUNK,
    "name.familyName": ("x" * 201, "x\ny", 7),
    "name.middleName": ("a\u202eb", []),
    "displayName": JUNK,
    "nickName": JUNK,
    "profileUrl": ("http://plain.example", "no address", 7, "javascript:alert(1)"),
    "locale": ("en US", "x", "en-", 7, ["en"]),
    "timezone": ("Mars/Base", "W. Europe Standard Time", "../etc/passwd", 7),
    "active": ("maybe", 2, [], {}, [True, False], {"value": "x"}),
    "emails": ([1], {"value": []}, [{"value": "no address"}], [{"value": "a b@x.example"}], 7),
    "phoneNumbers": ("ext. 7", [{"value": "020 7946 0000"}], [{"value": 7}], [{"value": "+" * 9}]),
    "addresses": ("here", [{"country": 7}], [{"locality": "x" * 201}], [{"region": "\u202e"}], 7),
    "nothing": JUNK,
    "urn:example:params:scim:schemas:extension:2.0:User": ({"a": 1}, "x"),
    f"{EXTENSION}:department": ("x" * 21, 7, ["x"], {}),
    f"{EXTENSION}:cost_centers": (["x"], "x", [{}]),
}
KEPT_NOWHERE: Mapping[str, tuple[object, ...]] = {
    "title": JUNK,
    "userType": JUNK,
    "preferredLanguage": JUNK,
    "roles": JUNK,
    "photos": JUNK,
    "ims": JUNK,
    "entitlements": JUNK,
    "x509Certificates": JUNK,
    "password": JUNK,
    "groups": JUNK,
    "meta": JUNK,
    "name.honorificPrefix": JUNK,
    ENTERPRISE: JUNK,
    f"{ENTERPRISE}:manager": JUNK,
}
"""Standard attributes that this server does not keep, or that a directory cannot write."""

_WITH_EVERY_VERB = 2

INACTIVE: tuple[object, ...] = (
    *(False, "False", "false", "FALSE", " false ", 0, "0", "no", [False], {"value": False}),
    *({"value": "False"}, {"Value": [0]}, {"active": "false"}),
)
INACTIVE_PATHS = ("active", "Active", f"{USER}:active", f"{USER}:Active", "active.value", " active")


def _inside(name: str, value: object) -> dict[str, object]:
    """Return a member of a resource: a part of `name` is inside of it."""
    first, dot, second = name.partition(".")
    return {first: {second: value}} if dot and first == "name" else {name: value}


async def _declare(it: Directory) -> None:
    declared = (
        Attribute("department", "Department", {"type": "string", "maxLength": 20}),
        Attribute("cost_centers", schema={"type": "array", "items": {"type": "integer"}}),
    )

    def declare(tx: Transaction) -> None:
        for attribute in declared:
            Declarations.of(tx).save_attribute(attribute, Instant(1))

    await it.it.write(declare)


@pytest.mark.parametrize("name", [*WRONG, *KEPT_NOWHERE])
def test_user_is_disabled_despite_any_unusable_value(name: str, tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        await _declare(it)
        for number, value in enumerate({**WRONG, **KEPT_NOWHERE}[name]):
            user = f"u{number}@example.com"
            off = {} if name == "active" else {"active": "False"}
            body = {"schemas": [USER], "userName": user, **_inside(name, value), **off}
            made = await it.call("POST", "/Users", body)
            assert (made.status, made.json.get("userName")) == (201, user), (value, made.json)
            assert made.json["active"] is (name == "active"), value
            path = f"/Users/{made.json['id']}"
            good = {"userName": user, "displayName": "Grace", "locale": "en-GB", "active": True}
            if name != "active" and number < _WITH_EVERY_VERB:
                await _all_verbs(it, path, good, name, value, bulk=number == 0)
            for operation in (
                {"op": "replace", "path": name, "value": value},
                {"op": "add", "value": {name: value}},
            ):
                answer = await it.patch(path, operation)
                assert answer.status == 200, (operation, answer.json)

    asyncio.run(tell(tmp_path, "", story))


async def _all_verbs(
    it: Directory, path: str, good: Mapping[str, object], name: str, value: object, *, bulk: bool
) -> None:
    on, off = ({"op": "Replace", "path": "active", "value": active} for active in ("True", "False"))
    wrong = {"op": "Replace", "path": name, "value": value}
    without = {"op": "replace", "value": {name: value, "active": "False"}}
    requests: list[tuple[str, Any]] = [
        ("PUT", {**good, **_inside(name, value), "active": "False"}),
        ("PATCH", [wrong, off]),
        ("PATCH", [off, {**wrong, "op": "Add"}]),
        ("PATCH", [without]),
    ]
    for method, sent in requests:
        assert (await it.patch(path, on)).json["active"] is True
        if method == "PUT":
            answer = await it.call("PUT", path, sent)
        else:
            answer = await it.patch(path, *sent)
        assert answer.status == 200, (sent, answer.json)
        assert answer.json["active"] is False, sent
        if not bulk:
            continue
        assert (await it.patch(path, on)).json["active"] is True
        operations = {
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
            "Operations": sent,
        }
        data = sent if method == "PUT" else operations
        done = (await it.bulk({"method": method, "path": path, "data": data})).json["Operations"]
        assert done[0]["status"] == "200", done
        assert (await it.call("GET", path)).json["active"] is False


def test_active_false_is_accepted_in_every_representation(tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        path = f"/Users/{(await it.user())['id']}"
        forms = [
            *(("active", value) for value in INACTIVE),
            *((p, "False") for p in INACTIVE_PATHS),
        ]
        for where, value in forms:
            for operation in (
                {"op": "Replace", "path": where, "value": value},
                {"op": "add", "path": where, "value": value},
                {"op": "replace", "value": {where: value}},
                {"op": "replace", "value": {USER: {"active": value}}},
                {"op": "replace", "path": USER, "value": {"active": value}},
            ):
                on = await it.patch(path, {"op": "replace", "path": "active", "value": "True"})
                assert on.json["active"] is True
                answer = await it.patch(path, operation)
                assert (answer.status, answer.json["active"]) == (200, False), operation
            body = {"userName": "grace@example.com", "active": value}
            await it.patch(path, {"op": "replace", "path": "active", "value": "True"})
            assert (await it.call("PUT", path, body)).json["active"] is False, value

    asyncio.run(tell(tmp_path, "", story))


async def _findings(it: Directory) -> dict[str, str]:
    installation = Installation(
        it.it.settings, it.it.foundation.keyring, it.it.foundation.roles, it.it.clock.now
    )
    findings = await it.it.read(lambda tx: in_database(tx, installation, CHECKS))
    return {e.about: e.sentence for e in findings if e.condition.name == "scim_left_out"}


async def _ignored(it: Directory) -> list[tuple[str, ...]]:
    records = await it.it.event_records()
    return [
        tuple(json.loads(e.data)["attributes"]) for e in records if e.name == ScimValuesIgnored.name
    ]


def test_ignored_values_are_counted_until_they_are_corrected(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Directory) -> None:
        assert await _findings(it) == {}
        ids = [(await it.user(f"u{number}@example.com"))["id"] for number in range(3)]
        wrong = {"op": "replace", "value": {"locale": "en US", "phoneNumbers": "7"}}
        for _ in range(2):
            for user_id in ids:
                assert (await it.patch(f"/Users/{user_id}", wrong)).status == 200
        # The same again is not another event.
        assert await _ignored(it) == [("locale", "phoneNumbers")] * 3
        (line,) = (await _findings(it)).values()
        assert line == (
            "The directory Okta sends values that cannot be kept, for users and groups: 3. "
            "Attributes: locale (3), phoneNumbers (3)."
        )
        right = {"op": "replace", "path": "locale", "value": "en-US"}
        assert (await it.patch(f"/Users/{ids[0]}", right)).json["locale"] == "en-US"
        (line,) = (await _findings(it)).values()
        assert "Attributes: phoneNumbers (3), locale (2)." in line
        for user_id in ids:
            body = {"userName": f"u{ids.index(user_id)}@example.com"}
            assert (await it.call("PUT", f"/Users/{user_id}", body)).status == 200
        assert await _findings(it) == {}

    asyncio.run(tell(tmp_path, database_url, story))


def test_unusable_value_leaves_the_previous_value(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        await _declare(it)
        good: dict[str, object] = {
            "userName": "grace@example.com",
            "externalId": "one",
            "displayName": "Grace Hopper",
            "name": {"givenName": "Grace", "familyName": "Hopper"},
            "locale": "en-GB",
            "emails": [{"value": "grace@example.com", "type": "work", "primary": True}],
            "phoneNumbers": [{"value": "+442079460000", "type": "work", "primary": True}],
            "addresses": [{"locality": "London", "type": "work", "primary": True}],
            EXTENSION: {"department": "Navy", "cost_centers": [7]},
            "active": True,
        }
        made = await it.user(
            "grace@example.com", **{k: v for k, v in good.items() if k != "userName"}
        )
        path = f"/Users/{made['id']}"
        user = await it.it.read(lambda tx: tx.users.find(Uid(int(made["id"]))))
        assert user is not None
        for name, values in WRONG.items():
            for value in values:
                for body in (
                    {"op": "replace", "path": name, "value": value},
                    {"op": "replace", "value": {name: value}},
                ):
                    answer = await it.patch(path, body)
                    kept = {attribute: answer.json.get(attribute) for attribute in good}
                    # Nothing was left out of an empty value, or an address has other parts now.
                    changed = value in ({}, []) or "region" in str(value)
                    assert kept == good or changed, (body, kept)
                    await it.call("PUT", path, good)
        whole = {
            **good,
            "locale": 7,
            "phoneNumbers": "7",
            "displayName": [],
            "name": {"givenName": 7},
        }
        answer = await it.call("PUT", path, {**whole, "addresses": "x", "emails": [3]})
        expected = {**good, "name": {"givenName": "Grace"}}
        assert {attribute: answer.json.get(attribute) for attribute in good} == expected
        after = await it.it.read(lambda tx: tx.users.find(user.uid))
        assert after is not None
        assert after.email_verified_at == user.email_verified_at
        # Of several values the first that can be kept is.
        several = [{"value": "7", "primary": True}, {"value": "+4930123456", "type": "mobile"}]
        answer = await it.call("PUT", path, {**good, "phoneNumbers": several})
        assert [phone_number["value"] for phone_number in answer.json["phoneNumbers"]] == [
            "+4930123456"
        ]

    asyncio.run(tell(tmp_path, database_url, story))


def test_user_is_disabled_despite_an_email_of_another_account(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Directory) -> None:
        made = await it.user("grace@example.com", externalId="one")
        await it.user("tim@example.com", externalId="two")
        taken = {"emails": [{"value": "tim@example.com"}], "externalId": "two", "active": False}
        answer = await it.patch(f"/Users/{made['id']}", {"op": "replace", "value": taken})
        assert answer.status == 200, answer.json
        assert answer.json["active"] is False
        assert answer.json["emails"][0]["value"] == "grace@example.com"
        assert answer.json["externalId"] == "one"
        assert await _ignored(it) == [("emails", "externalId")]
        # What identifies is refused.
        name = {"op": "replace", "path": "userName", "value": "tim@example.com"}
        (await it.patch(f"/Users/{made['id']}", name)).refused(409, "uniqueness")
        again = {"userName": "eve@example.com", "externalId": "two"}
        (await it.call("POST", "/Users", again)).refused(409, "uniqueness")

    asyncio.run(tell(tmp_path, database_url, story))


def test_members_that_cannot_be_added_do_not_stop_the_others(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Directory) -> None:
        ids = [(await it.user(f"m{number}@example.com"))["id"] for number in range(3)]
        group = await it.group("Staff", ids[0], ids[1])
        path = f"/Groups/{group['id']}"

        async def members() -> set[str]:
            entries = (await it.call("GET", path)).json.get("members", [])
            return {member["value"] for member in entries}

        await it.it.write(lambda tx: tx.user_directory.set_role(ADA, Role.SUPPORT, Instant(1)))
        odd: list[object] = [{"value": "9"}, {"value": "a"}, {"value": ids[2], "type": "Group"}, 7]
        protected = {"value": str(ADA)}
        body = {"displayName": "Staff", "members": [*odd, protected, {"value": ids[2]}]}
        assert (await it.call("PUT", path, body)).status == 200
        assert await members() == {ids[2]}
        assert (await _ignored(it)) == [("members",)]
        # What a directory removes is removed, whoever else it names.
        add = {"op": "add", "path": "members", "value": [*odd, {"value": ids[0]}]}
        gone = {"op": "remove", "path": "members", "value": [*odd, {"value": ids[2]}]}
        assert (await it.patch(path, add, gone)).status == 200
        assert await members() == {ids[0]}
        made = await it.call("POST", "/Groups", {**body, "displayName": "Other", "externalId": 7})
        assert (made.status, len(made.json["members"])) == (201, 1)
        only = {"op": "add", "path": "members", "value": [protected]}
        (await it.patch(path, only)).refused(403)

    asyncio.run(tell(tmp_path, database_url, story))


def test_administrator_stays_a_member_when_the_group_is_replaced(tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        group = await it.group("Staff", (await it.user())["id"])
        row = Group(group["id"], "Staff", "", "", Instant(1))

        def work(tx: Transaction) -> None:
            tx.groups.add(row, ADA, Instant(1))
            tx.user_directory.set_role(ADA, Role.OWNER, Instant(1))

        await it.it.write(work)
        body = {"displayName": "Staff", "members": []}
        answer = await it.call("PUT", f"/Groups/{group['id']}", body)
        assert [member["value"] for member in answer.json["members"]] == [str(ADA)]
        assert {e.about: e.level for e in await _levels(it)} == {"directory Okta": Level.WARNING}

    asyncio.run(tell(tmp_path, "", story))


async def _levels(it: Directory) -> list[Any]:
    installation = Installation(
        it.it.settings, it.it.foundation.keyring, it.it.foundation.roles, it.it.clock.now
    )
    findings = await it.it.read(lambda tx: in_database(tx, installation, CHECKS))
    return [finding for finding in findings if finding.condition.name == "scim_left_out"]
