"""What the operations of the admin API, and those of /v2, share: pages, faults, addresses."""

from pathlib import Path
from typing import Any

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import Harness, run
from valetkey.authorization.endpoints.admin_api import document
from valetkey.authorization.features import TABLE
from valetkey.resource.documentation.openapi import ApiIdentity
from valetkey.resource.documentation.openapi import document as of_resources
from valetkey.resource.objects import OBJECTS


def test_both_openapi_documents_describe_the_same_pagination() -> None:
    site = ApiIdentity("x", "https://api.example", "https://auth.example")
    for whole in (document("https://auth.example", "x", TABLE), of_resources(site, OBJECTS)):
        paths: Any = whole["paths"]
        pages = [
            methods["get"]
            for methods in paths.values()
            if "get" in methods and "Link" in methods["get"]["responses"]["200"].get("headers", {})
        ]
        assert pages
        for operation in pages:
            names = {parameter["name"] for parameter in operation["parameters"]}
            assert {"limit", "cursor"} <= names, operation["operationId"]
            assert "after" not in names


def test_cursor_pagination_returns_every_item_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for name in ("one", "two", "three"):
            created = await owner.call("POST", "/groups", {"name": name})
            address = f"/admin/api/v1/groups/{name}"
            assert (created.status, created.headers["location"]) == (201, address)
        seen: list[str] = []
        cursor: object = ""
        while cursor is not None:
            page = await owner.call("GET", f"/groups?limit=1{cursor and f'&cursor={cursor}'}")
            seen += [str(group["name"]) for group in page.items]
            cursor = page.json["next"]
            assert (cursor is None) is ("link" not in page.headers)
        assert sorted(seen) == ["one", "three", "two"]
        unknown = await owner.call("GET", "/groups?after=one")
        assert (unknown.status, "cursor" in str(unknown.json["detail"])) == (400, True)

    run(tmp_path, story)


def test_all_errors_of_a_body_are_returned_together(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        body = {"username": 5, "name": "x" * 900, "a/b~": 1}
        refused = await owner.call("POST", "/users", body)
        assert (refused.status, refused.json["code"]) == (400, "invalid_request")
        assert refused.json["errors"] == [
            {"pointer": "/username", "detail": "must be a string, not an integer"},
            {"pointer": "/name", "detail": "must have at most 200 characters"},
            {"pointer": "/a~1b~0", "detail": "is unknown here"},
            {"pointer": "/email", "detail": "is missing"},
        ]
        client = {"name": "x", "type": "y", "redirect_uris": [1, "https://a.example/"]}
        assert (await owner.call("POST", "/clients", client)).json["errors"] == [
            {"pointer": "/redirect_uris/0", "detail": "must be a string, not an integer"},
            {"pointer": "/type", "detail": "must be one of: confidential, public"},
        ]
        root = await owner.call("POST", "/users", [])
        assert root.json["errors"] == [{"pointer": "", "detail": "must be an object, not an array"}]

    run(tmp_path, story)


def test_location_header_of_a_created_resource_can_be_read(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        bodies = {
            "/users": {"username": "zoe", "email": "zoe@example.com"},
            "/clients": {"name": "App", "type": "public", "redirect_uris": ["https://a.example/"]},
            "/apis": {"identifier": "https://b.example", "name": "B", "scopes": {"x:y": "see it"}},
            "/webhooks": {"url": "https://receiver.example/hook", "events": []},
        }
        for path, body in bodies.items():
            created = await owner.call("POST", path, body)
            assert created.status == 201, (path, created.body)
            location = created.headers["location"].removeprefix("/admin/api/v1")
            assert location.startswith(f"{path}/")
            assert (await owner.call("GET", location)).status == 200, location

    run(tmp_path, story)
