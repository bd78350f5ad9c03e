"""The OpenAPI document (3.1) of the admin API, generated from the table of operations."""

from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus

import msgspec

from valetkey.authorization.model.account.user import LARGEST_UID
from valetkey.authorization.operations.operation import CURSOR, PREFIX, Operation
from valetkey.authorization.operations.table import Table
from valetkey.kernel.shapes import problem_schema

Document = dict[str, object]

_REF = "#/components/schemas/{name}"
_ALWAYS = (400, 401, 403, 413, 414, 429, 503)
_WITH_BODY = (415,)
_GUARDED = (412, 428)
_NAMED = (404,)
_TAGS = r'^(\*|(W/)?"[!#-~]*")$'

_SEGMENT: Document = {"type": "string", "pattern": r"^[A-Za-z0-9._~-]{1,100}$"}
_SEGMENTS: dict[str, Document] = {
    "uid": {"type": "integer", "minimum": 1, "maximum": LARGEST_UID},
    "grant_type": {"type": "string", "enum": ["implicit", "password"]},
}


def document(issuer: str, name: str, table: Table) -> Document:
    """Return the OpenAPI document."""
    _, components = _schemas(table)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{name}: admin API",
            "version": "1",
            "description": (
                "Every operation of the admin console, for programs. Errors are problem documents"
                " (RFC 9457) with a reference. A user with a role creates the token; it allows no"
                " more than that role allows at the time of each request. A change may contain"
                " members that the server sets, with the values that they have."
            ),
        },
        "servers": [{"url": f"{issuer}{PREFIX}"}],
        "tags": [{"name": name} for name in table.areas],
        "security": [{"token": []}],
        "paths": _paths(table),
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of this API: `vka_…`.",
                }
            },
            "schemas": {"Problem": problem_schema("/redirect_uris/0"), **components},
        },
    }


@cache
def _paths(table: Table) -> Document:
    paths: dict[str, Document] = {}
    for tag, operations in table.areas.items():
        for operation in operations:
            methods = paths.setdefault(operation.path, {})
            methods[operation.method.lower()] = _operation(tag, operation, table)
    return dict(paths)


def _operation(tag: str, operation: Operation, table: Table) -> Document:
    needs = f"Needs the permission `{operation.permission.value}`."
    made: Document = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": f"{operation.description} {needs}".strip(),
        "tags": [tag],
        "parameters": _parameters(operation),
        "responses": {**_answer(operation, table), **_refusals(operation)},
        "x-permission": operation.permission.value,
    }
    if operation.input is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(operation.input, table)}},
        }
    if operation.upload is not None:
        made["requestBody"] = {
            "required": True,
            "content": {media: {"schema": it} for media, it in operation.upload.media.items()},
        }
    return made


def _parameters(operation: Operation) -> Sequence[Document]:
    found: list[Document] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _SEGMENTS.get(name, _SEGMENT),
        }
        for name in operation.arguments
    ]
    for each in operation.query:
        schema = dict(each.schema)
        found.append(
            {
                "name": each.name,
                "in": "query",
                "description": each.description,
                "schema": schema,
            }
        )
    if operation.requires_if_match:
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "description": "The ETag of the state that was read; 412 if it has changed.",
                "schema": {"type": "string", "pattern": _TAGS},
            }
        )
    return found


def _answer(operation: Operation, table: Table) -> Document:
    made: Document = {"description": HTTPStatus(operation.status).phrase}
    headers: Document = {}
    if operation.returns_etag:
        headers["ETag"] = {"schema": {"type": "string"}, "required": True}
    if any(each.name == CURSOR for each in operation.query):
        headers["Link"] = {"schema": {"type": "string"}, "description": "`next`, where there is"}
    if operation.status == HTTPStatus.CREATED:
        headers["Location"] = {
            "schema": {"type": "string"},
            "required": True,
            "description": "The path of what was created; for a secret, of what has it.",
        }
    if headers:
        made["headers"] = headers
    if operation.media:
        made["content"] = {
            media: {"schema": {"type": "object" if media == "application/json" else "string"}}
            for media in operation.media
        }
    elif operation.output is not None:
        made["content"] = {"application/json": {"schema": _ref(operation.output, table)}}
    return {str(operation.status): made}


def _refusals(operation: Operation) -> Mapping[str, object]:
    statuses = {
        *_ALWAYS,
        *operation.error_statuses,
        *(_NAMED if operation.arguments else ()),
        *(_WITH_BODY if operation.input is not None else ()),
        *(_GUARDED if operation.requires_if_match else ()),
    }
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {
                "application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}
            },
        }
        for status in sorted(statuses)
    }


def _ref(shape: object, table: Table) -> object:
    return _schemas(table)[0][shape]


@cache
def _schemas(table: Table) -> tuple[Mapping[object, object], Mapping[str, object]]:
    """Return a reference to each shape, and the shapes by name; computed once for all rows."""
    named = [each for o in table.operations for each in (o.input, o.output) if each is not None]
    shapes = tuple(dict.fromkeys(named))
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    return dict(zip(shapes, schemas, strict=True)), components
