"""Names and addresses as directories give them: groups, usernames, renames, deleted users."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.authorization.endpoints.scim.directory import GROUP, USER, Directory, tell
from tests.support.harness import ADA
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.operations.groups import CREATE_GROUP
from valetkey.authorization.operations.user_records import GroupWanted

TOMBSTONE = "0123456789abcdef0123456789ABCDEF"


async def _user(it: Directory, uid: str) -> User:
    user = await it.it.read(lambda tx: tx.users.find(Uid(int(uid))))
    assert user is not None
    return user


def _rename(value: str) -> dict[str, object]:
    return {"op": "Replace", "path": "userName", "value": value}


def test_groups_are_identified_by_their_display_names(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        displays = ("C++", "C#", "C", "営業部", "総務部", "🎉", "Straße", "Ørsted", "a" * 200)
        ids = [(await it.group(display))["id"] for display in (*displays, "b" * 200)]
        assert len(set(ids)) == len(ids)
        names = [group.name for group in await it.it.read(lambda tx: tx.groups.list("", 50))]
        assert {"C", "Strasse", "Orsted", "a" * 80, "b" * 80} <= set(names)
        assert len(set(names)) == len(ids)
        for display, made in zip(displays, ids, strict=False):
            (group,) = await it.find("Groups", f'displayName eq "{display}"')
            assert (group["id"], group["displayName"]) == (made, display)
        for display in ("C++", "c#", "営業部"):
            body = {"schemas": [GROUP], "displayName": display}
            (await it.call("POST", "/Groups", body)).refused(409, "uniqueness")
        # Renamed there and back: nothing is refused but a name that another group has.
        path = f"/Groups/{ids[1]}"
        for display in ("C##", "営業", "C#"):
            change = {"op": "replace", "path": "displayName", "value": display}
            answer = await it.patch(path, change)
            assert (answer.status, answer.json["displayName"]) == (200, display)
            whole = await it.call("PUT", path, {"displayName": display})
            assert whole.status == 200, whole.json
        taken = {"op": "replace", "path": "displayName", "value": "c++"}
        (await it.patch(path, taken)).refused(409, "uniqueness")
        # A group of the console is found by its name, and taken over.
        await it.it.perform(CREATE_GROUP, {}, GroupWanted("Sales"))
        (await it.call("POST", "/Groups", {"displayName": "Sales"})).refused(409, "uniqueness")
        assert len(await it.find("Groups", 'displayName eq "Sales"')) == 1
        assert (await it.call("POST", "/Groups", {"displayName": "Sales!"})).status == 201

    asyncio.run(tell(tmp_path, database_url, story))


def test_groups_with_equal_ascii_names_are_created_in_parallel(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Directory) -> None:
        bodies = [{"schemas": [GROUP], "displayName": f"X{sign}"} for sign in "+#!?*=~" * 4]
        made = await asyncio.gather(*(it.call("POST", "/Groups", body) for body in bodies))
        assert sorted(reply.status for reply in made) == [201] * 7 + [409] * 21
        names = [group.name for group in await it.it.read(lambda tx: tx.groups.list("", 50))]
        assert len(names) == 7

    asyncio.run(tell(tmp_path, database_url, story))


@pytest.mark.parametrize(
    ("user_name", "username"),
    [
        ("josé.garcía@example.com", "jose.garcia"),
        ("Łukasz.Żółć@example.com", "Lukasz.Zolc"),
        ("jürgen.groß@example.com", "jurgen.gross"),
        ("jose\u0301@example.com", "jose"),
        ("山田太郎@example.com", "山田太郎"),
        ("анна@example.com", "анна"),
        ("20261234@example.com", "20261234"),
        ("20261234", "20261234"),
        ("2026-1234", "2026-1234"),
        ("007@example.com", "007"),
        ("Grace Hopper", "GraceHopper"),
        ("o'brien@example.com", "obrien"),
    ],
)
def test_username_is_derived_from_the_user_name_of_the_directory(
    user_name: str, username: str, tmp_path: Path
) -> None:
    async def story(it: Directory) -> None:
        made = await it.user(user_name, emails=[{"value": "someone@example.com"}])
        assert made["userName"] == user_name
        assert (await _user(it, made["id"])).username == username
        (user,) = await it.find("Users", f'userName eq "{user_name}"')
        assert user["id"] == made["id"]

    asyncio.run(tell(tmp_path, "", story))


def test_username_is_never_the_uid_of_another_user(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        emails = [{"value": "someone@example.com"}]
        body = {"schemas": [USER], "userName": str(ADA), "emails": emails}
        (await it.call("POST", "/Users", body)).refused(409, "uniqueness")
        made = await it.user(f"{ADA}@example.com", emails=emails)
        assert (await _user(it, made["id"])).username.startswith(f"{ADA}-")
        for number in range(9):
            other = await it.user(f"u{number}@example.com")
            assert len(other["id"]) == 16
            taken = await it.user(f"{other['id']}@example.com")
            assert (await _user(it, taken["id"])).username != other["id"]

    asyncio.run(tell(tmp_path, database_url, story))


def test_rename_by_the_directory_changes_the_username(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        made = await it.user("grace.murray@example.com")
        path = f"/Users/{made['id']}"
        for user_name, username in (
            ("grace.hopper@example.com", "grace.hopper"),
            ("grace.hopper@new.example", "grace.hopper"),
            (f"{TOMBSTONE}grace.hopper@new.example", "grace.hopper"),
            ("grace.hopper@new.example", "grace.hopper"),
            ("ada@example.com", None),
            ("20261234", "20261234"),
        ):
            answer = await it.patch(path, _rename(user_name))
            assert (answer.status, answer.json["userName"]) == (200, user_name)
            after = (await _user(it, made["id"])).username
            assert after == username if username else after.startswith("ada-")
        whole = {"userName": "g.hopper@new.example", "active": True}
        assert (await it.call("PUT", path, whole)).status == 200
        assert (await _user(it, made["id"])).username == "g.hopper"
        # An account that a directory takes over keeps its username.
        assert (await it.patch(f"/Users/{ADA}", _rename("lovelace@example.com"))).status == 200
        assert (await _user(it, str(ADA))).username == "ada"

    asyncio.run(tell(tmp_path, database_url, story))


def test_address_is_free_for_another_user_after_a_rename(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        made = await it.user("j.doe@example.com")
        renamed = {"userName": "j.smith@example.com", "emails": [{"value": "j.smith@example.com"}]}
        assert (await it.call("PUT", f"/Users/{made['id']}", renamed)).status == 200
        other = await it.user("j.doe@example.com")
        assert other["emails"][0]["value"] == "j.doe@example.com"
        assert (await _user(it, other["id"])).username == "j.doe"
        assert (
            await it.it.read(lambda tx: tx.users.email_held_until(Uid(int(made["id"]))))
        ) is None

    asyncio.run(tell(tmp_path, database_url, story))


def test_deleted_user_keeps_the_address_until_it_is_restored(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Directory) -> None:
        made = await it.user("grace@example.com")
        path, before = f"/Users/{made['id']}", await _user(it, made["id"])
        gone = f"{TOMBSTONE}grace@example.com"
        requests: tuple[list[dict[str, Any]], ...] = (
            [_rename(gone), {"op": "Replace", "path": "active", "value": "False"}],
            [{"op": "Replace", "path": 'emails[type eq "work"].value', "value": gone}],
            [{"op": "replace", "value": {"emails": [{"value": gone}], "active": False}}],
        )
        for sent in requests:
            answer = await it.patch(path, *sent)
            assert (answer.status, answer.json["active"]) == (200, False)
            assert answer.json["userName"] == gone
            assert answer.json["emails"][0]["value"] == "grace@example.com"
        restored = {"userName": "grace@example.com", "emails": [{"value": "Grace@example.com"}]}
        answer = await it.call("PUT", path, {**restored, "active": True})
        assert answer.json["active"] is True
        after = await _user(it, made["id"])
        assert after.email == "Grace@example.com"
        assert after.email_verified_at is not None
        assert after.username == before.username
        # One that is created deleted has the address without the digits.
        body = {"userName": f"{TOMBSTONE}tim@example.com", "active": False}
        tim = await it.call("POST", "/Users", body)
        assert tim.json["emails"][0]["value"] == "tim@example.com"

    asyncio.run(tell(tmp_path, database_url, story))


def test_type_and_primary_are_returned_as_they_were_sent(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        attributes: dict[str, Any] = {
            "emails": [{"value": "grace@example.com", "type": "home", "primary": False}],
            "phoneNumbers": [{"value": "+442079460000", "type": "mobile", "primary": False}],
            "addresses": [{"locality": "London", "type": "other", "primary": False}],
        }
        made = await it.user(**attributes)
        assert {name: made[name] for name in attributes} == attributes
        path = f"/Users/{made['id']}"
        other = "grace@home.example"
        change = {"op": "replace", "path": 'emails[type eq "home"].value', "value": other}
        answer = await it.patch(path, change)
        assert answer.json["emails"] == [{"value": other, "type": "home", "primary": False}]
        first = [{"value": other, "primary": True}]
        answer = await it.call("PUT", path, {"userName": "grace@example.com", "emails": first})
        assert answer.json["emails"] == [{"value": other, "type": "work", "primary": True}]

    asyncio.run(tell(tmp_path, database_url, story))


def test_spellings_of_the_base_url_are_accepted(tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        made = await it.user()
        bearer = f"Bearer {it.token}"
        condition = quote('emails[type eq "work"].value eq "grace@example.com"')
        for base in (
            "/scim/v2",
            "/scim/v2/",
            "/scim",
            "/scim/",
            "/SCIM/v2",
            "/Scim/V2/",
            "//scim"[1:],
        ):
            for path in (f"/Users/{made['id']}", "/Users/", "/ServiceProviderConfig", "/Schemas"):
                answer = await it.it.call("GET", f"{base}{path}", authorization=bearer)
                assert answer.status == 200, (base, path)
            for query in (f"?aadOptscim062020&filter={condition}", f"?filter={condition}"):
                answer = await it.it.call("GET", f"{base}/Users{query}", authorization=bearer)
                assert b'"totalResults":1' in answer.body, (base, answer.body)
            change = (
                b'{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],'
                b'"Operations":[{"op":"replace","path":"displayName","value":"Grace"}]}'
            )
            kind = "application/scim+json"
            path = f"{base}/Users/{made['id']}"
            answer = await it.it.call("PATCH", path, change, kind, bearer)
            assert answer.status == 200, (base, answer.body)
            assert (await it.it.call("GET", path)).status == 401
            assert (await it.it.call("GET", f"{base}/nothing", authorization=bearer)).status == 404
            assert (await it.it.call("PUT", f"{base}/Users/", b"{}", kind, bearer)).status == 405

    asyncio.run(tell(tmp_path, "", story))
