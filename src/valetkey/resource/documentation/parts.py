"""Parts of the OpenAPI document common to all objects: problems, parameters, headers."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from valetkey.kernel.shapes.shape import Document, problem_schema
from valetkey.resource.requests.paging import LONGEST_CURSOR, MOST, USUAL

PROBLEM = problem_schema("/title")
_TAGS = r'^(\*|(W/)?"[!#-~]*")$'


def _parameter(name: str, where: str, description: str, schema: Document) -> Document:
    return {"name": name, "in": where, "description": description, "schema": schema}


def _header(name: str, description: str, schema: Document, example: str) -> Document:
    return {**_parameter(name, "header", description, schema), "example": example}


PARAMETERS: Mapping[str, Document] = {
    "if_match": _header(
        "If-Match",
        "The ETag that you read; the change is made only to that version.",
        {"type": "string", "pattern": _TAGS},
        '"1"',
    ),
    "if_none_match": _header(
        "If-None-Match",
        "The ETag that you have; 304 if it is still current.",
        {"type": "string", "pattern": _TAGS},
        '"1"',
    ),
    "idempotency_key": _header(
        "Idempotency-Key",
        "A retry with the same key gets the same response and creates nothing new.",
        {
            "type": "string",
            "pattern": "^[!-~]{1,255}$",
        },
        "6d5a8c4e-shopping",
    ),
    "prefer": _header(
        "Prefer",
        "`return=minimal` for a response without the object (RFC 7240).",
        {"type": "string"},
        "return=minimal",
    ),
}
"""The headers that a request may have."""


def in_path() -> Document:
    """Return the path parameter of one object's id."""
    made = _parameter("id", "path", "The id of the object.", {"type": "string", "minLength": 1})
    return {**made, "required": True}


def in_query(sorts: Iterable[str], filters: Mapping[str, Document]) -> list[Document]:
    """Return the query parameters of a list."""
    by = [*sorts, *(f"-{each}" for each in sorts)]
    limit = {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL}
    cursor = {"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": LONGEST_CURSOR}
    return [
        _parameter("limit", "query", "The maximum number of items.", limit),
        _parameter("sort", "query", "The order; a - before the name reverses it.", {"enum": by}),
        _parameter("cursor", "query", "`next` of the previous page.", cursor),
        *(
            _parameter(name, "query", f"Only objects with this {name}.", schema)
            for name, schema in filters.items()
        ),
    ]


def _string(description: str) -> Document:
    return {"description": description, "schema": {"type": "string"}}


HEADERS: Mapping[str, Document] = {
    "ETag": _string("Identifies this version, for If-Match and If-None-Match."),
    "Location": _string("The address of the new object."),
    "Idempotency-Replayed": {
        "description": "`true` if an earlier request with this Idempotency-Key created the object.",
        "schema": {"type": "string", "const": "true"},
    },
    "Link": _string("`rel=next` leads to the next page."),
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
    "WWW-Authenticate": _string("How to authenticate (RFC 6750)."),
}

JSON_PATCH: Document = {
    "type": "array",
    "description": "Operations in order, all or none (RFC 6902).",
    "maxItems": 100,
    "items": {
        "type": "object",
        "properties": {
            "op": {"enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": {"type": "string"},
            "from": {"type": "string"},
            "value": {},
        },
        "required": ["op", "path"],
    },
}

STATUSES: Mapping[int, str] = {
    400: "The request is invalid; `errors` names each field.",
    401: "The access token is missing, unknown, expired or revoked.",
    403: "The access token does not allow this.",
    404: "The object does not exist, or is not yours.",
    405: "This method is not supported; see the Allow header.",
    406: "The response is JSON, which Accept excludes.",
    409: "The patch cannot be applied to the current state.",
    412: "The object changed since you read it.",
    413: "The body is larger than 1 MiB.",
    414: "The address is longer than 8 KiB.",
    415: "The content type of the body is not supported.",
    422: "The Idempotency-Key was used with another body.",
    428: "If-Match is required.",
    429: "Too many requests.",
    503: "A server that this API needs is unavailable; try again in a moment.",
}
"""What each error status means in this API."""


def problem(status: int) -> Document:
    """Return the response of this status."""
    if status == HTTPStatus.REQUEST_URI_TOO_LONG:
        # Sent before the request is examined, and so with fewer details.
        return {"description": STATUSES[status]}
    made: dict[str, object] = {
        "description": STATUSES[status],
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/problem"}}
        },
    }
    names = {401: "WWW-Authenticate", 403: "WWW-Authenticate"}.get(status)
    names = "Retry-After" if status in (429, 503) else names
    if names is not None:
        made["headers"] = {names: HEADERS[names]}
    return made
