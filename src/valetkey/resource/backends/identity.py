"""Users and clients stored by the authorization server, read and changed over HTTP."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret
from valetkey.kernel.shapes import Document, FieldError, Invalid
from valetkey.resource.backends.records import NOT_FOUND, Listed, Representation, Visit
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.requests.patches import Patch
from valetkey.resource.requests.representation import NO_PRECONDITIONS, Preconditions, etag_of
from valetkey.resource.resource_object import NOTHING, ResourceObject, Verb, check_read_only
from valetkey.resource.storage.objects import IdempotencyKey, ListPosition
from valetkey.sdk.fetch import Answer, Credential, Fetcher, Unreachable

AWAY = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "this is kept by the authorization server, which does not answer at the moment",
    "identity.unreachable",
    retry_after=5,
)
"""503 while the authorization server is unreachable; this server's own objects stay available."""

_OVERTAKEN = Refusal(
    ErrorCode.CONFLICT,
    "others change this all the time; read it again and try once more",
    "identity.overtaken",
)
_TRIES = 10
_OK = 200
_CODES: Mapping[str, ErrorCode] = MappingProxyType(
    {
        code.value: code
        for code in (
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REDIRECT_URI,
            ErrorCode.INVALID_CLIENT_METADATA,
            ErrorCode.INVALID_TOKEN,
            ErrorCode.INSUFFICIENT_SCOPE,
            ErrorCode.FORBIDDEN,
            ErrorCode.NOT_FOUND,
            ErrorCode.CONFLICT,
            ErrorCode.SLOW_DOWN,
        )
    }
)


class Question(Struct, frozen=True):
    """A request on behalf of the bearer of `token`; `id` only for objects with several records."""

    token: Secret
    object: str
    verb: Verb
    id: str = ""
    changes: Document | None = None
    expected: Document | None = None
    """The record that the changes are based on; another record is not changed."""


class IdentityAnswer(Struct, frozen=True):
    """A response of the authorization server: one record (None after deletion), or several."""

    record: dict[str, object] | None = None
    records: tuple[dict[str, object], ...] = ()


class Declined(Refused):
    """The authorization server refused, and recorded the reason under `reference`."""

    def __init__(self, refusal: Refusal, reference: str) -> None:
        """Store the refusal and its reference."""
        super().__init__(refusal)
        self.reference = reference


class _Error(Struct, frozen=True):
    error: str
    error_description: str = ""
    reference: str = ""
    errors: tuple[FieldError, ...] = ()


class Identity(Struct, frozen=True):
    """Call the authorization server with this server's own credential and the caller's token."""

    url: str
    fetch: Fetcher
    credential: Credential

    async def send_request(self, question: Question) -> IdentityAnswer:
        """Send the request. Raises Declined, Invalid, and Refused (503) without a response."""
        members: dict[str, object] = {
            "access_token": question.token.reveal(),
            "object": question.object,
            "verb": question.verb.value,
        }
        if question.id:
            members["id"] = question.id
        if question.changes is not None:
            members["changes"] = question.changes
        if question.expected is not None:
            members["expected"] = question.expected
        try:
            answer = await self.fetch.post_json(
                self.url, msgspec.json.encode(members), self.credential
            )
        except Unreachable as error:
            raise Refused(AWAY) from error
        return _read(answer)


