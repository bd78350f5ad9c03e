"""Requests for resources: one, a list, and several changes in one."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar, cast

from msgspec import Struct, field

from valetkey.authorization.scim.endpoints.filter import Filter, candidates
from valetkey.authorization.scim.endpoints.groups import Groups
from valetkey.authorization.scim.endpoints.message import (
    Answer,
    ScimRequest,
    Search,
    View,
    error,
    listed,
)
from valetkey.authorization.scim.endpoints.schema import Resource, refuse
from valetkey.authorization.scim.endpoints.users import Users, not_found
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.preconditions import preconditions
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

T = TypeVar("T")

_MOST_FOUND = 1_000
"""Maximum number of resources for which a filter is evaluated."""


Kind = Users | Groups
"""A kind of resource. Its methods run inside a transaction."""


async def search(kind: Kind, request: ScimRequest, search: Search) -> Answer:
    """Search resources. Raises Refused (invalidFilter) if no index finds the candidates."""
    caller, view = request.caller, request.view

    def find_page(tx: Transaction) -> Answer:
        if search.filter is not None:
            resources = _filtered(tx, kind, request, search.filter)
            if search.descending:
                resources.reverse()
            shown = resources[search.start - 1 :][: search.count]
            return listed(
                [view.selected(resource) for resource in shown], len(resources), search.start
            )
        total, offset = kind.count(tx, caller), search.start - 1
        page = kind.page(tx, caller, view, offset, search.count, back=search.descending)
        return listed([view.selected(resource) for resource in page], total, search.start)

    return await caller.services.store.scan(find_page)


async def read(kind: Kind, request: ScimRequest, id: str) -> Answer:
    """Read one resource. Raises Refused (404)."""

    def read_resource(tx: Transaction) -> Resource | None:
        return kind.one(tx, request.caller, id, request.view)

    resource = await request.caller.services.store.read(read_resource)
    if resource is None:
        raise not_found()
    return _answer(200, resource, request.view)


async def create(kind: Kind, request: ScimRequest) -> Answer:
    """Create a resource. Raises Refused."""
    # Read before the transaction, which blocks all other writes.
    create_in = kind.creating(request)

    def create_resource(tx: Transaction) -> Resource:
        return _now(tx, kind, request, create_in(tx))

    return _answer(201, await _write(request, create_resource), request.view)


async def change(kind: Kind, request: ScimRequest, id: str, *, whole: bool) -> Answer:
    """Replace a resource (`whole`), or patch it. Raises Refused."""
    write = kind.replacing(request) if whole else kind.patching(request)

    def change_resource(tx: Transaction) -> Resource:
        write(tx, id)
        return _now(tx, kind, request, id)

    return _answer(200, await _write(request, change_resource), request.view)


async def delete(kind: Kind, request: ScimRequest, id: str) -> Answer:
    """Delete a resource. Raises Refused."""
    await _write(request, lambda tx: kind.delete(tx, request, id))
    return Answer(204)


async def perform(kind: Kind, method: str, id: str, request: ScimRequest) -> Answer:
    """Run one change, from its own request or from a bulk request. Raises Refused."""
    if method == "POST" and not id:
        return await create(kind, request)
    if method in {"PUT", "PATCH"} and id:
        return await change(kind, request, id, whole=method == "PUT")
    if method == "DELETE" and id:
        return await delete(kind, request, id)
    raise Refused.because(ErrorCode.METHOD_NOT_ALLOWED, "this path does not take that method")


async def _write(request: ScimRequest, work: Callable[[Transaction], T]) -> T:
    caller = request.caller
    return await caller.services.store.write(work, done_by=caller.actor.done_by)


def _filtered(
    tx: Transaction, kind: Kind, request: ScimRequest, condition: Filter
) -> list[Resource]:
    equalities = candidates(condition, kind.indexed)
    if equalities is None:
        names = ", ".join(sorted(kind.indexed))
        refuse("invalidFilter", f"a filter needs an equality with one of: {names}")
    ids = {one for equality in equalities for one in kind.candidates(tx, request.caller, equality)}
    if len(ids) > _MOST_FOUND:
        refuse("tooMany", f"more than {_MOST_FOUND} resources have the values of the filter")
    fits = kind.filtering(tx, condition)
    return [
        resource
        for resource in kind.some(tx, request.caller, request.view, sorted(ids))
        if fits(resource)
    ]


def _now(tx: Transaction, kind: Kind, request: ScimRequest, id: str) -> Resource:
    resource = kind.one(tx, request.caller, id, request.view)
    if resource is None:
        raise not_found()
    return resource


def _answer(status: int, resource: Resource, view: View) -> Answer:
    meta = cast("Mapping[str, str]", resource["meta"])
    headers = {"location": meta["location"], "etag": meta["version"]}
    return Answer(status, view.selected(resource), headers)


MOST_OPERATIONS = 100
"""Maximum number of operations of one request."""

MOST_BYTES = 1024 * 1024
"""Maximum size of one request, in bytes."""

_MESSAGES = "urn:ietf:params:scim:api:messages:2.0:"
_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REFERENCE = "bulkId:"

Perform = Callable[[str, str, str, ScimRequest], Awaitable[Answer]]
"""Runs one change: method, plural of the kind, id or "", and the request."""


class Operation(Struct, frozen=True):
    """One operation; `path` begins with a slash, `references` are the bulk ids that it names."""

    method: str
    path: str
    bulk_id: str
    version: str = ""
    data: object = None
    references: frozenset[str] = frozenset()


class _Progress(Struct):
    """The ids by bulk id, the responses, and how many operations failed so far."""

    ids: dict[str, str] = field(default_factory=dict[str, str])
    answers: list[Resource] = field(default_factory=list[Resource])
    errors: int = 0


async def run_bulk(request: ScimRequest, perform: Perform) -> Answer:
    """Run the operations in the order of their references. Raises Refused."""
    operations, most_errors = _read(request.body)
    progress = _Progress()
    for operation in in_order(operations):
        await _one(request, operation, perform, progress)
        if most_errors and progress.errors >= most_errors:
            break
    return Answer(200, {"schemas": [f"{_MESSAGES}BulkResponse"], "Operations": progress.answers})


def in_order(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Yield the operations as they are listed, each after those that it refers to.

    If all that are left wait for one another, the first of them is next. Each reference is looked
    at once.
    """
    named = {
        bulk_operation.bulk_id: at
        for at, bulk_operation in enumerate(operations)
        if bulk_operation.bulk_id
    }
    waits: dict[int, int] = {}
    wanted_by: dict[int, list[int]] = {}
    for at, operation in enumerate(operations):
        needed = [named[name] for name in operation.references if name in named]
        waits[at] = len(needed)
        for position in needed:
            wanted_by.setdefault(position, []).append(at)
    ready = [at for at, count in waits.items() if not count]
    left = iter(range(len(operations)))
    while waits:
        while ready and ready[0] not in waits:
            heappop(ready)
        at = heappop(ready) if ready else next(position for position in left if position in waits)
        del waits[at]
        yield operations[at]
        for position in wanted_by.get(at, ()):
            if position in waits:
                waits[position] -= 1
                if not waits[position]:
                    heappush(ready, position)


