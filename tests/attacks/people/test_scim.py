"""Attacks with a SCIM credential, and on it: higher accounts, other tokens, costly requests."""

import asyncio
from pathlib import Path
from urllib.parse import quote

from tests.authorization.endpoints.admin_api.programs import caller, give_role, person
from tests.authorization.endpoints.scim.directory import (
    GROUP,
    USER,
    Directory,
    directory,
    tell,
)
from tests.support.harness import ADA, harness
from valetkey.authorization.model.user import Group, Role, Uid
from valetkey.authorization.scim.operations import END_SCIM_CREDENTIAL
from valetkey.authorization.scim.settings import ScimSettings
from valetkey.kernel.moment import Instant

PATCH_OP = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
BULK = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
DEEP = b"[" * 40 + b"]" * 40

FILTERS = (
    'displayName co "a"',
    "active eq true",
    'userName sw "a"',
    'not (userName eq "a")',
    'userName eq "a" or displayName eq "b"',
    'userName eq "a',
    "userName eq 'a'",
    'userName equals "a"',
    'nothing eq "a"',
    'userName eq "a")',
    '(userName eq "a"',
    'userName eq "a" userName eq "b"',
    'active eq "perhaps"',
    "userName eq true",
    "userName gt null",
    'emails[type eq "work"',
    'emails[other eq "work"]',
    'userName[value eq "a"]',
    'userName eq "\\u0000"',
    'userName eq "\\ud800"',
    "userName eq 1" + "0" * 400,
    "(" * 9 + 'userName eq "a"' + ")" * 9,
    " and ".join(['userName eq "a"'] * 21),
    'userName eq "' + "a" * 2_000 + '"',
    "pr",
    "",
)
PATHS = (
    ("emails[", "invalidPath"),
    ('userName[value eq "a"]', "invalidPath"),
    ("emails[" * 100, "invalidPath"),
    ("x" * 3_000, "invalidPath"),
    ("id", "mutability"),
    (7, "invalidPath"),
)
BODIES: tuple[tuple[str, str, bytes, str | None], ...] = (
    ("POST", "/Users", b"", "invalidSyntax"),
    ("POST", "/Users", b"[]", "invalidSyntax"),
    ("POST", "/Users", b"{", "invalidSyntax"),
    ("POST", "/Users", DEEP, "invalidSyntax"),
    ("POST", "/Users", b'{"userName": "a", "username": "b"}', "invalidSyntax"),
    ("POST", "/Users", b'{"userName": "a\\u0000b"}', "invalidSyntax"),
    ("POST", "/Users", b'{"userName": 1' + b"0" * 400 + b"}", "invalidSyntax"),
    ("POST", "/Users", b'{"userName": {"a": 1}}', "invalidValue"),
    ("POST", "/Users", b'{"userName": ["a"]}', "invalidValue"),
    ("POST", "/Users", b'{"userName": null}', "invalidValue"),
    ("POST", "/Groups", b'{"displayName": 7}', "invalidValue"),
    ("POST", "/Users", b'{"userName": ""}', "invalidValue"),
    ("POST", "/Users", b'{"userName": "no-email"}', "invalidValue"),
    ("POST", "/Users", b'{"userName": "' + b"a" * 201 + b'@example.com"}', "invalidValue"),
    (
        "POST",
        "/Groups",
        b'{"displayName": "x", "members": [' + b'{"value": "1001"},' * 1_000 + b'{"value": "1"}]}',
        "invalidValue",
    ),
    ("POST", "/Bulk", b"{}", "invalidSyntax"),
    ("POST", "/Bulk", b'{"schemas": ["' + BULK.encode() + b'"]}', "invalidSyntax"),
    ("PATCH", "/Users/1001", b'{"Operations": []}', "invalidSyntax"),
    ("POST", "/Users/.search", b'{"startIndex": "x"}', "invalidValue"),
    ("POST", "/Users/.search", b'{"filter": 7}', "invalidFilter"),
    ("POST", "/Users/.search", b'{"attributes": 7}', "invalidValue"),
    ("POST", "/Users/.search", b'{"sortBy": "userName"}', "invalidValue"),
    ("POST", "/Users/.search", b'{"sortOrder": {}}', "invalidValue"),
    ("POST", "/Users/.search", b'{"startIndex": 100001}', "tooMany"),
)


