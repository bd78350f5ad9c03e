"""JSON Patch (RFC 6902) and merge patch on real objects, and what is no patch."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.resource.api import Answer, Api
from tests.resource.objects.test_declared_api import declared
from tests.support.wait import CEILING
from valetkey.kernel.shapes import Invalid
from valetkey.resource.requests.patches import JsonPatch, read_json_patch

_TYPE = "application/json-patch+json"


async def _patched(call: Api, path: str, *operations: Any) -> Answer:
    body = msgspec.json.encode(operations)
    return await call("PATCH", path, body=body, content_type=_TYPE)


async def _task(call: Api) -> str:
    place = {"room": "hall", "floor": 1}
    fields = {"title": "Cook", "labels": ["a", "b"], "place": place}
    return f"/v2/tasks/{(await call('POST', '/v2/tasks', fields)).json['id']}"


def test_all_six_operations_are_done_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            answer = await _patched(
                call,
                await _task(call),
                {"op": "test", "path": "/labels", "value": ["a", "b"]},
                {"op": "test", "path": "/place/floor", "value": 1.0},
                {"op": "add", "path": "/labels/1", "value": "c"},
                {"op": "add", "path": "/labels/-", "value": "d"},
                {"op": "remove", "path": "/labels/0"},
                {"op": "replace", "path": "/labels/0", "value": "e"},
                {"op": "copy", "from": "/place/room", "path": "/title"},
                {"op": "move", "from": "/place/room", "path": "/code"},
                {"op": "replace", "path": "/code", "value": "aa"},
                {"op": "remove", "path": "/state"},
            )
            assert answer.status == 200, answer.json
            now = answer.json
            assert now["labels"] == ["e", "b", "d"]
            assert (now["title"], now["code"], now["place"]) == ("hall", "aa", {"floor": 1})
            # What has a default and is removed has its default.
            assert (now["state"], now["version"]) == ("open", 2)

    asyncio.run(story())


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/title", "value": "Bake"},
        {"op": "test", "path": "/place/floor", "value": True},
        {"op": "test", "path": "/place", "value": {"room": "hall"}},
        {"op": "test", "path": "/labels", "value": ["a"]},
        {"op": "remove", "path": "/due"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/labels/2"},
        {"op": "replace", "path": "/labels/-", "value": "x"},
        {"op": "replace", "path": "/labels/01", "value": "x"},
        {"op": "add", "path": "/labels/3", "value": "x"},
        {"op": "add", "path": "/labels/99999999999999999999", "value": "x"},
        {"op": "add", "path": "/title/x", "value": "x"},
        {"op": "add", "path": "/nowhere/x", "value": "x"},
        {"op": "copy", "from": "/nowhere", "path": "/title"},
    ],
)
def test_inapplicable_patch_operation_is_a_conflict(tmp_path: Path, operation: Any) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            path = await _task(call)
            first = {"op": "replace", "path": "/title", "value": "never"}
            answer = await _patched(call, path, first, operation)
            assert (answer.status, answer.json["code"]) == (409, "conflict")
            member = {"test": "value", "copy": "from"}.get(operation["op"], "path")
            pointers = [error["pointer"] for error in answer.json["errors"]]
            # A test of a path that leads nowhere is an error of its path.
            assert pointers == [f"/1/{member}"]
            assert (await call("GET", path)).json["title"] == "Cook"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("operation", "pointer"),
    [
        ("add", "/0"),
        ({"op": "increase", "path": "/a"}, "/0/op"),
        ({"op": "add", "path": "a", "value": 1}, "/0/path"),
        ({"op": "add", "path": "/a~2", "value": 1}, "/0/path"),
        ({"op": "add", "path": "/a" * 33, "value": 1}, "/0/path"),
        ({"op": "add", "value": 1}, "/0/path"),
        ({"op": "add", "path": "/a"}, "/0/value"),
        ({"op": "copy", "path": "/a"}, "/0/from"),
        ({"op": "move", "from": "/a", "path": "/a/b"}, "/0/from"),
    ],
)
def test_invalid_patch_operation_is_refused_with_its_pointer(operation: Any, pointer: str) -> None:
    with pytest.raises(Invalid) as invalid:
        read_json_patch([operation])
    assert [error.pointer for error in invalid.value.errors] == [pointer]


def test_json_patch_must_be_a_list_of_at_most_100_operations() -> None:
    wrong: tuple[object, ...] = ({}, None, [{"op": "remove", "path": "/a"}] * 101)
    for value in wrong:
        with pytest.raises(Invalid):
            read_json_patch(value)
    assert read_json_patch([]) == JsonPatch(())


def test_patched_document_is_validated_as_a_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            path = await _task(call)
            for operation, pointer in (
                ({"op": "add", "path": "/owner", "value": 1}, "/owner"),
                ({"op": "add", "path": "/version", "value": 9}, "/version"),
                ({"op": "remove", "path": "/title"}, "/title"),
                ({"op": "replace", "path": "/place/floor", "value": "x"}, "/place/floor"),
                ({"op": "replace", "path": "", "value": 7}, ""),
            ):
                answer = await _patched(call, path, operation)
                assert answer.status == 400
                assert [error["pointer"] for error in answer.json["errors"]] == [pointer]

    asyncio.run(story())


def test_repeated_copy_operations_cannot_exceed_the_size_limit(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            path = await _task(call)
            wide = [{"op": "copy", "from": "/labels", "path": "/labels/-"}] * 100
            deep = [{"op": "copy", "from": "/place", "path": "/place/room"}] * 100
            for operations in (wide, deep):
                answer = await asyncio.wait_for(_patched(call, path, *operations), CEILING)
                assert answer.status == 400

    asyncio.run(story())


def test_json_patch_can_change_the_account_stored_by_the_issuer(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            call.issuer.accounts["1001"] = {"uid": 1001, "name": "Ada"}
            token = call.issuer.token("read write")
            body = b'[{"op": "test", "path": "/name", "value": "Ada"},'
            body += b'{"op": "replace", "path": "/name", "value": "Countess"}]'
            answer = await call("PATCH", "/v2/account", body=body, token=token, content_type=_TYPE)
            assert (answer.status, answer.json["name"]) == (200, "Countess")
            again = await call("PATCH", "/v2/account", body=body, token=token, content_type=_TYPE)
            assert again.status == 409

    asyncio.run(story())


def test_unsupported_patch_type_gets_415_with_accept_patch(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            answer = await call("PATCH", await _task(call), {"title": "x"}, content_type="text/xml")
            assert answer.status == 415
            assert _TYPE in answer.headers["accept-patch"]

    asyncio.run(story())