async def _one(
    request: ScimRequest, operation: Operation, perform: Perform, progress: _Progress
) -> None:
    resource: Resource = {"method": operation.method}
    if operation.bulk_id:
        resource["bulkId"] = operation.bulk_id
    try:
        for needed in sorted(operation.references):
            if needed not in progress.ids:
                refuse("invalidValue", f"no operation created bulkId:{needed[:80]}")
        plural, _, name = _resolved(operation.path, progress.ids)[1:].partition("/")
        preconditions_held = (
            preconditions([operation.version], ()) if operation.version else (request.preconditions)
        )
        body = _replaced(operation.data, progress.ids)
        one = replace(request, preconditions=preconditions_held, body=body)
        answer = await perform(operation.method, plural, name, one)
        resource["status"] = str(answer.status)
        location = answer.headers.get("location") or f"{request.caller.base}/{plural}/{name}"
        resource["location"] = location
        if "etag" in answer.headers:
            resource["version"] = answer.headers["etag"]
        if operation.bulk_id:
            progress.ids[operation.bulk_id] = location.rpartition("/")[2]
    except Refused as refused:
        progress.errors += 1
        status = refused.refusal.status or refused.refusal.code.status
        resource |= {"status": str(status), "response": error(refused.refusal)}
        if operation.method != "POST":
            resource["location"] = f"{request.caller.base}{operation.path}"
    progress.answers.append(resource)


