"""Requests for users and groups: create, read, search, replace, patch, delete (RFC 7644 3)."""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from valetkey.authorization.endpoints.scim.filter import Filter, candidates
from valetkey.authorization.endpoints.scim.groups import Groups
from valetkey.authorization.endpoints.scim.message import (
    Answer,
    ScimRequest,
    Search,
    View,
    listed,
)
from valetkey.authorization.endpoints.scim.schema import Resource, refuse
from valetkey.authorization.endpoints.scim.users import Users, not_found
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused

T = TypeVar("T")

_MOST_FOUND = 1_000
"""Maximum number of resources for which a filter is evaluated."""


Kind = Users | Groups
"""A kind of resource. Its methods run inside a transaction."""


async def search(kind: Kind, asked: ScimRequest, wanted: Search) -> Answer:
    """Search resources. Raises Refused (invalidFilter) if no index finds the candidates."""
    caller, view = asked.caller, asked.view

    def find_page(tx: Transaction) -> Answer:
        if wanted.filter is not None:
            found = _filtered(tx, kind, asked, wanted.filter)
            if wanted.descending:
                found.reverse()
            shown = found[wanted.start - 1 :][: wanted.count]
            return listed([view.of(each) for each in shown], len(found), wanted.start)
        total, offset = kind.count(tx, caller), wanted.start - 1
        page = kind.page(tx, caller, view, offset, wanted.count, back=wanted.descending)
        return listed([view.of(each) for each in page], total, wanted.start)

    return await caller.services.store.scan(find_page)


async def read(kind: Kind, asked: ScimRequest, id: str) -> Answer:
    """Read one resource. Raises Refused (404)."""

    def read_resource(tx: Transaction) -> Resource | None:
        return kind.one(tx, asked.caller, id, asked.view)

    found = await asked.caller.services.store.read(read_resource)
    if found is None:
        raise not_found()
    return _answer(200, found, asked.view)


async def create(kind: Kind, asked: ScimRequest) -> Answer:
    """Create a resource. Raises Refused."""
    # Read before the transaction, which blocks all other writes.
    create_in = kind.creating(asked)

    def create_resource(tx: Transaction) -> Resource:
        return _now(tx, kind, asked, create_in(tx))

    return _answer(201, await _write(asked, create_resource), asked.view)


async def change(kind: Kind, asked: ScimRequest, id: str, *, whole: bool) -> Answer:
    """Replace a resource (`whole`), or patch it. Raises Refused."""
    write = kind.replacing(asked) if whole else kind.patching(asked)

    def change_resource(tx: Transaction) -> Resource:
        write(tx, id)
        return _now(tx, kind, asked, id)

    return _answer(200, await _write(asked, change_resource), asked.view)


async def delete(kind: Kind, asked: ScimRequest, id: str) -> Answer:
    """Delete a resource. Raises Refused."""
    await _write(asked, lambda tx: kind.delete(tx, asked, id))
    return Answer(204)


async def perform(kind: Kind, method: str, id: str, asked: ScimRequest) -> Answer:
    """Run one change, from its own request or from a bulk request. Raises Refused."""
    if method == "POST" and not id:
        return await create(kind, asked)
    if method in {"PUT", "PATCH"} and id:
        return await change(kind, asked, id, whole=method == "PUT")
    if method == "DELETE" and id:
        return await delete(kind, asked, id)
    raise Refused.because(ErrorCode.METHOD_NOT_ALLOWED, "this path does not take that method")


async def _write(asked: ScimRequest, work: Callable[[Transaction], T]) -> T:
    caller = asked.caller
    return await caller.services.store.write(work, done_by=caller.actor.done_by)


def _filtered(tx: Transaction, kind: Kind, asked: ScimRequest, wanted: Filter) -> list[Resource]:
    equalities = candidates(wanted, kind.indexed)
    if equalities is None:
        names = ", ".join(sorted(kind.indexed))
        refuse("invalidFilter", f"a filter needs an equality with one of: {names}")
    ids = {one for each in equalities for one in kind.candidates(tx, asked.caller, each)}
    if len(ids) > _MOST_FOUND:
        refuse("tooMany", f"more than {_MOST_FOUND} resources have the values of the filter")
    fits = kind.filtering(tx, wanted)
    return [each for each in kind.some(tx, asked.caller, asked.view, sorted(ids)) if fits(each)]


def _now(tx: Transaction, kind: Kind, asked: ScimRequest, id: str) -> Resource:
    found = kind.one(tx, asked.caller, id, asked.view)
    if found is None:
        raise not_found()
    return found


def _answer(status: int, resource: Resource, view: View) -> Answer:
    meta = cast("Mapping[str, str]", resource["meta"])
    headers = {"location": meta["location"], "etag": meta["version"]}
    return Answer(status, view.of(resource), headers)
