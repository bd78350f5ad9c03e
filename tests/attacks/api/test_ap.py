"""Attacks on the resource API, each by its id in the catalogue, group AP."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from tests.resource.api import Api, api
from valetkey.kernel.jose import jwt
from valetkey.resource.objects import OBJECTS
from valetkey.resource.resource_object import OwnedBy

_OPEN = {
    "/.well-known/oauth-protected-resource",
    "/health/live",
    "/health/ready",
    "/health/started",
    "/v2/",
    "/v2/openapi.json",
}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE")


def _routes(call: Api) -> dict[str, set[str]]:
    return {route.path: set(route.methods) for route in call.app.routes}


def test_ap_01_every_route_requires_a_token(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            routes = _routes(call)
            assert routes.keys() >= {f"/v2/{kind.name}" for kind in OBJECTS}
            for path, methods in routes.items():
                for method in _METHODS:
                    answer = await call(method, path.replace("{id}", "x"), token="")
                    if method not in methods:
                        assert answer.status == 405, (method, path)
                    elif path in _OPEN:
                        assert answer.status == (204 if method == "OPTIONS" else 200)
                    else:
                        assert answer.status == 401, (method, path)
                        assert answer.headers["www-authenticate"].startswith("Bearer ")

    asyncio.run(attack())


def test_ap_01_every_verb_requires_its_own_scope(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            for kind in OBJECTS:
                uid = 1001 if kind.owned_by is OwnedBy.USER else None
                others = " ".join(
                    f"{other.name}:{word}"
                    for other in OBJECTS
                    if other is not kind
                    for word in ("read", "write")
                )
                for path in (f"/v2/{kind.name}", f"/v2/{kind.name}/x"):
                    for method in _routes(call).get(path.replace("/x", "/{id}"), ()):
                        body = {"title": "x"} if method in ("PUT", "PATCH") else None
                        token = call.issuer.token(others, uid=uid)
                        answer = await call(method, path, body, token=token)
                        assert answer.status == 403, (method, path)

    asyncio.run(attack())


@pytest.mark.parametrize(
    ("claim", "status"),
    [("scope", 403), ("client_id", 401), ("sub", 401), ("jti", 401), ("exp", 401), ("aud", 401)],
)
def test_ap_03_token_without_a_required_claim_is_refused(
    tmp_path: Path, claim: str, status: int
) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            draft = call.issuer.draft("read")
            claims: dict[str, object] = {
                "iss": draft.issuer,
                "sub": draft.subject,
                "aud": draft.audience,
                "client_id": draft.client_id,
                "scope": "read",
                "jti": draft.token_id,
                "iat": draft.issued_at,
                "exp": draft.expires_at,
            }
            whole = jwt.sign(claims, call.issuer.key, typ="at+jwt")
            assert (await call("GET", "/v2/notes", token=whole)).status == 200
            del claims[claim]
            token = jwt.sign(claims, call.issuer.key, typ="at+jwt")
            assert (await call("GET", "/v2/notes", token=token)).status == status

    asyncio.run(attack())


@pytest.mark.parametrize(
    "target",
    [
        "/v2/notes.json",
        "/v2/notes.csv",
        "/v2/notes/",
        "//v2/notes",
        "/v2//notes",
        "/v2/notes/export",
        "/v2/notes/export.csv",
        "/v2/notes/feed",
        "/v2/batch",
        "/v2/notes/x/y",
        "/v2/notes;a=b",
    ],
)
def test_ap_05_alternative_paths_reveal_no_object(tmp_path: Path, target: str) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            await call("POST", "/v2/notes", {"title": "hidden-canary"})
            for method in ("GET", "HEAD", "OPTIONS", "POST"):
                for token in ("", None):
                    answer = await call(method, target, token=token)
                    assert answer.status in (401, 404, 405), (method, target)
                    assert b"hidden-canary" not in answer.body

    asyncio.run(attack())


def test_ap_05_format_parameter_is_refused_and_requires_a_token(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", "/v2/notes?format=csv", token="")).status == 401
            assert (await call("GET", "/v2/notes?format=csv")).status == 400
            assert (await call("OPTIONS", "/v2/notes")).status == 405

    asyncio.run(attack())


@pytest.mark.parametrize(
    "field",
    [
        "id",
        "owner",
        "tenant",
        "created_at",
        "changed_at",
        "version",
        "role",
        "email_verified",
        "uid",
        "kind",
        "__class__",
        "Title",
        "title ",
    ],
)
def test_ap_11_read_only_and_unknown_fields_are_refused(tmp_path: Path, field: str) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "a", "text": "b"})
            path = f"/v2/notes/{made.json['id']}"
            body = {"title": "x", "text": "y", field: "user:1002"}
            for method, target in (("POST", "/v2/notes"), ("PUT", path), ("PATCH", path)):
                answer = await call(method, target, body)
                assert answer.status == 400
                pointers = [error["pointer"] for error in answer.json["errors"]]
                assert pointers == [f"/{field}"]
            assert (await call("GET", path)).json == made.json
            assert len((await call("GET", "/v2/notes")).json["items"]) == 1

    asyncio.run(attack())


def test_ap_13_parallel_posts_with_one_idempotency_key_create_one_object(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            answers = await asyncio.gather(
                *(
                    call("POST", "/v2/notes", {"title": "once"}, idempotency_key="one")
                    for _ in range(64)
                )
            )
            assert Counter(answer.status for answer in answers) == {201: 64}
            assert len({answer.body for answer in answers}) == 1
            assert len((await call("GET", "/v2/notes")).json["items"]) == 1
            other = await call("POST", "/v2/notes", {"title": "two"}, idempotency_key="one")
            assert other.status == 422
            assert len((await call("GET", "/v2/notes")).json["items"]) == 1

    asyncio.run(attack())


def test_ap_15_parallel_writes_with_one_etag_succeed_once(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "0"})
            path = f"/v2/notes/{made.json['id']}"
            for turn in range(1, 11):
                tag = (await call("GET", path)).headers["etag"]
                answers = await asyncio.gather(
                    *(call("PATCH", path, {"title": f"{turn}-{n}"}, if_match=tag) for n in range(8))
                )
                statuses = Counter(answer.status for answer in answers)
                assert statuses == {200: 1, 412: 7}
                winner = next(answer for answer in answers if answer.status == 200)
                assert (await call("GET", path)).json == winner.json

    asyncio.run(attack())


def test_ap_15_weak_etag_is_refused_and_changes_without_etag_are_merged(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "0"})
            path = f"/v2/notes/{made.json['id']}"
            assert (await call("PATCH", path, {"title": "1"}, if_match='W/"1"')).status == 412
            assert (await call("PATCH", path, {"title": "1"}, if_match="*")).status == 200
            assert (await call("PATCH", path, {"title": "2"})).status == 200
            # Without a tag two changes of different fields are both kept.
            await asyncio.gather(
                call("PATCH", path, {"title": "both"}), call("PATCH", path, {"text": "kept"})
            )
            now = (await call("GET", path)).json
            assert (now["title"], now["text"]) == ("both", "kept")
            gone = await call("PATCH", "/v2/notes/note_none", {"title": "1"}, if_match="*")
            assert gone.status == 404

    asyncio.run(attack())


@contextlib.asynccontextmanager
async def _two_lists(directory: Path) -> AsyncGenerator[tuple[Api, str]]:
    async with api(directory) as call:
        for title in "abc":
            await call("POST", "/v2/notes", {"title": title})
            call.issuer.grants[title] = {"uid": "1001", "created_at": 1}
        yield call, (await call("GET", "/v2/notes?limit=1")).json["next"]


def test_ap_17_a_cursor_of_another_user_or_list_is_refused(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _two_lists(tmp_path) as (call, cursor):
            own = await call("GET", f"/v2/notes?cursor={cursor}")
            assert (own.status, len(own.json["items"])) == (200, 2)
            bob = call.issuer.token("read", uid=1002)
            assert (await call("GET", f"/v2/notes?cursor={cursor}", token=bob)).status == 400
            assert (await call("GET", f"/v2/authorizations?cursor={cursor}")).status == 400

    asyncio.run(attack())


def test_ap_17_a_cursor_that_was_edited_or_made_up_is_refused(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _two_lists(tmp_path) as (call, cursor):
            start = len("v1.")
            for position in range(start, len(cursor), 7):
                other = "A" if cursor[position] != "A" else "B"
                edited = cursor[:position] + other + cursor[position + 1 :]
                assert (await call("GET", f"/v2/notes?cursor={edited}")).status == 400
            for forged in (
                "v2." + cursor[start:],
                cursor[start:],
                cursor[:-1],
                cursor + "A",
                "MA",
                "0",
                "%27%20OR%201=1--",
                "eyJpZCI6MX0",
                "A" * 5_000,
            ):
                assert (await call("GET", f"/v2/notes?cursor={forged}")).status == 400

    asyncio.run(attack())


def test_ap_17_a_cursor_of_another_servers_key_is_refused(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _two_lists(tmp_path / "one") as (_, cursor):
            pass
        async with _two_lists(tmp_path / "two") as (call, _):
            assert (await call("GET", f"/v2/notes?cursor={cursor}")).status == 400

    asyncio.run(attack())


@pytest.mark.parametrize(
    "target",
    [
        "/v2/../admin",
        "/v2/%2e%2e",
        "/v2/%2e%2e/health/live",
        "/v2/notes/..",
        "/v2/notes/%2e%2e",
        "/v2/notes/../account",
        "/v2/notes%00",
        "/v2/notes/%00",
        "/v2/notes/x%00",
        "/v2/Notes",
        "/V2/notes",
        "/v2/%6eotes",
        "/v2/n\u043etes",
        "/v2/n%D0%BEtes",
        "/v2/notes/n\u043ete",
        "/v2/notes%2f",
        "/v2/notes%2fnote_x",
        "/v2/note",
        "/v2/notes/" + "x" * 500,
        "/v2/notes/%27%20OR%201=1--",
    ],
)
def test_ap_21_alternative_spellings_of_a_path_are_refused(tmp_path: Path, target: str) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            for method in ("GET", "DELETE"):
                answer = await call(method, target)
                assert answer.status in (400, 404), target

    asyncio.run(attack())


@pytest.mark.parametrize("target", ["/v2", "/v2//"])
def test_ap_21_root_without_trailing_slash_redirects_get_requests_only(
    tmp_path: Path, target: str
) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            answer = await call("GET", target)
            assert (answer.status, answer.headers["location"], answer.body) == (308, "/v2/", b"")
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert (await call(method, target)).status == 404

    asyncio.run(attack())


def test_ap_23_other_media_types_and_encodings_are_refused(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", "/v2/notes", accept="application/xml")).status == 406
            assert (await call("GET", "/v2/notes", accept="text/html")).status == 406
            for kind in (
                "application/xml",
                "text/json",
                "application/json; charset=utf-16",
                "application/json; charset=utf-8; charset=latin-1",
                "application/x-www-form-urlencoded",
                "application/merge-patch+json",
            ):
                answer = await call("POST", "/v2/notes", {"title": "x"}, content_type=kind)
                assert answer.status == 415, kind
            encoded = await call("POST", "/v2/notes", {"title": "x"}, content_encoding="gzip")
            assert encoded.status == 415
            utf16 = '{"title":"x"}'.encode("utf-16")
            assert (await call("POST", "/v2/notes", body=utf16)).status == 400
            assert (await call("GET", "/v2/notes")).json["items"] == []

    asyncio.run(attack())


def test_ap_25_id_of_a_deleted_object_is_not_reused(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            seen: set[str] = set()
            for _ in range(50):
                made = await call("POST", "/v2/notes", {"title": "x"})
                path = f"/v2/notes/{made.json['id']}"
                assert path not in seen
                seen.add(path)
                assert (await call("DELETE", path)).status == 204
                again = {"title": "x", "text": ""}
                # A PUT does not bring it back either, whatever it demands.
                assert (await call("PUT", path, again)).status == 404
                assert (await call("PUT", path, again, if_none_match="*")).status == 404

    asyncio.run(attack())


def test_ap_25_note_of_another_user_is_not_found(tmp_path: Path) -> None:
    async def attack() -> None:
        async with api(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "mine"})
            path = f"/v2/notes/{made.json['id']}"
            bob = call.issuer.token("read write", uid=1002)
            whole = msgspec.json.encode({"title": "x", "text": "y"})
            nowhere = await call("GET", "/v2/notes/note_nowhere", token=bob)
            for method, body in (("GET", b""), ("PUT", whole), ("PATCH", whole), ("DELETE", b"")):
                answer = await call(method, path, body=body, token=bob)
                assert answer.status == 404
                assert answer.json["detail"] == nowhere.json["detail"]
            assert (await call("GET", path)).json == made.json
            assert (await call("GET", "/v2/notes", token=bob)).json["items"] == []

    asyncio.run(attack())
