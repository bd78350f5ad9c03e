"""SCIM request parameters and responses (RFC 7644)."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct, field

from valetkey.authorization.operations.operation import Services
from valetkey.authorization.scim.endpoints.filter import Filter, parse_filter
from valetkey.authorization.scim.endpoints.schema import Resource, Schema, refuse
from valetkey.authorization.scim.operations import Provisioner
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.moment import Instant, written
from valetkey.kernel.preconditions import NO_PRECONDITIONS, Preconditions, etag_of
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.body import read_json, read_query
from valetkey.web.exchange import Request, Response

PAGE = 100
"""Maximum number of resources in one response."""

REACH = 100_000
"""The largest `startIndex`: a list must skip all resources before it."""

_MESSAGES = "urn:ietf:params:scim:api:messages:2.0:"
_TYPE = ("content-type", "application/scim+json")
_NO_STORE = ("cache-control", "no-store")
_UNAUTHORIZED = 401
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_PARAMETERS = frozenset(
    {"attributes", "excludedattributes", "filter", "sortby", "sortorder", "startindex", "count"}
)
_MOST_NAMES = 50

NO_TOKEN = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this needs the token of a SCIM credential, sent as Authorization: Bearer",
    "scim.token",
)


class Caller(Struct, frozen=True):
    """The calling directory, at one point in time; `base` is the URL of all resources.

    `user_schema` has the attributes that are declared at that instant.
    """

    services: Services
    actor: Provisioner
    now: Instant
    base: str
    user_schema: Schema


class View(Struct, frozen=True):
    """The attributes to return: `only` these, or all `without` some (section 3.9)."""

    only: frozenset[tuple[str, ...]] = frozenset()
    without: frozenset[tuple[str, ...]] = frozenset()

    def shows(self, name: str, *, is_requested: bool = False) -> bool:
        """Return whether an attribute is returned; `asked` if it is returned only on request."""
        if self.only or is_requested:
            return any(path[0] == name for path in self.only)
        return (name,) not in self.without

    def selected(self, resource: Resource) -> Resource:
        """Return the resource with the selected attributes."""
        attributes: Resource = {}
        for name, value in resource.items():
            if name in {"schemas", "id"}:
                attributes[name] = value
            elif not self.only and (name,) not in self.without:
                attributes[name] = self._parts(name, value, self.without, keep=False)
            elif (name,) in self.only:
                attributes[name] = value
            elif any(path[0] == name for path in self.only):
                attributes[name] = self._parts(name, value, self.only, keep=True)
        return attributes

    @staticmethod
    def _parts(
        name: str, value: object, named: frozenset[tuple[str, ...]], *, keep: bool
    ) -> object:
        if not any(path[0] == name for path in named):
            return value
        if isinstance(value, list):
            return [
                View._parts(name, item, named, keep=keep) for item in cast("list[object]", value)
            ]
        if not isinstance(value, dict):
            return value
        parts = cast("Resource", value)
        return {
            part: part_value
            for part, part_value in parts.items()
            if ((name, part) in named) is keep
        }


class Search(Struct, frozen=True):
    """A query for resources (section 3.4.2). `start` begins with 1; `count` is at most 100."""

    filter: Filter | None = None
    descending: bool = False
    start: int = 1
    count: int = PAGE


class ScimRequest(Struct, frozen=True):
    """A request for resources of one kind, sent alone or in a bulk request."""

    caller: Caller
    view: View = View()
    preconditions: Preconditions = NO_PRECONDITIONS
    body: object = None


class Answer(Struct, frozen=True):
    """A status, and the resource or message that is returned with it."""

    status: int
    value: Resource | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def response(self) -> Response:
        """Return the HTTP response."""
        body = b"" if self.value is None else msgspec.json.encode(self.value)
        kind = () if self.value is None else (_TYPE,)
        return Response(self.status, body, (*kind, _NO_STORE, *self.headers.items()))


class ScimErrors(Struct, frozen=True):
    """Refusals as SCIM errors (section 3.12); the reason is stored under a reference."""

    decisions: ClientDecisionQueue

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """Return the SCIM error response."""
        reference = self.decisions.enqueue(refusal, endpoint=request.path, at=request.at)
        headers: list[tuple[str, str]] = [_TYPE, _NO_STORE]
        if refusal.code.status == _UNAUTHORIZED:
            headers.append(("www-authenticate", 'Bearer realm="scim", error="invalid_token"'))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        body = msgspec.json.encode(error(refusal, reference))
        return Response(refusal.status or refusal.code.status, body, tuple(headers))


def error(refusal: Refusal, reference: str = "") -> Resource:
    """Return the error message of a refusal."""
    kind = refusal.check.partition(".")
    detail = f"{refusal.description} ({reference})" if reference else refusal.description
    members: Resource = {
        "schemas": [f"{_MESSAGES}Error"],
        "status": str(refusal.status or refusal.code.status),
        "detail": detail,
    }
    if kind[0] == "json":
        members["scimType"] = "invalidSyntax"
    elif kind[0] == "scim" and kind[2] in _TYPES:
        members["scimType"] = kind[2]
    return members


_TYPES = frozenset(
    {
        *("invalidFilter", "tooMany", "uniqueness", "mutability", "invalidSyntax"),
        *("invalidPath", "noTarget", "invalidValue"),
    }
)


def listed(resources: Sequence[Resource], total: int, start: int) -> Answer:
    """Return a list of resources (section 3.4.2)."""
    return Answer(
        200,
        {
            "schemas": [f"{_MESSAGES}ListResponse"],
            "totalResults": total,
            "startIndex": start,
            "itemsPerPage": len(resources),
            "Resources": list(resources),
        },
    )


def with_meta(
    resource: Resource, kind: str, location: str, created: Instant, changed: Instant | None
) -> Resource:
    """Return the resource with its `meta`, and its version as an ETag."""
    meta: Resource = {"resourceType": kind, "created": written(created), "location": location}
    if changed is not None:
        meta["lastModified"] = written(changed)
    return {**resource, "meta": {**meta, "version": version_of(resource)}}


def version_of(resource: Resource) -> str:
    """Return the ETag of a resource: of everything but its `meta` and its groups."""
    kept = {name: value for name, value in resource.items() if name not in {"meta", "groups"}}
    return etag_of(msgspec.json.encode(kept))


def read_view(members: Mapping[str, object], schema: Schema) -> View:
    """Return which attributes are selected. Raises Refused; unknown names are ignored."""
    only, without = (
        _attributes(members.get(name), schema) for name in ("attributes", "excludedattributes")
    )
    if members.get("attributes") and members.get("excludedattributes"):
        refuse("invalidValue", "attributes and excludedAttributes exclude each other")
    # If no name is known, only the id is returned.
    return View(only or frozenset({("id",)} if members.get("attributes") else ()), without)


def read_search(members: Mapping[str, object], schema: Schema) -> Search:
    """Return the query. Raises Refused."""
    text, by, order = members.get("filter"), members.get("sortby", "id"), members.get("sortorder")
    if text is not None and not isinstance(text, str):
        refuse("invalidFilter", "filter must be text")
    path = schema.find(by) if isinstance(by, str) else None
    if not path or path[-1].name != "id":
        refuse("invalidValue", "sortBy must be id: other attributes have no order here")
    if order not in (None, "ascending", "descending"):
        refuse("invalidValue", "sortOrder must be ascending or descending")
    start = max(1, _whole(members, "startindex", 1))
    if start > REACH:
        refuse("tooMany", f"startIndex goes up to {REACH}; use a filter")
    count = min(PAGE, max(0, _whole(members, "count", PAGE)))
    condition = parse_filter(text, schema) if text is not None else None
    return Search(condition, order == "descending", start, count)


def query_of(request: Request) -> Mapping[str, object]:
    """Return the parameters of the URL, by names in lowercase. Raises Refused."""
    form = read_query(request.query)
    members: dict[str, object] = {name.lower(): form.get(name) for name in form.names}
    return {name: value for name, value in members.items() if name in _PARAMETERS}


def search_of(request: Request) -> Mapping[str, object]:
    """Return the parameters of a SearchRequest (section 3.4.3). Raises Refused."""
    body = read_json(request.body)
    if not isinstance(body, dict):
        refuse("invalidSyntax", "the body must be a SearchRequest message")
    members = {name.lower(): value for name, value in cast("Resource", body).items()}
    return {name: value for name, value in members.items() if name in _PARAMETERS}


def _attributes(value: object, schema: Schema) -> frozenset[tuple[str, ...]]:
    if value is None:
        return frozenset()
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list):
        refuse("invalidValue", "attributes must be names")
    listed = cast("list[object]", names)
    if len(listed) > _MOST_NAMES or not all(isinstance(name, str) for name in listed):
        refuse("invalidValue", f"at most {_MOST_NAMES} attributes can be named")
    paths = [schema.find(str(name).strip(" ")) for name in listed]
    return frozenset(tuple(attribute.name for attribute in path) for path in paths if path)


def _whole(members: Mapping[str, object], name: str, default: int) -> int:
    value = members.get(name)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return refuse("invalidValue", f"{name} must be a whole number")
