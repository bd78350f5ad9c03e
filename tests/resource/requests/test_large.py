"""What is large costs those who sent it, and nobody else: bodies, patches, pages."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.resource.api import Answer, Api, following, serving, settings_for
from tests.resource.objects.books import write_objects
from tests.sdk.issuer import Clock, Issuer
from tests.support.wait import CEILING
from valetkey.kernel.replace import replace

_BLOBS = """{
  "type": "object",
  "properties": {
    "any": {},
    "list": {"type": "array"},
    "objects": {"type": "array", "items": {"type": "object"}},
    "either": {"anyOf": [
      {"type": "array", "items": {"anyOf": [
        {"type": "array", "items": {"type": "string"}}, {"type": "integer"}
      ]}},
      {"type": "string"}
    ]},
    "small": {"type": "integer", "maximum": 5},
    "odd": {"type": "boolean"}
  },
  "dependentRequired": {"odd": ["small"]},
  "x-valetkey": {
    "reads": "read your blobs", "writes": "change your blobs", "filter": ["small", "odd"]
  }
}"""
_MIB = 1024 * 1024
_PATCH = "application/json-patch+json"
# A busy machine may be slow; what this is about took half a minute.
_PATIENCE = CEILING


@contextlib.asynccontextmanager
async def blobs(directory: Path) -> AsyncGenerator[Api]:
    """A resource server whose objects can hold anything; calls are ada's."""
    write_objects(directory, blobs_json=_BLOBS)
    async with Issuer(Clock()).running() as issuer:
        settings = settings_for(directory, issuer)
        settings = replace(settings, resource=replace(settings.resource, objects="objects"))
        async with serving(settings, issuer) as server:
            server.token = issuer.token("read write")
            yield server


def _body(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


async def _quick(call: Api, method: str, target: str, body: bytes, **headers: str) -> Answer:
    began = time.monotonic()
    answer = await call(method, target, body=body, **headers)
    assert time.monotonic() - began < _PATIENCE
    return answer


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"objects": [1] * 300_000}, ["/objects"]),
        ({"either": [[1]] * 200_000}, ["/either"]),
        ({"either": [[1]] * 200_000, "small": 9}, ["/either", "/small"]),
        ({"any": [1] * 2_000, "small": 9}, ["/small"]),
        ({"any": [1] * 2_000, "odd": True}, [""]),
        ({"objects": [{}, 1, {}]}, ["/objects/1"]),
    ],
)
def test_schema_errors_of_huge_documents_are_reported_quickly(
    tmp_path: Path, fields: dict[str, Any], pointers: list[str]
) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            answer = await _quick(call, "POST", "/v2/blobs", _body(**fields))
            assert answer.status == 400
            assert sorted(error["pointer"] for error in answer.json["errors"]) == pointers

    asyncio.run(story())


def test_large_documents_that_fit_are_taken(tmp_path: Path) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            made = await _quick(call, "POST", "/v2/blobs", _body(objects=[{}] * 300_000, small=1))
            assert made.status == 201
            assert len(made.json["objects"]) == 300_000

    asyncio.run(story())


@pytest.mark.parametrize("target", ["/v2/blobs", "/v2/notes"])
def test_at_most_a_hundred_errors_are_reported(tmp_path: Path, target: str) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            fields = {f"k{n}": 1 for n in range(80_000)}
            answer = await _quick(call, "POST", target, _body(**fields))
            assert len(answer.json["errors"]) == 100
            made = await call("POST", target, {"title": "x"} if "notes" in target else {})
            path = f"{target}/{made.json['id']}"
            patched = await _quick(call, "PATCH", path, _body(**fields))
            assert len(patched.json["errors"]) == 100

    asyncio.run(story())


def test_a_body_of_one_mebibyte_is_read_and_of_one_byte_more_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            text = "x" * (_MIB - len(_body(any="")))
            assert (await call("POST", "/v2/blobs", body=_body(any=text))).status == 201
            assert (await call("POST", "/v2/blobs", body=_body(any=text + "x"))).status == 413

    asyncio.run(story())


_ONE = {"op": "add", "path": "/list/-", "value": 1}
_FORTH: Any = {"op": "move", "from": "/list", "path": "/any"}
_BACK: Any = {"op": "move", "from": "/any", "path": "/list"}


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([_ONE] * 100, 200),
        ([{"op": "remove", "path": "/list/0"}] * 100, 200),
        ([{"op": "test", "path": "/list/9", "value": 1}] * 100, 200),
        ([_FORTH, _BACK], 200),
        ([_FORTH, _BACK] * 50, 400),
        ([{"op": "copy", "from": "/list", "path": "/any"}] * 100, 400),
        ([{"op": "copy", "from": "/list", "path": "/any/-"}] * 100, 409),
    ],
)
def test_json_patch_of_a_large_object_is_quick(
    tmp_path: Path, operations: list[Any], status: int
) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            made = await call("POST", "/v2/blobs", {"list": [1] * 300_000})
            path = f"/v2/blobs/{made.json['id']}"
            body = json.dumps(operations).encode()
            answer = await _quick(call, "PATCH", path, body, content_type=_PATCH)
            assert answer.status == status
            if status != 200:
                assert (await call("GET", path)).json == made.json

    asyncio.run(story())


def test_patched_document_is_limited_to_the_size_of_a_body(tmp_path: Path) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            made = await call("POST", "/v2/blobs", {"list": [], "any": "x" * 400_000})
            path = f"/v2/blobs/{made.json['id']}"
            copies = [{"op": "copy", "from": "/any", "path": "/list/-"}]
            replaced = [{"op": "replace", "path": "/any", "value": "y" * 400_000}]
            for operations, status in ((copies, 200), (copies, 400), (replaced, 200)):
                body = json.dumps(operations).encode()
                answer = await call("PATCH", path, body=body, content_type=_PATCH)
                assert answer.status == status

    asyncio.run(story())


@pytest.mark.parametrize("query", ["", "sort=-created_at", "small=1", "small=1&odd=true"])
def test_pages_of_large_objects_are_bounded_and_skip_none(tmp_path: Path, query: str) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as call:
            made: list[str] = []
            for number in range(24):
                size = 900_000 if number % 3 else 10
                fields = {"any": "x" * size, "small": 1, "odd": True}
                made.append((await call("POST", "/v2/blobs", fields)).json["id"])
            seen: list[str] = []
            target = f"/v2/blobs?limit=200&{query}".rstrip("&")
            while target:
                answer = await call("GET", target)
                assert answer.status == 200
                assert len(answer.body) < 6 * _MIB
                seen += [blob["id"] for blob in answer.json["items"]]
                target = following(answer)
            assert sorted(seen) == sorted(made)
            assert len(seen) == len(made)

    asyncio.run(story())