def _read(body: object) -> tuple[Sequence[Operation], int]:
    if not isinstance(body, dict):
        refuse("invalidSyntax", "the body must be a BulkRequest message")
    members = {name.lower(): value for name, value in cast("Resource", body).items()}
    schemas, listed = members.get("schemas"), members.get("operations")
    if not isinstance(schemas, list) or f"{_MESSAGES}BulkRequest" not in schemas:
        refuse("invalidSyntax", f"schemas must hold {_MESSAGES}BulkRequest")
    if not isinstance(listed, list) or not listed:
        refuse("invalidSyntax", "Operations must be a list of at least one operation")
    raw_operations = cast("list[object]", listed)
    if len(raw_operations) > MOST_OPERATIONS:
        raise Refused.because(
            ErrorCode.CONTENT_TOO_LARGE,
            f"a bulk request takes at most {MOST_OPERATIONS} operations",
            "scim.bulk",
        )
    most = members.get("failonerrors", 0)
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        refuse("invalidValue", "failOnErrors must be a whole number")
    operations = [_operation(raw_operation) for raw_operation in raw_operations]
    named = [operation.bulk_id for operation in operations if operation.bulk_id]
    if len(set(named)) != len(named):
        refuse("invalidValue", "a bulkId is used twice")
    return operations, most


def _operation(member: object) -> Operation:
    if not isinstance(member, dict):
        refuse("invalidSyntax", "an operation must be an object")
    of = {name.lower(): value for name, value in cast("Resource", member).items()}
    texts = [of.get(name, "") for name in ("method", "path", "bulkid", "version")]
    method, path, bulk_id, version = (text if isinstance(text, str) else "\0" for text in texts)
    if "\0" in {method, path, bulk_id, version} or method.upper() not in _METHODS:
        refuse("invalidSyntax", "an operation needs method and path, and bulkId as text")
    if not path.startswith("/") or len(bulk_id) > 200:  # noqa: PLR2004 - as long as other names
        refuse("invalidSyntax", "a path begins with a slash; a bulkId has at most 200 characters")
    if method.upper() == "POST" and not bulk_id:
        refuse("invalidSyntax", "POST needs a bulkId")
    data = of.get("data")
    named = frozenset(references((path.rpartition("/")[2], data)))
    return Operation(method.upper(), path, bulk_id, version, data, named)


def references(value: object) -> Iterator[str]:
    """Yield the bulk ids that the texts of a value refer to; each text is looked at once."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if item.startswith(_REFERENCE):
                yield item.removeprefix(_REFERENCE)
        elif isinstance(item, dict):
            stack.extend(cast("Resource", item).values())
        elif isinstance(item, list | tuple):
            stack.extend(cast("Sequence[object]", item))


def _replaced(value: object, ids: dict[str, str]) -> object:
    if isinstance(value, str):
        return _resolved(value, ids)
    if isinstance(value, dict):
        return {name: _replaced(member, ids) for name, member in cast("Resource", value).items()}
    if isinstance(value, list):
        return [_replaced(item, ids) for item in cast("list[object]", value)]
    return value


def _resolved(text: str, ids: dict[str, str]) -> str:
    before, mark, name = text.rpartition(_REFERENCE)
    if mark and name in ids and (not before or before.endswith("/")):
        return f"{before}{ids[name]}"
    return text
