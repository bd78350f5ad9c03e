"""Lists in other orders and lists of what has a value, on the whole server."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from tests.resource.api import Api, following, serving, settings_for
from tests.resource.objects.books import write_objects
from tests.sdk.issuer import Clock, Issuer
from valetkey.kernel.replace import replace

SONGS = """{
  "type": "object",
  "properties": {
    "title": {"type": "string", "maxLength": 500},
    "stars": {"type": ["integer", "null"], "minimum": -5, "maximum": 5},
    "live": {"type": "boolean", "default": false},
    "length": {"type": "number"}
  },
  "required": ["title"],
  "x-valetkey": {
    "reads": "read your songs",
    "writes": "change your songs",
    "sort": ["title", "stars", "length", "changed_at"],
    "filter": ["title", "live", "stars", "length"]
  }
}"""

_CONCERTS = """{
  "type": "object",
  "properties": {
    "title": {"type": "string", "maxLength": 500},
    "genre": {"enum": ["folk", "jazz"]},
    "played": {"type": "string", "format": "date"},
    "stage": {"anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}]}
  },
  "x-valetkey": {
    "reads": "read your songs",
    "writes": "change your songs",
    "filter": ["genre", "played", "stage"]
  }
}"""


@contextlib.asynccontextmanager
async def songs(directory: Path, text: str = SONGS) -> AsyncGenerator[Api]:
    """A resource server with songs; calls are ada's (uid 1001)."""
    write_objects(directory, songs_json=text)
    async with Issuer(Clock()).running() as issuer:
        settings = settings_for(directory, issuer)
        settings = replace(settings, resource=replace(settings.resource, objects="objects"))
        async with serving(settings, issuer) as server:
            server.token = issuer.token("read write")
            yield server


async def walk(call: Api, target: str) -> tuple[list[str], int]:
    """The titles of a whole list, and its pages."""
    titles: list[str] = []
    pages = 0
    while target:
        answer = await call("GET", target)
        assert answer.status == 200, answer.json
        titles += [song["title"] for song in answer.json["items"]]
        target = following(answer)
        pages += 1
    return titles, pages


async def _sing(call: Api, *bodies: Mapping[str, object]) -> list[str]:
    paths: list[str] = []
    for body in bodies:
        made = await call("POST", "/v2/songs", body)
        assert made.status == 201, made.json
        paths.append(f"/v2/songs/{made.json['id']}")
        call.issuer.clock.at += 1
    return paths


def test_lists_are_sorted_by_each_field_in_both_directions(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            await _sing(
                call,
                {"title": "b", "stars": 5, "length": 0.5},
                {"title": "\u00e9", "stars": -3, "length": -1.5},
                {"title": "", "stars": None, "length": 1e3},
                {"title": "a", "length": -7},
                {"title": "B", "stars": 0, "length": 0},
            )
            for query, expected in (
                ("", ["b", "\u00e9", "", "a", "B"]),
                ("sort=created_at", ["b", "\u00e9", "", "a", "B"]),
                ("sort=-created_at", ["B", "a", "", "\u00e9", "b"]),
                ("sort=title", ["", "B", "a", "b", "\u00e9"]),
                ("sort=-title", ["\u00e9", "b", "a", "B", ""]),
                ("sort=length", ["a", "\u00e9", "B", "b", ""]),
                ("sort=-changed_at", ["B", "a", "", "\u00e9", "b"]),
            ):
                assert (await walk(call, f"/v2/songs?limit=2&{query}"))[0] == expected, query
            by_stars, pages = await walk(call, "/v2/songs?limit=2&sort=stars")
            # Nothing comes first, in whatever order of ids.
            assert (by_stars[2:], set(by_stars[:2])) == (["\u00e9", "B", "b"], {"", "a"})
            assert pages == 3

    asyncio.run(story())


def test_lists_are_filtered_by_field_values(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            await _sing(
                call,
                {"title": "x", "live": True, "stars": 1, "length": 0.001},
                {"title": "y", "live": True, "stars": 2},
                {"title": "x", "live": False, "stars": 2},
            )
            for query, count in (
                ("title=x", 2),
                ("title=X", 0),
                ("live=true", 2),
                ("stars=2&live=true", 1),
                ("live=true&stars=2&title=y&sort=-title", 1),
                ("stars=-0", 0),
                ("length=1e-3", 1),
                ("length=0.001", 1),
            ):
                answer = await call("GET", f"/v2/songs?{query}")
                assert len(answer.json["items"]) == count, query

    asyncio.run(story())


def test_changed_and_deleted_objects_are_moved_in_sorted_and_filtered_lists(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            one, _ = await _sing(call, {"title": "a"}, {"title": "b"})
            await call("PATCH", one, {"title": "c"})
            assert (await walk(call, "/v2/songs?sort=title"))[0] == ["b", "c"]
            assert (await walk(call, "/v2/songs?title=a"))[0] == []
            assert (await walk(call, "/v2/songs?sort=-changed_at"))[0] == ["c", "b"]
            await call("DELETE", one)
            assert (await walk(call, "/v2/songs?sort=title"))[0] == ["b"]

    asyncio.run(story())


def test_long_texts_with_a_common_prefix_are_distinguished(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            titles = [f"{'t' * 150}{number}" for number in range(5)]
            await _sing(call, *({"title": title} for title in titles))
            assert (await walk(call, f"/v2/songs?limit=2&title={titles[3]}"))[0] == [titles[3]]
            assert sorted((await walk(call, "/v2/songs?limit=2&sort=title"))[0]) == titles

    asyncio.run(story())


@pytest.mark.parametrize(
    "query",
    [
        "sort=id",
        "sort=text",
        "sort=--title",
        "sort=",
        "sort=title,stars",
        "sort=title;DROP",
        "sort=title&sort=stars",
        "length=1e999",
        "length=NaN",
        "length=.5",
        "lengths=1",
        "stars=1.5",
        "stars=x",
        "stars=",
        "stars=1e3",
        "stars=%D9%A1",
        "stars=" + "9" * 50,
        "live=1",
        "live=TRUE",
        "title=" + "x" * 201,
        "title[]=x",
        "title=x&title=y",
        "title%00=x",
        "filter=title",
        "stars=6",
    ],
)
def test_another_sort_or_filter_is_refused(tmp_path: Path, query: str) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            assert (await call("GET", f"/v2/songs?{query}")).status == 400

    asyncio.run(story())


def test_filter_that_no_object_can_match_names_what_is_allowed(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path, _CONCERTS) as call:
            for query in ("genre=", "genre=null", "played=yesterday", "stage=6", "stage=null"):
                assert (await call("GET", f"/v2/songs?{query}")).status == 400, query
            refused = await call("GET", "/v2/songs?genre=rock")
            assert all(word in refused.json["detail"] for word in ("genre", "folk", "jazz"))
            await _sing(call, {"title": "x", "genre": "folk", "stage": 1.0})
            for query in ("genre=folk", "genre=folk&stage=1"):
                assert await walk(call, f"/v2/songs?{query}") == (["x"], 1)

    asyncio.run(story())


def test_cursor_is_refused_with_another_sort_or_filter(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            await _sing(call, *({"title": "x", "stars": n} for n in range(4)))
            first = await call("GET", "/v2/songs?limit=1&sort=stars&title=x")
            target = following(first)
            cursor = first.json["next"]
            assert target == f"/v2/songs?limit=1&cursor={cursor}&sort=stars&title=x"
            assert (await call("GET", target)).json["items"][0]["stars"] == 1
            for one, other in (
                ("sort=stars", "sort=-stars"),
                ("sort=stars", "sort=title"),
                ("&sort=stars", ""),
                ("title=x", "title=y"),
                ("&title=x", ""),
                ("title=x", "title=x&live=false"),
            ):
                assert one in target
                assert (await call("GET", target.replace(one, other))).status == 400, other

    asyncio.run(story())


def test_list_filtered_by_a_fraction_has_further_pages(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            await _sing(call, *({"title": str(n), "length": 1.5e-7} for n in range(3)))
            titles, pages = await walk(call, "/v2/songs?limit=1&length=1.5e-7")
            assert (titles, pages) == (["0", "1", "2"], 3)

    asyncio.run(story())


def test_few_matches_among_many_objects_are_found_page_by_page(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            await _sing(call, {"title": "t", "stars": 1, "live": True})
            await _sing(call, *({"title": "t", "stars": 0} for _ in range(30)))
            await _sing(call, {"title": "t", "stars": 2, "live": True})
            assert len((await walk(call, "/v2/songs?title=t&live=true&limit=3"))[0]) == 2

    asyncio.run(story())


def test_sort_fields_declared_later_apply_to_existing_objects(tmp_path: Path) -> None:
    async def story() -> None:
        plain = SONGS.replace('["title", "stars", "length", "changed_at"]', "[]")
        plain = plain.replace('["title", "live", "stars", "length"]', "[]")
        async with songs(tmp_path, plain) as call:
            await _sing(call, {"title": "b"}, {"title": "a"})
            assert (await call("GET", "/v2/songs?sort=title")).status == 400
        async with songs(tmp_path) as call:
            assert (await walk(call, "/v2/songs?sort=title"))[0] == ["a", "b"]

    asyncio.run(story())


def test_lists_hide_records_of_other_owners(tmp_path: Path) -> None:
    async def story() -> None:
        async with songs(tmp_path) as call:
            await _sing(call, {"title": "mine"}, {"title": "mine"})
            bob = call.issuer.token("read", uid=1002)
            for query in ("title=mine", "sort=title", "sort=-created_at"):
                answer = await call("GET", f"/v2/songs?{query}", token=bob)
                assert answer.json["items"] == []
            stolen = following(await call("GET", "/v2/songs?limit=1&sort=title"))
            assert (await call("GET", stolen, token=bob)).status == 400

    asyncio.run(story())
