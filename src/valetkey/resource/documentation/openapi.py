"""The OpenAPI document (3.1) of this API, derived from its objects alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus

from msgspec import Struct

from valetkey.kernel.shapes import Document, problem_schema
from valetkey.resource.documentation import schemas
from valetkey.resource.documentation.schemas import Action, actions, of_kind, of_schema
from valetkey.resource.requests.paging import LONGEST, LONGEST_CURSOR, MOST, USUAL
from valetkey.resource.requests.representation import JSON, JSON_PATCH, MERGE_PATCH
from valetkey.resource.resource_object import (
    LARGEST,
    Backend,
    OwnedBy,
    ResourceObject,
    Scalar,
    Verb,
    without_null,
)
from valetkey.resource.storage.objects import CREATED

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
    by = [*sorts, *(f"-{sort}" for sort in sorts)]
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

JSON_PATCH_SCHEMA: Document = {
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


_NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
_READING = (400, 401, 403, 404, 406, 429, 503)
_WRITING = (*_READING, 413, 415)
_OF_VERB = {
    Verb.LIST: (400, 401, 403, 406, 414, 429, 503),
    Verb.READ: _READING,
    Verb.CREATE: (400, 401, 403, 406, 413, 415, 422, 429, 503),
    Verb.REPLACE: (*_WRITING, 412),
    Verb.CHANGE: (*_WRITING, 409, 412),
    Verb.DELETE: (*_READING, 412),
}


class ApiIdentity(Struct, frozen=True):
    """The API's address and name, and the authorization server it trusts."""

    name: str
    url: str
    auth_url: str
    accent: str = "#2456d6"


def document(site: ApiIdentity, objects: Sequence[ResourceObject]) -> Document:
    """Return the whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{site.name} API",
            "version": "2",
            "description": (
                "Errors are problem documents (RFC 9457) with a reference. A POST without a body"
                " responds as GET does. A PUT or a merge patch may contain members that the server"
                " sets, with the values that they have."
            ),
        },
        "servers": [{"url": site.url}],
        "tags": [{"name": kind.name, "description": kind.reads} for kind in objects],
        "paths": _paths(objects),
        "components": {
            "securitySchemes": _security_schemes(site, objects),
            "schemas": {
                "problem": PROBLEM,
                "json_patch": JSON_PATCH_SCHEMA,
                **{name: schema for kind in objects for name, schema in _schemas(kind)},
            },
        },
    }


def _security_schemes(site: ApiIdentity, objects: Sequence[ResourceObject]) -> Document:
    def scopes(owner: OwnedBy) -> dict[str, str]:
        wide = {"read": "read all your data", "write": "change all your data"}
        descriptions = wide if owner is OwnedBy.USER else {}
        for kind in objects:
            if kind.owned_by is owner:
                descriptions[f"{kind.name}:read"] = kind.reads
                if kind.writes:
                    descriptions[f"{kind.name}:write"] = kind.writes
        return descriptions

    token = f"{site.auth_url}/oauth/token"
    return {
        "oauth2": {
            "type": "oauth2",
            "flows": {
                "authorizationCode": {
                    "authorizationUrl": f"{site.auth_url}/oauth/authorize",
                    "tokenUrl": token,
                    "refreshUrl": token,
                    "scopes": scopes(OwnedBy.USER),
                },
                "clientCredentials": {
                    "tokenUrl": f"{site.auth_url}/token",
                    "scopes": scopes(OwnedBy.CLIENT),
                },
            },
        }
    }


def _schemas(kind: ResourceObject) -> Iterator[tuple[str, Document]]:
    yield kind.name, schemas.shown(kind)
    if Verb.LIST in kind.verbs:
        yield f"{kind.name}.list", schemas.listed(kind)
    for verb, made in (
        (Verb.CREATE, schemas.created),
        (Verb.REPLACE, schemas.replaced),
        (Verb.CHANGE, schemas.patched),
    ):
        if verb in kind.verbs:
            yield f"{kind.name}.{verb}", made(kind)


def _paths(objects: Sequence[ResourceObject]) -> Document:
    paths: dict[str, dict[str, object]] = {}
    for kind in objects:
        for action in actions(kind):
            methods = paths.setdefault(action.path, {})
            methods[action.method.lower()] = _operation(action)
            if action.verb is Verb.LIST or (kind.singleton and action.verb is Verb.READ):
                methods.setdefault("post", _reading_post(action))
            if action.verb is Verb.CREATE and Verb.LIST in kind.verbs:
                methods["post"] = _either_post(action)
    return paths


def _operation(action: Action) -> dict[str, object]:
    kind, verb = action.kind, action.verb
    made: dict[str, object] = {
        "operationId": action.name,
        "summary": action.summary,
        "tags": [kind.name],
        "security": [{"oauth2": [scope]} for scope in kind.scopes(verb)],
        "parameters": _parameters(action),
        "responses": {**_answers(action), **_problems(action)},
    }
    if action.has_body:
        made["requestBody"] = _body(action)
    if kind.deprecated is not None:
        made["deprecated"] = True
    return made


def _reading_post(action: Action) -> dict[str, object]:
    made = _operation(action)
    made["operationId"] = f"{action.name}_by_post"
    made["summary"] = f"{action.summary}, by POST without a body"
    made["parameters"] = []
    answers = {status: answer for status, answer in _answers(action).items() if status != "304"}
    made["responses"] = {**answers, **_problems(action, 405)}
    return made


def _either_post(action: Action) -> dict[str, object]:
    """Return POST on a collection: with a body it creates, without one it lists."""
    made = _operation(action)
    kind = action.kind
    listed = {
        "description": "The list, where nothing was sent.",
        "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.name}.list"}}},
    }
    made["responses"] = {"200": listed, **_answers(action), **_problems(action)}
    made["requestBody"] = {**_body(action), "required": False}
    return made


def _parameters(action: Action) -> list[Document]:
    kind, made = action.kind, list[Document]()
    if action.has_id:
        made.append(in_path())
    if action.verb is Verb.LIST:
        fields = schemas.properties(schemas.shown(kind))
        filters = {name: _scalar(fields[name]) for name in kind.filter}
        made += in_query((CREATED, *kind.sort), filters)
    if action.verb in (Verb.LIST, Verb.READ):
        made.append(PARAMETERS["if_none_match"])
    if action.verb is Verb.CREATE:
        made.append(PARAMETERS["idempotency_key"])
    if action.has_preconditions:
        if_match = PARAMETERS["if_match"]
        made.append({**if_match, "required": True} if kind.requires_if_match else if_match)
    if action.has_body:
        made.append(PARAMETERS["prefer"])
    return made


def _scalar(schema: Document) -> Document:
    """Return a field's schema in a query: the values that it can have and a query can spell."""
    scalar, own = schemas.scalar(schema), without_null(schema)
    made: dict[str, object] = {name: value for name, value in own.items() if name != "default"}
    made["type"] = scalar
    if scalar is Scalar.INTEGER:
        made["minimum"] = max(_number(own.get("minimum")), -LARGEST)
        made["maximum"] = min(_number(own.get("maximum"), LARGEST), LARGEST)
    elif scalar is Scalar.STRING and "enum" not in own:
        made["maxLength"] = int(min(_number(own.get("maxLength"), LONGEST), LONGEST))
        made.setdefault("pattern", _NO_CONTROLS)
    return made