def test_scim_client_cannot_change_a_user_with_a_role(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        group = await it.group("Everybody")
        for role in Role:
            await give_role(it.it, ADA, role)
            before = await it.it.read(lambda tx: tx.users.find(ADA))
            path, user = (
                f"/Users/{ADA}",
                {"userName": "ada", "emails": [{"value": "m@evil.example"}]},
            )
            attempts = (
                await it.call("PUT", path, user),
                await it.patch(path, {"op": "replace", "path": "emails", "value": user["emails"]}),
                await it.patch(path, {"op": "replace", "path": "active", "value": False}),
                await it.patch(path, {"op": "add", "path": "externalId", "value": "x"}),
                await it.call("DELETE", path),
                await it.patch(
                    f"/Groups/{group['id']}",
                    {"op": "add", "path": "members", "value": [{"value": str(ADA)}]},
                ),
            )
            for attempt in attempts:
                attempt.refused(403)
            bulk = await it.bulk({"method": "DELETE", "path": path})
            assert bulk.json["Operations"][0]["status"] == "403"
            assert await it.it.read(lambda tx: tx.users.find(ADA)) == before
        # A new user gets neither a role nor a password, whatever is sent.
        made = await it.user(
            "eve@example.com", roles=["owner"], role="owner", password="x", entitlements=["owner"]
        )
        eve = await it.it.read(lambda tx: tx.users.find(Uid(int(made["id"]))))
        assert eve is not None
        assert eve.role is None
        assert await it.it.read(lambda tx: tx.users.password_hash(eve.uid)) is None

    asyncio.run(tell(tmp_path, database_url, story))


def test_role_given_during_scim_requests_protects_user(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        path = f"/Users/{ADA}"
        change = {"op": "replace", "path": "emails", "value": [{"value": "m@evil.example"}]}
        calls = [it.patch(path, change) for _ in range(8)]
        answers = await asyncio.gather(*calls[:4], give_role(it.it, ADA, Role.OWNER), *calls[4:])
        assert {answer.status for answer in answers if answer is not None} <= {200, 403}
        (await it.patch(path, change)).refused(403)

    asyncio.run(tell(tmp_path, database_url, story))


def test_concurrent_requests_create_and_add_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        user = {"schemas": [USER], "userName": "once@example.com", "externalId": "once"}
        made = await asyncio.gather(*(it.call("POST", "/Users", user) for _ in range(64)))
        assert sorted(answer.status for answer in made) == [201, *[409] * 63]
        (one,) = await it.find("Users", 'userName eq "once@example.com"')
        body = {"schemas": [GROUP], "displayName": "Once"}
        groups = await asyncio.gather(*(it.call("POST", "/Groups", body) for _ in range(64)))
        assert sorted(answer.status for answer in groups) == [201, *[409] * 63]
        (group,) = await it.find("Groups", 'displayName eq "Once"')
        add = {"op": "add", "path": "members", "value": [{"value": one["id"]}]}
        path = f"/Groups/{group['id']}"
        assert {
            e.status for e in await asyncio.gather(*(it.patch(path, add) for _ in range(32)))
        } == {200}
        assert (await it.it.events()).count("group_member.added") == 1
        off = {"op": "replace", "path": "active", "value": False}
        await asyncio.gather(*(it.patch(f"/Users/{one['id']}", off) for _ in range(32)))
        assert (await it.it.events()).count("user.disabled") == 1
        # Its end waits for those that write, and nobody writes after it.
        calls = [it.user(f"late{number}@example.com") for number in range(8)]
        ending = it.it.perform(END_SCIM_CREDENTIAL, {"credential_id": it.id})
        await asyncio.gather(*calls[:4], ending, *calls[4:], return_exceptions=True)
        (await it.call("POST", "/Users", {"userName": "after@example.com"})).refused(401)

    asyncio.run(tell(tmp_path, database_url, story))


def test_invalid_requests_are_refused_and_change_nothing(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        for text in FILTERS:
            answer = await it.call("GET", f"/Users?filter={quote(text)}")
            assert answer.status == 400, text
            answer.refused(400, "invalidFilter")
        (await it.call("GET", '/Groups?filter=members%20co%20"1"')).refused(400, "invalidFilter")
        (await it.call("GET", "/Users?count=1e3")).refused(400, "invalidValue")
        (await it.call("GET", "/Users?startIndex=9" + "9" * 17)).refused(400, "tooMany")
        (await it.call("GET", "/Users?attributes=id&excludedAttributes=id")).refused(
            400, "invalidValue"
        )
        (await it.call("GET", "/Schemas?filter=a")).refused(403)
        for method, path, raw, kind in BODIES:
            answer = await it.call(method, path, raw=raw)
            assert answer.status == 400, (path, raw[:80], answer.json)
            answer.refused(400, kind)
        for where, kind in PATHS:
            answer = await it.patch("/Users/1001", {"op": "replace", "path": where, "value": "x"})
            assert answer.status == 400, (where, answer.json)
            answer.refused(400, kind)
        operations: tuple[tuple[dict[str, object], str], ...] = (
            ({"op": "move", "path": "userName"}, "invalidSyntax"),
            ({"op": "remove"}, "noTarget"),
            ({"op": "remove", "path": "userName"}, "invalidValue"),
            ({"op": "add", "value": "x"}, "invalidValue"),
        )
        for operation, kind in operations:
            (await it.patch("/Users/1001", operation)).refused(400, kind)
        (await it.bulk(*([{"method": "DELETE", "path": "/Users/1"}] * 101))).refused(413)
        for path in ("/Users/0", "/Users/x", "/Users/99999999999999999999", "/Groups/%00", "/x"):
            (await it.call("GET", path)).refused(404)
        for path in ("/Me", "/.search"):
            (await it.call("POST", path, {})).refused(501)
        events = await it.it.events()
        assert not [event for event in events if event.startswith(("user.", "group"))], events

    asyncio.run(tell(tmp_path, database_url, story))


def test_large_groups_are_changed_in_parts(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        group = await it.group("Large")
        path = f"/Groups/{group['id']}"
        row = Group(group["id"], "Large", "", "", Instant(1))

        await it.it.write(
            lambda tx: [tx.groups.add(row, Uid(uid), Instant(1)) for uid in range(2_000, 3_001)]
        )
        read = (await it.call("GET", path)).json
        assert "members" not in read
        listed = (await it.call("GET", "/Groups")).json["Resources"]
        assert ["members" in resource for resource in listed] == [False]
        body = {"displayName": "Large", "members": [{"value": str(ADA)}]}
        (await it.call("PUT", path, body)).refused(400, "tooMany")
        (await it.patch(path, {"op": "remove", "path": "members"})).refused(400, "tooMany")
        add = {"op": "add", "path": "members", "value": [{"value": str(ADA)}]}
        assert (await it.patch(path, add)).status == 200
        both = f'id eq "{group["id"]}" and members eq "{ADA}"'
        assert len(await it.find("Groups", both)) == 1

    asyncio.run(tell(tmp_path, database_url, story))


def test_scim_accepts_only_scim_tokens_which_work_nowhere_else(tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        owner = await caller(it.it)
        other = it.token[:-1] + ("1" if it.token.endswith("0") else "0")
        for token in ("", "x", other, owner.token):
            stranger = Directory(it.it, token, "")
            for method, path in (("GET", "/Users"), ("POST", "/Bulk"), ("GET", "/Schemas")):
                (await stranger.call(method, path)).refused(401)
        for path in ("/admin/api/v1/users", "/oauth/userinfo"):
            answer = await it.it.call("GET", path, authorization=f"Bearer {it.token}")
            assert answer.status == 401
        # Whoever may not change people makes no credential that could.
        keys = await caller(it.it, Role.ADMINISTRATOR, ("read", "keys"))
        for method, path, body in (
            ("POST", "/scim-credentials", {"name": "Okta"}),
            ("POST", f"/scim-credentials/{it.id}/rotate", {}),
            ("DELETE", f"/scim-credentials/{it.id}", None),
        ):
            assert (await keys.call(method, path, body)).status == 403
        await person(it.it, "bob", Role.OWNER, 1002)
        both = await caller(it.it, Role.ADMINISTRATOR, ("read", "keys", "people"))
        codes = [
            (await both.call("POST", "/scim-credentials", {"name": "Okta"})).status
            for _ in range(20)
        ]
        assert codes == [*[201] * 19, 400]

    asyncio.run(tell(tmp_path, "", story))


def test_directory_over_its_request_limit_is_refused_with_429(tmp_path: Path) -> None:
    async def story() -> None:
        few = ScimSettings(enabled=True, requests_per_minute=3)
        async with harness(tmp_path, features=(few,)) as it:
            one = await directory(it)
            gone = {"method": "DELETE", "path": "/Users/1"}
            answer = await one.bulk(*([gone] * 3))
            assert [e["status"] for e in answer.json["Operations"]] == ["404", "404", "429"]
            (await one.call("GET", "/Users")).refused(429)
            other = await directory(it, "Entra")
            assert (await other.call("GET", "/Users")).status == 200

    asyncio.run(story())


def test_scim_is_off_unless_it_is_enabled(tmp_path: Path) -> None:
    async def story() -> None:
        async with harness(tmp_path) as it:
            one = await directory(it)
            for path in ("/Users", "/ServiceProviderConfig"):
                bearer = f"Bearer {one.token}"
                answer = await it.call("GET", f"/scim/v2{path}", authorization=bearer)
                assert answer.status == 404

    asyncio.run(story())
