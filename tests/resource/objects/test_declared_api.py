"""What one declared file gives: routes, rules, errors, as every other object has them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.resource.api import Api, serving, settings_for
from tests.resource.objects.books import BOOK, DIARY, LETTERBOX, TASK, write_objects
from tests.sdk.issuer import Clock, Issuer
from tests.support.wait import CEILING
from valetkey.kernel.replace import replace


@contextlib.asynccontextmanager
async def declared(directory: Path) -> AsyncGenerator[Api]:
    """A resource server with four declared objects; calls are ada's (uid 1001)."""
    write_objects(
        directory, books_py=BOOK, tasks_json=TASK, diary_json=DIARY, letters_json=LETTERBOX
    )
    async with Issuer(Clock()).running() as issuer:
        settings = settings_for(directory, issuer)
        settings = replace(settings, resource=replace(settings.resource, objects="objects"))
        async with serving(settings, issuer) as server:
            server.token = issuer.token("read write")
            yield server


def test_object_declared_in_python_supports_all_verbs(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            made = await call("POST", "/v2/books", {"title": "Emma"})
            assert (made.status, made.json["pages"]) == (201, None)
            path = f"/v2/books/{made.json['id']}"
            changed = await call("PATCH", path, {"pages": 474})
            assert (changed.status, changed.json["pages"]) == (200, 474)
            assert (await call("PATCH", path, {"pages": None})).json["pages"] is None
            put = await call("PUT", path, {"title": "Emma", "pages": 1})
            assert put.json["version"] == 4
            assert (await call("PUT", path, {"title": "Emma"})).status == 400
            assert (await call("GET", "/v2/books")).json["items"] == [put.json]
            assert (await call("DELETE", path)).status == 204

    asyncio.run(story())


def test_server_set_fields_are_accepted_unchanged_and_refused_changed(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            made = (await call("POST", "/v2/books", {"title": "Emma"})).json
            path = f"/v2/books/{made['id']}"
            for method in ("PUT", "PATCH"):
                same = await call(method, path, made)
                assert (same.status, same.json) == (200, made)
                for name, value in (
                    ("id", "book_other"),
                    ("created_at", None),
                    ("version", True),
                    ("version", 2),
                ):
                    refused = await call(method, path, {**made, name: value})
                    assert refused.status == 400, (method, name)
                    (error,) = refused.json["errors"]
                    assert error == {"pointer": f"/{name}", "detail": "the server sets this field"}
            changed = await call("PUT", path, {**made, "title": "Persuasion"})
            assert (changed.json["title"], changed.json["version"]) == ("Persuasion", 2)
            # The version that was read is no longer the current one.
            assert (await call("PUT", path, {**made, "title": "Emma"})).status == 400
            assert (await call("POST", "/v2/books", made)).status == 400

    asyncio.run(story())


def test_a_repeated_creation_is_marked(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            first, again = [
                await call("POST", "/v2/books", {"title": "Emma"}, idempotency_key="one")
                for _ in range(2)
            ]
            assert (again.status, again.body) == (first.status, first.body)
            assert "idempotency-replayed" not in first.headers
            assert again.headers["idempotency-replayed"] == "true"

    asyncio.run(story())


def test_an_integer_written_as_a_fraction_is_kept_as_an_integer(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            book = await call("POST", "/v2/books", body=b'{"title":"Emma","pages":1.0}')
            document = b'{"title":"Cook","place":{"floor":2.0}}'
            task = await call("POST", "/v2/tasks", body=document)
            assert b'"pages":1,' in book.body
            assert b'"floor":2}' in task.body
            path = f"/v2/tasks/{task.json['id']}"
            for body, kind in (
                (b'{"place":{"floor":3e0}}', "application/merge-patch+json"),
                (
                    b'[{"op":"replace","path":"/place/floor","value":3.0}]',
                    "application/json-patch+json",
                ),
            ):
                changed = await call("PATCH", path, body=body, content_type=kind)
                assert b'"floor":3}' in changed.body
            for wrong in (b"1.5", b"1e17", b"1e300"):
                body = b'{"place":{"floor":' + wrong + b"}}"
                assert (await call("PATCH", path, body=body)).status == 400, wrong

    asyncio.run(story())


def test_json_schema_errors_are_all_reported_with_their_pointers(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            answer = await call(
                "POST",
                "/v2/tasks",
                {
                    "state": "lost",
                    "due": "tomorrow",
                    "labels": ["ok", "much too long"],
                    "place": {"floor": "first"},
                    "a/b~": 1,
                    "id": "x",
                    "created_at": 1,
                },
            )
            assert answer.status == 400
            errors = {error["pointer"]: error["detail"] for error in answer.json["errors"]}
            assert errors == {
                "/a~1b~0": "this field cannot be written",
                "/created_at": "the server sets this field",
                "/id": "the server sets this field",
                "/title": "this field is required",
                "/state": "this is not one of open or done",
                "/due": "this is not a date-time",
                "/labels/1": "this is longer than 8 characters",
                "/place/floor": "this is not of type integer",
            }

    asyncio.run(story())


def test_defaults_are_filled_in_and_optional_fields_may_be_absent(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            made = await call("POST", "/v2/tasks", {"title": "Cook"})
            fields = {"title": "Cook", "state": "open", "labels": []}
            assert fields.items() <= made.json.items()
            assert "due" not in made.json
            path = f"/v2/tasks/{made.json['id']}"
            # A PUT needs the fields with defaults, not those that may be absent.
            answer = await call("PUT", path, {"title": "Bake"})
            assert {error["pointer"] for error in answer.json["errors"]} == {"/state", "/labels"}
            due = {**fields, "due": "2026-11-21T12:00:00Z"}
            assert (await call("PUT", path, due)).json["due"] == due["due"]
            assert "due" not in (await call("PATCH", path, {"due": None})).json
            answer = await call("PATCH", path, {"title": None, "state": None, "nothing": None})
            assert {e["pointer"] for e in answer.json["errors"]} == {"/title", "/nothing"}
            assert (await call("PATCH", path, {"state": "done"})).json["state"] == "done"
            assert (await call("PATCH", path, {"state": None})).json["state"] == "open"

    asyncio.run(story())


def test_a_merge_patch_goes_into_nested_objects(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            place = {"room": "kitchen", "floor": 1}
            made = await call("POST", "/v2/tasks", {"title": "Cook", "place": place})
            path = f"/v2/tasks/{made.json['id']}"
            patched = await call("PATCH", path, {"place": {"floor": None, "room": "hall"}})
            assert patched.json["place"] == {"room": "hall"}
            wrong = await call("PATCH", path, {"place": {"floor": "x"}})
            assert wrong.json["errors"][0]["pointer"] == "/place/floor"

    asyncio.run(story())


def test_pattern_with_catastrophic_backtracking_is_matched_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            evil = {"title": "x", "code": "a" * 100_000 + "!"}
            answer = await asyncio.wait_for(call("POST", "/v2/tasks", evil), CEILING)
            assert [error["pointer"] for error in answer.json["errors"]] == ["/code"]

    asyncio.run(story())


def test_verbs_that_are_not_declared_are_405(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            made = await call("POST", "/v2/diary", {"text": "Dear"})
            path = f"/v2/diary/{made.json['id']}"
            for method in ("PUT", "PATCH", "DELETE"):
                answer = await call(method, path, {"text": "x"})
                assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
            assert (await call("GET", path)).status == 200
            dropped = await call("POST", "/v2/letters", {"text": "Dear"})
            assert dropped.status == 201
            answer = await call("GET", "/v2/letters")
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
            assert (await call("GET", f"/v2/letters/{dropped.json['id']}")).status == 404

    asyncio.run(story())


def test_each_object_has_scopes_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            token = call.issuer.token("books:read notes:write")
            assert (await call("GET", "/v2/books", token=token)).status == 200
            assert (await call("POST", "/v2/books", {"title": "x"}, token=token)).status == 403
            assert (await call("GET", "/v2/tasks", token=token)).status == 403
            alone = call.issuer.token("books:read", uid=None)
            assert (await call("GET", "/v2/books", token=alone)).status == 403

    asyncio.run(story())


def test_records_of_one_user_are_hidden_from_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            made = await call("POST", "/v2/tasks", {"title": "mine"})
            bob = call.issuer.token("read write", uid=1002)
            path = f"/v2/tasks/{made.json['id']}"
            assert (await call("GET", path, token=bob)).status == 404
            assert (await call("GET", path.replace("tasks", "books"))).status == 404
            owned = await call("POST", "/v2/tasks", {"title": "x", "uid": 1002, "owner": "x"})
            assert {e["pointer"] for e in owned.json["errors"]} == {"/uid", "/owner"}

    asyncio.run(story())
