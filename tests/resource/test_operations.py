"""What every object does under each verb (specification sections 3 and 6)."""

import asyncio
from pathlib import Path

import pytest

from tests.resource.api import Api, api
from tests.sdk.issuer import API
from tests.support.wait import until_found


def test_note_supports_all_verbs(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "Milk", "text": "two"})
            assert made.status == 201
            path = f"/v2/notes/{made.json['id']}"
            assert made.headers["location"] == API + path
            read = await call("GET", path)
            assert (read.status, read.json, read.headers["etag"]) == (200, made.json, '"1"')
            put = await call("PUT", path, {"title": "Bread", "text": "one"})
            assert (put.status, put.json["title"], put.headers["etag"]) == (200, "Bread", '"2"')
            patch = await call("PATCH", path, {"text": None})
            assert (patch.json["title"], patch.json["text"]) == ("Bread", "")
            assert (await call("GET", "/v2/notes")).json["items"] == [patch.json]
            gone = await call("DELETE", path)
            assert (gone.status, gone.body) == (204, b"")
            assert (await call("GET", path)).status == 404
            assert (await call("DELETE", path)).status == 404

    asyncio.run(story())


def test_post_without_a_body_is_answered_like_get(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            await call("POST", "/v2/notes", {"title": "Milk"})
            reader = call.issuer.token("notes:read")
            get = await call("GET", "/v2/notes", token=reader)
            post = await call("POST", "/v2/notes", token=reader)
            assert (post.status, post.body) == (200, get.body)
            assert len(post.json["items"]) == 1
            writer = call.issuer.token("notes:write")
            refused = await call("POST", "/v2/notes", token=writer)
            assert refused.status == 403
            assert 'scope="notes:read"' in refused.headers["www-authenticate"]

    asyncio.run(story())


def test_head_is_get_without_the_body(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            get, head = await call("GET", "/v2/notes"), await call("HEAD", "/v2/notes")
            assert (head.status, head.body) == (200, b"")
            assert head.headers == get.headers
            assert (await call("HEAD", "/v2/notes", token="")).status == 401

    asyncio.run(story())


@pytest.mark.parametrize(
    ("scope", "method", "status"),
    [
        ("notes:read", "GET", 200),
        ("read", "GET", 200),
        ("notes:write", "GET", 403),
        ("write", "GET", 403),
        ("account:read", "GET", 403),
        ("", "GET", 403),
        ("notes:write", "POST", 201),
        ("write", "POST", 201),
        ("read", "POST", 403),
        ("notes:read", "POST", 403),
        ("client:write", "POST", 403),
    ],
)
def test_scope_permits_its_methods(tmp_path: Path, scope: str, method: str, status: int) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            json = {"title": "Milk"} if method == "POST" else None
            token = call.issuer.token(scope)
            answer = await call(method, "/v2/notes", json, token=token)
            assert answer.status == status
            if status == 403:
                needed = "notes:write" if method == "POST" else "notes:read"
                challenge = answer.headers["www-authenticate"]
                assert 'error="insufficient_scope"' in challenge
                assert f'scope="{needed}"' in challenge

    asyncio.run(story())


def test_client_token_cannot_read_notes_nor_user_token_the_client(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            alone = call.issuer.token("read notes:read", uid=None)
            answer = await call("GET", "/v2/notes", token=alone)
            assert (answer.status, answer.json["code"]) == (403, "insufficient_scope")
            user = call.issuer.token("read client:read")
            answer = await call("GET", "/v2/client", token=user)
            assert (answer.status, answer.json["code"]) == (403, "insufficient_scope")

    asyncio.run(story())


def test_put_requires_every_field(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            path = await _note(call)
            answer = await call("PUT", path, {"title": "Bread"})
            assert answer.status == 400
            assert [error["pointer"] for error in answer.json["errors"]] == ["/text"]

    asyncio.run(story())


def test_every_wrong_field_is_named_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call("POST", "/v2/notes", {"text": 7, "a/b~": 1})
            pointers = {error["pointer"] for error in answer.json["errors"]}
            assert (answer.status, pointers) == (400, {"/text", "/a~1b~0", "/title"})
            path = await _note(call)
            answer = await call("PATCH", path, {"title": None, "text": ["x"]})
            pointers = {error["pointer"] for error in answer.json["errors"]}
            assert (answer.status, pointers) == (400, {"/title", "/text"})
            long = await call("PATCH", path, {"title": "x" * 201})
            assert long.json["errors"] == [
                {"pointer": "/title", "detail": "must have at most 200 characters"}
            ]

    asyncio.run(story())


def test_a_change_that_changes_nothing_is_no_new_version(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            path = await _note(call)
            same = await call("PUT", path, {"text": "", "title": "Milk"})
            assert (same.status, same.headers["etag"]) == (200, '"1"')

    asyncio.run(story())


def test_unsupported_method_gets_405_with_the_allowed_methods(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            for method, path, json, allow in (
                ("DELETE", "/v2/account", None, "GET, HEAD, PATCH, POST, PUT"),
                ("POST", "/v2/account", {"name": "Ada"}, "GET, HEAD, PATCH, POST, PUT"),
                ("POST", "/v2/authorizations", {"id": "x"}, "GET, HEAD, POST"),
                ("PUT", "/v2/notes", {"title": "x"}, "GET, HEAD, POST"),
                ("POST", "/v2/notes/note_x", None, "DELETE, GET, HEAD, PATCH, PUT"),
                ("PATCH", "/v2/authorizations/gr_x", {}, "DELETE, GET, HEAD"),
                ("PROPFIND", "/v2/notes", None, "GET, HEAD, POST"),
            ):
                answer = await call(method, path, json)
                assert (answer.status, answer.headers.get("allow")) == (405, allow), path

    asyncio.run(story())


def test_client_token_gets_the_allowed_methods_of_its_own_record(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token("client:read client:write", uid=None)
            answer = await call("POST", "/v2/client", {"description": "x"}, token=token)
            assert answer.status == 405
            assert answer.headers["allow"] == "GET, HEAD, PATCH, POST, PUT"

    asyncio.run(story())


async def _note(call: Api) -> str:
    made = await call("POST", "/v2/notes", {"title": "Milk"})
    return f"/v2/notes/{made.json['id']}"


def test_cached_read_is_checked_like_the_first_one(tmp_path: Path) -> None:
    """The second read is answered from memory; it is judged as the first."""

    async def story() -> None:
        async with api(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "Milk"})
            path = f"/v2/notes/{made.json['id']}"
            draft = call.issuer.draft("notes:read")
            token = draft.sign(call.issuer.key)
            other = call.issuer.token("notes:read", uid=1002)
            writer = call.issuer.token("notes:write")
            alone = call.issuer.token("notes:read", uid=None)
            for _ in range(3):
                shown = await call("GET", path, token=token, accept="*/*")
                assert (shown.status, shown.body) == (200, made.body)
                assert shown.headers["cache-control"] == "private, no-cache"
                assert (await call("GET", path, token=other)).status == 404
                assert (await call("GET", path, token=writer)).status == 403
                assert (await call("GET", path, token=alone)).status == 403
                assert (await call("GET", path, token="")).status == 401
                assert (await call("GET", path + "?a=b", token=token)).status == 400
                refused = await call("GET", path, token=token, accept="text/html")
                assert refused.status == 406
                answer = await call("GET", path, token=token, if_none_match='"1"')
                assert answer.status == 304
            await call("PATCH", path, {"title": "Bread"})
            assert (await call("GET", path, token=token)).json["title"] == "Bread"
            call.issuer.revoke("token", draft.token_id)

            async def is_refused() -> bool:
                return (await call("GET", path, token=token)).status == 401

            await until_found(is_refused)

    asyncio.run(story())
