"""No update is lost, no POST counts twice."""

import asyncio
from pathlib import Path

import pytest

from tests.resource.api import Api, api
from valetkey.kernel.refusal import Refused
from valetkey.resource.requests.representation import Preconditions, read_preconditions
from valetkey.web.exchange import Headers


def test_get_with_matching_if_none_match_returns_304_without_body(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            path = await _note(call)
            for tags in ('"1"', 'W/"1"', '"0", "1"', "*"):
                answer = await call("GET", path, if_none_match=tags)
                assert (answer.status, answer.body) == (304, b""), tags
                assert answer.headers["etag"] == '"1"'
                whole = dict((await call("GET", path)).headers)
                del whole["content-length"], whole["content-type"]
                assert answer.headers == whole
            assert (await call("GET", path, if_none_match='"2"')).status == 200
            listed = await call("GET", "/v2/notes")
            tag = listed.headers["etag"]
            assert (await call("GET", "/v2/notes", if_none_match=tag)).status == 304
            await call("PATCH", path, {"text": "more"})
            assert (await call("GET", "/v2/notes", if_none_match=tag)).status == 200

    asyncio.run(story())


@pytest.mark.parametrize(
    ("tags", "status"),
    [('"1"', 200), ("*", 200), ('"7", "1"', 200), ('"2"', 412), ('W/"1"', 412), ("1", 400)],
)
def test_patch_put_and_delete_check_if_match(tmp_path: Path, tags: str, status: int) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            path = await _note(call)
            assert (await call("PATCH", path, {"text": "a"}, if_match=tags)).status == status
            if status == 200:
                return
            assert (await call("GET", path)).json["version"] == 1
            whole = {"title": "a", "text": "b"}
            assert (await call("PUT", path, whole, if_match=tags)).status == status
            assert (await call("DELETE", path, if_match=tags)).status == status
            assert (await call("GET", path)).status == 200

    asyncio.run(story())


def test_if_none_match_star_refuses_an_existing_object() -> None:
    demands = read_preconditions(Headers([(b"if-none-match", b"*")]))
    demands.check(None)
    with pytest.raises(Refused, match="precondition_failed"):
        demands.check('"1"')


def test_if_match_fails_for_missing_object() -> None:
    with pytest.raises(Refused, match="precondition_failed"):
        Preconditions(match=()).check(None)


def test_repeated_post_with_same_idempotency_key_returns_first_response(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            note = {"title": "once"}
            first = await call("POST", "/v2/notes", note, idempotency_key="k-1")
            await call("PATCH", f"/v2/notes/{first.json['id']}", {"text": "changed since"})
            again = await call("POST", "/v2/notes", note, idempotency_key="k-1")
            assert (again.status, again.body) == (201, first.body)
            assert again.headers["location"] == first.headers["location"]
            other = await call("POST", "/v2/notes", {"title": "two"}, idempotency_key="k-1")
            assert (other.status, other.json["code"]) == (422, "invalid_request")
            assert len((await call("GET", "/v2/notes")).json["items"]) == 1

    asyncio.run(story())


def test_idempotency_keys_are_separate_for_each_user_and_client(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            ids: set[str] = set()
            for uid, client in ((1001, "printer"), (1002, "printer"), (1001, "scanner")):
                token = call.issuer.token("write", uid=uid, client=client)
                made = await call(
                    "POST", "/v2/notes", {"title": "x"}, token=token, idempotency_key="k"
                )
                ids.add(made.json["id"])
            assert len(ids) == 3

    asyncio.run(story())


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "é"])
def test_a_malformed_key_is_refused(tmp_path: Path, key: str) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call("POST", "/v2/notes", {"title": "x"}, idempotency_key=key)
            assert answer.status == 400
            assert (await call("POST", "/v2/notes", idempotency_key=key)).status == 400

    asyncio.run(story())


async def _note(call: Api) -> str:
    made = await call("POST", "/v2/notes", {"title": "Milk"})
    return f"/v2/notes/{made.json['id']}"