def _read(answer: Answer) -> IdentityAnswer:
    try:
        if answer.status == _OK:
            return msgspec.json.decode(answer.body, type=IdentityAnswer)
        refusal = msgspec.json.decode(answer.body, type=_Error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(AWAY) from error
    code = _CODES.get(refusal.error)
    # Anything else is a problem between the two servers: a wrong credential, a fault, an older
    # version.
    if code is None or code.status != answer.status:
        raise Refused(AWAY)
    if refusal.errors:
        raise Invalid(refusal.errors, refusal.reference)
    raise Declined(Refusal(code, refusal.error_description, "identity.declined"), refusal.reference)


class IdentityRecords(Struct, frozen=True):
    """Objects that the authorization server stores, as the API shows them."""

    identity: Identity
    kind: ResourceObject

    async def page(self, visit: Visit, page_request: PageRequest) -> Listed:
        """Return a page in creation order; the authorization server sends all records."""
        answer = await self._ask(visit, Verb.LIST)
        placed = sorted(
            ((_place(record), record) for record in answer.records),
            key=lambda pair: _order(pair[0]),
            reverse=page_request.descending,
        )
        rest = [pair for pair in placed if _is_behind(pair[0], page_request)]
        shown = rest[: page_request.limit]
        more = shown[-1][0] if len(rest) > page_request.limit else None
        return Listed(tuple(_record(record) for _, record in shown), more)

    async def find(self, visit: Visit, id: str) -> Representation:
        """Return the record. Raises Refused (404)."""
        return _only(await self._ask(visit, Verb.READ, id))

    async def create(
        self, visit: Visit, fields: Document, key: IdempotencyKey | None
    ) -> Representation:
        """Raise always: these records are created at the authorization server."""
        raise Refused(NOT_FOUND)

    async def replace(
        self,
        visit: Visit,
        id: str,
        fields: Document,
        preconditions: Preconditions,
        read_only: Document = NOTHING,
    ) -> Representation:
        """Replace all writable fields by `fields`."""
        return await self._write(
            visit, Verb.REPLACE, id, preconditions, lambda _: fields, read_only
        )

    async def change(
        self,
        visit: Visit,
        id: str,
        patch: Patch,
        preconditions: Preconditions,
        read_only: Document = NOTHING,
    ) -> Representation:
        """Apply `patch`; only the fields that change are sent."""
        alone = patch.alone(self.kind)
        if alone is not None:
            return await self._write(
                visit, Verb.CHANGE, id, preconditions, lambda _: alone, read_only
            )

        def changes(record: Document) -> Document:
            before = self.kind.fields_of(record)
            after = patch.applied(self.kind, before)
            return {name: after[name] for name in after if after[name] != before.get(name)}

        return await self._write(
            visit, Verb.CHANGE, id, preconditions, changes, read_only, reads=True
        )

    async def delete(self, visit: Visit, id: str, preconditions: Preconditions) -> None:
        """Delete the record."""
        await self._check(visit, id, preconditions)
        await self._ask(visit, Verb.DELETE, id)

    async def _write(
        self,
        visit: Visit,
        verb: Verb,
        id: str,
        preconditions: Preconditions,
        changes: Callable[[Document], Document],
        read_only: Document,
        *,
        reads: bool = False,
    ) -> Representation:
        """Apply `changes`, on condition that the record is the one they were computed from."""
        for _ in range(_TRIES):
            before: Document | None = None
            if reads or read_only or preconditions != NO_PRECONDITIONS:
                representation = await self.find(visit, id)
                preconditions.check(representation.etag)
                before = msgspec.json.decode(representation.body, type=dict[str, object])
                check_read_only(read_only, before)
            try:
                answer = await self._ask(visit, verb, id, changes(before or {}), before)
            except Declined as declined:
                # Another request changed the record first; the preconditions may no longer hold.
                if declined.refusal.code is ErrorCode.CONFLICT:
                    continue
                raise
            return _only(answer)
        raise Refused(_OVERTAKEN)

    async def _check(self, visit: Visit, id: str, preconditions: Preconditions) -> None:
        if preconditions != NO_PRECONDITIONS:
            preconditions.check((await self.find(visit, id)).etag)

    async def _ask(
        self,
        visit: Visit,
        verb: Verb,
        id: str = "",
        changes: Document | None = None,
        expected: Document | None = None,
    ) -> IdentityAnswer:
        return await self.identity.send_request(
            Question(visit.token, self.kind.name, verb, id, changes, expected)
        )


def _only(answer: IdentityAnswer) -> Representation:
    if answer.record is None:
        raise Refused(AWAY)
    return _record(answer.record)


def _record(record: dict[str, object]) -> Representation:
    body = msgspec.json.encode(record)
    return Representation(_place(record).id, body, etag_of(body))


def _order(position: ListPosition) -> tuple[int, str]:
    return position.value if isinstance(position.value, int) else 0, position.id


def _is_behind(position: ListPosition, page_request: PageRequest) -> bool:
    if page_request.after is None:
        return True
    here, there = _order(position), _order(page_request.after)
    return here < there if page_request.descending else here > there


def _place(record: dict[str, object]) -> ListPosition:
    created_at, name = record.get("created_at"), record.get("id")
    return ListPosition(
        created_at if isinstance(created_at, int) else 0,
        name if isinstance(name, str) else "",
    )
