"""The OpenAPI document says what is served, all of it and nothing else."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from tests.resource.objects.books import BOOK, TASK, write_objects
from tests.resource.objects.test_declared_api import declared
from tests.resource.requests.test_lists import SONGS
from tests.sdk.issuer import API
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings, SettingsSource
from valetkey.resource.documentation.openapi import ApiIdentity, document
from valetkey.resource.objects.declared import objects_of
from valetkey.resource.scopes import scopes_of

_SITE = ApiIdentity("Acme", API, "https://auth.example")


def _objects(directory: Path) -> Settings:
    strict = TASK.replace('"reads"', '"requires_if_match": true, "reads"')
    write_objects(directory, books_py=BOOK, tasks_json=strict, songs_json=SONGS)
    resource = ResourceSettings(objects="objects")
    return Settings(resource=resource, source=SettingsSource(directory=directory))


def _document(directory: Path) -> Any:
    described = document(_SITE, objects_of(_objects(directory)))
    return msgspec.json.decode(msgspec.json.encode(described))


def _operations(described: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def test_document_describes_every_route_and_method(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            described = (await call("GET", "/v2/openapi.json", token="")).json
            served = {route.path: route.methods for route in call.app.routes}
            for path, methods in described["paths"].items():
                assert {name.upper() for name in methods} == set(served[path]) - {"HEAD"}, path
            objects = {path for path in served if re.match(r"/v2/[a-z]+(/\{id\})?$", path)}
            # A letterbox has nothing to read behind its one address.
            assert set(described["paths"]) == objects

    asyncio.run(story())


def test_every_reference_resolves(tmp_path: Path) -> None:
    described = _document(tmp_path)
    references = set(_references(described))
    assert references
    for reference in references:
        here = described
        for step in reference.removeprefix("#/").split("/"):
            here = here[step]


def test_operation_ids_are_unique_and_scopes_have_descriptions(tmp_path: Path) -> None:
    described = _document(tmp_path)
    names = [operation["operationId"] for _, _, operation in _operations(described)]
    assert len(names) == len(set(names))
    flows = described["components"]["securitySchemes"]["oauth2"]["flows"]
    user_scopes, own = flows["authorizationCode"]["scopes"], flows["clientCredentials"]["scopes"]
    scopes = {**user_scopes, **own}
    # For people the sentence they are asked with; of a client's own nobody is asked.
    assert {**user_scopes, **dict.fromkeys(own, "")} == dict(scopes_of(_objects(tmp_path)))
    assert all(scopes.values())
    for path, method, operation in _operations(described):
        for demand in operation["security"]:
            assert set(demand["oauth2"]) <= set(scopes), (path, method)


def test_examples_match_their_schemas(tmp_path: Path) -> None:
    described = _document(tmp_path)
    seen = 0
    for path, method, operation in _operations(described):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [response.get("content", {}) for response in operation["responses"].values()]
        for content in contents:
            for medium in content.values():
                for example in medium.get("examples", {}).values():
                    schema = _with(described, medium["schema"])
                    jsonschema_rs.validate(schema, example["value"])
                    seen += 1
                assert "schema" in medium, (path, method)
    assert seen > 20


def _with(described: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"components": described["components"], **schema}


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ({"title": None}, False),
        ({"state": None, "due": None}, True),
        ({"labels": ["x"]}, True),
        ({"labels": ["much too long"]}, False),
        ({"id": "x"}, False),
        ({}, True),
    ],
)
def test_a_merge_patch_may_remove_what_can_be_removed(
    tmp_path: Path, body: object, fits: bool
) -> None:
    described = _document(tmp_path)
    schema = _with(described, {"$ref": "#/components/schemas/tasks.change"})
    assert jsonschema_rs.is_valid(schema, body) is fits


def test_a_demanded_precondition_is_a_required_parameter(tmp_path: Path) -> None:
    described = _document(tmp_path)
    for path, required in (("/v2/tasks/{id}", True), ("/v2/books/{id}", False)):
        parameters = described["paths"][path]["put"]["parameters"]
        (match,) = (parameter for parameter in parameters if parameter["name"] == "If-Match")
        assert match.get("required", False) is required
        assert ("428" in described["paths"][path]["put"]["responses"]) is required


def test_list_parameters_state_sort_and_filter_fields(tmp_path: Path) -> None:
    parameters = _document(tmp_path)["paths"]["/v2/songs"]["get"]["parameters"]
    by_name = {parameter["name"]: parameter["schema"] for parameter in parameters}
    assert "-changed_at" in by_name["sort"]["enum"]
    assert by_name["live"] == {"type": "boolean"}
    assert by_name["stars"]["type"] == "integer"