def _number(value: object, otherwise: float = -LARGEST) -> float:
    return value if isinstance(value, int | float) else otherwise


def _body(action: Action) -> Document:
    kind, verb = action.kind, action.verb
    schema = {"$ref": f"#/components/schemas/{kind.name}.{verb}"}
    media = (
        {"schema": schema}
        if action.example is None
        else {
            "schema": schema,
            "examples": {"example": {"value": action.example}},
        }
    )
    content: dict[str, object] = {JSON: media}
    if verb is Verb.CHANGE:
        content = {
            MERGE_PATCH: media,
            JSON: media,
            JSON_PATCH: {"schema": {"$ref": "#/components/schemas/json_patch"}},
        }
    return {"required": True, "content": content}


def _listed(kind: ResourceObject) -> str:
    return f"The list, of the newest {kind.newest:,} at most." if kind.newest else "The list."


def _answers(action: Action) -> dict[str, Document]:
    kind = action.kind
    if action.verb is Verb.DELETE:
        return {"204": {"description": "Deleted."}}
    name = f"{kind.name}.list" if action.verb is Verb.LIST else kind.name
    etag = {"ETag": HEADERS["ETag"]}
    shown: dict[str, object] = {
        "description": _listed(kind) if action.verb is Verb.LIST else "The object.",
        "headers": etag,
        "content": {JSON: _shown(action, name)},
    }
    match action.verb:
        case Verb.CREATE:
            more = {name: HEADERS[name] for name in ("Location", "Idempotency-Replayed")}
            content = {JSON: {**_shown(action, name), "schema": _whole_or_id(name)}}
            return {"201": {**shown, "headers": {**etag, **more}, "content": content}}
        case Verb.LIST:
            link = {"Link": HEADERS["Link"]}
            return {"200": {**shown, "headers": {**etag, **link}}, "304": _SAME}
        case Verb.READ:
            return {"200": shown, "304": _SAME}
        case _:
            return {"200": shown, "204": {"description": "Changed; no body, as `Prefer` asked."}}


def _whole_or_id(name: str) -> Document:
    only = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    return {"anyOf": [{"$ref": f"#/components/schemas/{name}"}, only]}


_SAME: Document = {"description": "Not modified."}


def _shown(action: Action, name: str) -> Document:
    schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    if action.kind.home is Backend.HERE and of_kind(action.kind) is None:
        return schema
    one = of_schema(schemas.shown(action.kind))
    value = {"items": [one], "next": None} if action.verb is Verb.LIST else one
    return {**schema, "examples": {"example": {"value": value}}}


def _problems(action: Action, *more: int) -> dict[str, Document]:
    statuses = {*_OF_VERB[action.verb], *more}
    if action.kind.requires_if_match and action.has_preconditions:
        statuses.add(428)
    if action.kind.singleton:
        statuses.discard(404)
    return {str(status): problem(status) for status in sorted(statuses)}
