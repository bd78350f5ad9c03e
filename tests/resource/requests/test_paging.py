"""Pages of a list and their cursors."""

import asyncio
from pathlib import Path

import pytest

from tests.resource.api import Api, api, following


def test_pages_hold_every_record_once_in_the_order_of_creation(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            await _fill(call, 7)
            titles: list[str] = []
            target, pages = "/v2/notes?limit=3", 0
            while target:
                page = await call("GET", target)
                titles += [note["title"] for note in page.json["items"]]
                cursor = page.json["next"]
                target = following(page)
                assert target == (f"/v2/notes?limit=3&cursor={cursor}" if cursor else "")
                pages += 1
            assert (pages, titles) == (3, [str(number) for number in range(7)])

    asyncio.run(story())


def test_a_page_that_is_just_full_is_the_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            await _fill(call, 3)
            assert (await call("GET", "/v2/notes?limit=3")).json["next"] is None

    asyncio.run(story())


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=1e1",
        "limit=+5",
        "limit=",
        "limit=%D9%A1",
        "limit=1&limit=2",
        "sort=title",
        "access_token=x",
        "cursor=",
        "cursor=v1.AAAA",
    ],
)
def test_invalid_list_query_is_refused(tmp_path: Path, query: str) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", f"/v2/notes?{query}")).status == 400

    asyncio.run(story())


def test_only_lists_take_a_query(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            await _fill(call, 1)
            note = (await call("GET", "/v2/notes")).json["items"][0]
            path = f"/v2/notes/{note['id']}?x=1"
            for method, json in (("GET", None), ("PATCH", {"text": ""}), ("DELETE", None)):
                assert (await call(method, path, json)).status == 400
            assert (await call("POST", "/v2/notes?limit=3", {"title": "x"})).status == 400

    asyncio.run(story())


def test_a_cursor_is_too_old_after_a_day(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            await _fill(call, 2)
            target = following(await call("GET", "/v2/notes?limit=1"))
            token = call.issuer.token("read", lifetime=200_000)
            call.issuer.clock.at += 86_399
            assert (await call("GET", target, token=token)).status == 200
            call.issuer.clock.at += 1
            assert (await call("GET", target, token=token)).status == 400

    asyncio.run(story())


def test_cursor_is_opaque_and_never_repeats(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            await _fill(call, 2)
            page = (await call("GET", "/v2/notes?limit=1")).json
            assert page["items"][0]["id"] not in page["next"]
            again = (await call("GET", "/v2/notes?limit=1")).json
            assert again["next"] != page["next"]

    asyncio.run(story())


async def _fill(call: Api, count: int) -> None:
    for number in range(count):
        await call("POST", "/v2/notes", {"title": str(number)})
        call.issuer.clock.at += 1
