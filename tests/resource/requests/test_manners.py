"""Preferences, required preconditions, deprecation, allowances and CORS, on the whole server."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.resource.api import Api, serving, settings_for
from tests.resource.objects.books import DIARY, TASK, write_objects
from tests.sdk.issuer import Clock, Issuer
from valetkey.config.load import OperatorErrors, load
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.resource.requests.allowance import CALLERS, Allowances

_APP = "https://app.example"


@contextlib.asynccontextmanager
async def serving_with(directory: Path, **changes: Any) -> AsyncGenerator[Api]:
    """A resource server with these settings and two objects."""
    strict = TASK.replace('"reads"', '"requires_if_match": true, "reads"')
    ended = DIARY.replace('"reads"', '"deprecated": "2026-01-01", "sunset": "2027-01-01", "reads"')
    write_objects(directory, tasks_json=strict, diary_json=ended)
    async with Issuer(Clock()).running() as issuer:
        settings = settings_for(directory, issuer)
        resource = replace(settings.resource, objects="objects", **changes)
        async with serving(replace(settings, resource=resource), issuer) as server:
            server.token = issuer.token("read write")
            yield server


def test_prefer_return_minimal_shortens_responses(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path) as call:
            made = await call("POST", "/v2/notes", {"title": "x"}, prefer="return=minimal")
            assert (made.status, set(made.json)) == (201, {"id"})
            assert made.headers["preference-applied"] == "return=minimal"
            path = made.headers["location"].removeprefix(call.settings.resource.url)
            for method, body in (("PATCH", {"text": "y"}), ("PUT", {"title": "z", "text": ""})):
                answer = await call(
                    method, path, body, prefer='respond-async, Return="minimal"; a=1'
                )
                assert (answer.status, answer.body) == (204, b"")
                assert answer.headers["etag"] == (await call("GET", path)).headers["etag"]
            full = await call("PATCH", path, {"text": "w"}, prefer="return=representation")
            assert full.headers["preference-applied"] == "return=representation"
            assert full.json["text"] == "w"
            other = await call("PATCH", path, {"text": "v"}, prefer="return=maximal, wait=10")
            assert "preference-applied" not in other.headers

    asyncio.run(story())


def test_object_can_require_if_match(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path) as call:
            made = await call("POST", "/v2/tasks", {"title": "x"})
            path = f"/v2/tasks/{made.json['id']}"
            whole = {"title": "y", "state": "open", "labels": []}
            for method, body in (("PUT", whole), ("PATCH", {"title": "y"}), ("DELETE", None)):
                answer = await call(method, path, body)
                assert (answer.status, answer.json["code"]) == (428, "precondition_required")
                late = await call(method, path, body, if_match='"7"')
                assert late.status == 412
            assert (await call("PATCH", path, {"title": "y"}, if_match='"1"')).status == 200
            assert (await call("DELETE", path, if_match="*")).status == 204

    asyncio.run(story())


def test_every_response_of_a_deprecated_object_has_deprecation_and_sunset(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path) as call:
            for answer in (
                await call("GET", "/v2/diary"),
                await call("POST", "/v2/diary", {"text": "x"}),
                await call("POST", "/v2/diary", {}),
                await call("GET", "/v2/diary", token=""),
            ):
                assert answer.headers["deprecation"] == "@1767225600"
                assert answer.headers["sunset"] == "Fri, 01 Jan 2027 00:00:00 GMT"
            assert "sunset" not in (await call("GET", "/v2/tasks")).headers

    asyncio.run(story())


def test_rate_limit_is_shown_in_headers_and_ends_in_429(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path, requests_per_minute=3) as call:
            for left in (2, 1, 0):
                answer = await call("GET", "/v2/notes")
                assert answer.headers["ratelimit"].startswith(f'"requests";r={left};t=')
                assert answer.headers["ratelimit-policy"] == '"requests";q=3;w=60'
            answer = await call("GET", "/v2/notes")
            assert (answer.status, answer.json["code"]) == (429, "slow_down")
            assert (answer.headers["retry-after"], answer.headers["ratelimit"]) == (
                "20",
                '"requests";r=0;t=60',
            )
            bob = call.issuer.token("read", uid=1002)
            assert (await call("GET", "/v2/notes", token=bob)).status == 200
            call.issuer.clock.at += 20
            assert (await call("GET", "/v2/notes")).status == 200
            assert (await call("GET", "/v2/notes")).status == 429
            assert "ratelimit" not in (await call("GET", "/v2/notes", token="")).headers

    asyncio.run(story())


def test_allowance_is_refilled_evenly_and_kept_for_a_limited_number_of_callers() -> None:
    allowances = Allowances(7)
    now = Instant(1_000)
    assert [allowances.take("ada", now).remaining for _ in range(7)] == [6, 5, 4, 3, 2, 1, 0]
    refused = allowances.take("ada", now)
    assert (refused.wait, refused.remaining) == (9, 0)
    assert allowances.take("ada", Instant(now + refused.wait)).wait == 0
    assert allowances.take("ada", Instant(now + 500)).remaining == 6
    for number in range(CALLERS):
        allowances.take(str(number), now)
    assert allowances.take("ada", now).remaining == 6


def test_a_page_of_a_named_origin_may_call_and_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path, cors_origins=(_APP,)) as call:
            answer = await call(
                "OPTIONS",
                "/v2/notes/note_x",
                token="",
                origin=_APP,
                access_control_request_method="PATCH",
            )
            assert answer.status == 204
            assert answer.headers["access-control-allow-origin"] == _APP
            assert "PATCH" in answer.headers["access-control-allow-methods"]
            assert "authorization" in answer.headers["access-control-allow-headers"]
            assert "access-control-allow-credentials" not in answer.headers
            for answer in (
                await call("GET", "/v2/notes", origin=_APP),
                await call("GET", "/v2/notes", origin=_APP, token=""),
                await call("GET", "/v2/notes?sort=x", origin=_APP),
                await call("PATCH", "/v2/notes", origin=_APP),
            ):
                assert answer.headers["access-control-allow-origin"] == _APP
                assert "origin" in answer.headers["vary"]
                assert "etag" in answer.headers["access-control-expose-headers"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "origin",
    ["null", "*", "https://app.example.evil", "http://app.example", "https://app.example:444", ""],
)
def test_other_origins_get_no_cors_headers(tmp_path: Path, origin: str) -> None:
    async def story() -> None:
        async with serving_with(tmp_path, cors_origins=(_APP,)) as call:
            for method in ("GET", "OPTIONS"):
                answer = await call(method, "/v2/notes", origin=origin)
                assert answer.status in {200, 204}
                assert "access-control-allow-origin" not in answer.headers
                assert "origin" in answer.headers["vary"]

    asyncio.run(story())


def test_without_origins_there_is_no_cors(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path) as call:
            assert (await call("OPTIONS", "/v2/notes", origin=_APP)).status == 405
            answer = await call("GET", "/v2/notes", origin=_APP)
            assert not [name for name in answer.headers if name.startswith("access-control")]

    asyncio.run(story())


@pytest.mark.parametrize("origin", ["*", "null", "https://*.example", "https://a.example/x", "a"])
def test_only_exact_origins_can_be_named(origin: str) -> None:
    with pytest.raises(OperatorErrors, match="cors_origins"):
        load(None, {"VALETKEY__RESOURCE__CORS_ORIGINS": origin})


def test_repeated_reads_of_one_object_get_the_same_answer(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"cors_origins": (_APP,), "requests_per_minute": 0}
        async with serving_with(tmp_path, **settings) as call:
            made = await call("POST", "/v2/diary", {"text": "x"})
            path = f"/v2/diary/{made.json['id']}"
            for _ in range(3):
                answer = await call("GET", path, origin=_APP)
                assert (answer.status, answer.body) == (200, made.body)
                assert answer.headers["access-control-allow-origin"] == _APP
                assert answer.headers["deprecation"] == "@1767225600"
                assert answer.headers["vary"] == "authorization, accept, origin"
                assert "access-control-allow-origin" not in (await call("GET", path)).headers

    asyncio.run(story())


def test_reads_of_one_object_use_the_allowance_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving_with(tmp_path, requests_per_minute=4) as call:
            made = await call("POST", "/v2/notes", {"title": "x"})
            path = f"/v2/notes/{made.json['id']}"
            statuses = [(await call("GET", path)).status for _ in range(4)]
            assert statuses == [200, 200, 200, 429]

    asyncio.run(story())
