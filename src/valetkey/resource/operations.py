"""List, read, create, replace, change and delete, implemented once for every object."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime
from email.utils import format_datetime
from http import HTTPStatus

import msgspec
from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.kernel.shapes import Invalid
from valetkey.kernel.tracing import RequestSamples
from valetkey.resource.backends.identity import Declined
from valetkey.resource.backends.records import NOT_FOUND, Records, Representation, Visit
from valetkey.resource.problem import Cors, Problems
from valetkey.resource.requests.allowance import Allowances
from valetkey.resource.requests.paging import Pages
from valetkey.resource.requests.patches import MergePatch, PatchRefused
from valetkey.resource.requests.representation import (
    PATCHES,
    REQUIRED,
    Preconditions,
    Preference,
    applied,
    check_accept,
    etag_of,
    read_document,
    read_idempotency_key,
    read_patch,
    read_preconditions,
    read_preference,
)
from valetkey.resource.resource_object import NOTHING, Backend, OwnedBy, ResourceObject, Verb
from valetkey.resource.storage.objects import Owner
from valetkey.sdk import Caller, Protection, demand, read_bearer
from valetkey.sdk.upstream.uses import Uses
from valetkey.web.exchange import Endpoint, Pairs, Request, Response, conditional
from valetkey.web.router import Body, Route

_JSON = ("content-type", "application/json")
# Only the caller may store the response, and must revalidate it each time with the ETag.
_PRIVATE = (("cache-control", "private, no-cache"), ("vary", "authorization, accept"))
_REPLAYED = ("idempotency-replayed", "true")
# Looked up once: reading an enumeration member costs more than the call it is for.
_OK = HTTPStatus.OK
_NO_OBJECT = Refusal(
    ErrorCode.INVALID_REQUEST, "a field is not as it should be: see errors", "body.invalid"
)
_CONDITIONS = frozenset((b"if-match", b"if-none-match"))
_UNSEEN = Secret("")
_SEVERAL = Refusal(ErrorCode.INVALID_REQUEST, "this takes no query parameters", "query.unknown")

Act = Callable[[Request, Visit], Awaitable[Response]]


class Operations(Struct, frozen=True):
    """The operations on one kind of object over HTTP."""

    kind: ResourceObject
    records: Records
    protection: Protection
    problems: Problems
    pages: Pages
    url: str
    """The base of every Location and Link: `{api_url}/v2/<name>`."""
    uses: Uses
    samples: RequestSamples
    allowances: Allowances | None = None

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of this kind: one for a singleton, two otherwise."""
        path = f"/v2/{self.kind.name}"
        if self.kind.singleton:
            own = {**self._reading(path, Verb.READ), **self._writing(path)}
            return (self._route(path, own),)
        object_path = f"{path}/{{id}}"
        one = {**self._reading(object_path, Verb.READ, post=False), **self._writing(object_path)}
        both = (self._route(path, self._reading(path, Verb.LIST)), self._route(object_path, one))
        return tuple(route for route in both if route.methods)

    def _route(self, path: str, methods: Mapping[str, Endpoint]) -> Route:
        cors = self.cors.headers if self.cors.origins else None
        return Route(path, methods, self.problems.refuse_at(path), body=Body.ANY, cors=cors)

    @property
    def cors(self) -> Cors:
        """Return which origins may read the responses."""
        return self.problems.cors

    @property
    def notices(self) -> Pairs:
        """Return the headers about this object's deprecation and removal (RFC 9745, RFC 8594)."""
        headers: list[tuple[str, str]] = []
        if self.kind.deprecated is not None:
            headers.append(("deprecation", f"@{int(_midnight(self.kind.deprecated).timestamp())}"))
        if self.kind.sunset is not None:
            headers.append(("sunset", format_datetime(_midnight(self.kind.sunset), usegmt=True)))
        return tuple(headers)

    def _reading(self, path: str, verb: Verb, *, post: bool = True) -> dict[str, Endpoint]:
        create = self._endpoint(path, Verb.CREATE, self._create)
        if verb not in self.kind.verbs:
            creates = post and Verb.CREATE in self.kind.verbs
            return {"POST": create} if creates else {}
        read = self._endpoint(path, verb, self._list if verb is Verb.LIST else self._read)
        methods: dict[str, Endpoint] = {"GET": read}
        if post:
            methods["POST"] = _either(create, read)
        return methods

    def _writing(self, path: str) -> dict[str, Endpoint]:
        acts: tuple[tuple[str, Verb, Act], ...] = (
            ("PUT", Verb.REPLACE, self._replace),
            ("PATCH", Verb.CHANGE, self._change),
            ("DELETE", Verb.DELETE, self._delete),
        )
        return {
            method: self._endpoint(path, verb, act)
            for method, verb, act in acts
            if verb in self.kind.verbs
        }

    def _endpoint(self, path: str, verb: Verb, act: Act) -> Endpoint:
        scopes = self.kind.scopes(verb)
        allowed = verb in self.kind.verbs
        notices = self.notices

        async def answer(request: Request) -> Response:
            headers: Pairs = notices
            try:
                token: Secret = read_bearer(request.headers.all("authorization"))
                now: Instant = request.at
                caller = await self.protection.caller(token, now)
                if self.allowances is not None:
                    left = self.allowances.take(f"{caller.client_id} {caller.subject}", now)
                    headers = (*headers, *left.headers)
                    if left.refusal is not None:
                        raise Refused(left.refusal)
                demand(caller, *scopes)
                self.uses.record(caller, scopes, now)
                visit = Visit(caller, token, self._owner(caller, scopes), now)
                if not allowed:
                    response = self._cannot_create(request, path)
                else:
                    check_accept(request.headers)
                    bare_response = conditional(request, await act(request, visit))
                    response = self.cors.opened(request, bare_response)
                    if response.status < HTTPStatus.BAD_REQUEST and self.samples.due(
                        caller.client_id, request.method, path, now
                    ):
                        self._sample(path, request, caller, scopes, response.status)
            except Invalid as invalid:
                response = self.problems.answer(
                    request,
                    _NO_OBJECT,
                    endpoint=path,
                    errors=invalid.errors,
                    reference=invalid.reference,
                )
            except Refused as refused:
                response = self.problems.answer(
                    request,
                    refused.refusal,
                    endpoint=path,
                    scope=scopes[0],
                    errors=refused.errors if isinstance(refused, PatchRefused) else (),
                    reference=refused.reference if isinstance(refused, Declined) else "",
                )
            return response if not headers else _with(response, *headers)

        swiftly = self.kind.home is Backend.HERE and self.allowances is None
        if swiftly and allowed and verb is Verb.READ:
            return self._swift(path, scopes, answer)
        return answer

    def _sample(
        self,
        path: str,
        request: Request,
        caller: Caller,
        scopes: tuple[str, ...],
        status: int,
    ) -> None:
        used = next((name for name in scopes if name in caller.scope), "")
        self.samples.add(
            caller.client_id, request.method, path, request.at, status=status, scope=used
        )

    def _swift(self, path: str, scopes: tuple[str, ...], answer: Endpoint) -> Endpoint:
        """Answer a plain read by an already verified caller on a short path.

        Any request that could end in a status other than 200 is left to `answer`, which starts
        over.
        """
        recall, find, owner_of = self.protection.recall, self.records.find, self._owner
        notices, cors, note = self.notices, self.cors, self.uses.record
        due = self.samples.due

        async def answer_recent(request: Request) -> Response:
            headers = request.headers
            if request.query or request.body or headers.has_any(_CONDITIONS):
                return await answer(request)
            caller = recall(headers.all("authorization"), request.at)
            if caller is None or not caller.allows(*scopes):
                return await answer(request)
            try:
                check_accept(headers)
                visit = Visit(caller, _UNSEEN, owner_of(caller, scopes), request.at)
                record = await find(visit, _id(request))
            except Refused:
                return await answer(request)
            note(caller, scopes, request.at)
            answer_headers = (_JSON, ("etag", record.etag), *_PRIVATE)
            response = cors.opened(request, Response(_OK, record.body, answer_headers))
            if due(caller.client_id, request.method, path, request.at):
                self._sample(path, request, caller, scopes, _OK)
            return response if not notices else _with(response, *notices)

        return answer_recent

    def _owner(self, caller: Caller, scopes: tuple[str, ...]) -> Owner:
        if self.kind.owned_by is OwnedBy.USER:
            user = caller.user
            if user is not None:
                return Owner(f"user:{user}")
            whose = "this belongs to users, and no user is behind this access token"
        else:
            if caller.user is None:
                return Owner(f"client:{caller.client_id}")
            whose = "this is for a client's own access token (client credentials), not a user's"
        raise Refused.because(
            ErrorCode.INSUFFICIENT_SCOPE,
            whose,
            "caller.kind",
            f"a token of a {self.kind.owned_by} with {scopes[0]}",
            "the other kind",
        )

    def _cannot_create(self, request: Request, path: str) -> Response:
        refusal = Refusal(
            ErrorCode.METHOD_NOT_ALLOWED,
            "none can be made here; POST without a body reads",
            "http.method",
        )
        response = self.problems.answer(request, refusal, endpoint=path)
        methods = {"GET", "HEAD", "POST"}
        if self.kind.singleton:
            methods |= set(self._writing(path))
        return _with(response, ("allow", ", ".join(sorted(methods))))

    async def _list(self, request: Request, visit: Visit) -> Response:
        if request.method == "POST":
            # There is nothing to repeat, but a malformed key is an error here too.
            read_idempotency_key(request, visit.caller.client_id)
        kind, now = self.kind, visit.now
        page_request = self.pages.read(request.query, kind, visit.owner, now)
        listed = await self.records.page(visit, page_request)
        body = b'{"items":[' + b",".join(record.body for record in listed.records) + b"]"
        links: Pairs = ()
        cursor = None
        if listed.next is not None:
            cursor = self.pages.cursor(page_request, listed.next, kind, visit.owner, now)
            links = (("link", f'<{self.url}?{page_request.next_query(cursor)}>; rel="next"'),)
        body += b',"next":' + msgspec.json.encode(cursor)
        # Cursors are encrypted with fresh randomness: the tag covers the records alone.
        tag = etag_of(b"\n".join(r.id.encode() + r.etag.encode() for r in listed.records))
        return _shown(Representation("", body + b"}", tag), links)

    async def _read(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        return _shown(await self.records.find(visit, _id(request)))

    async def _create(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        key = read_idempotency_key(request, visit.caller.client_id)
        fields = self.kind.created(read_document(request.headers, request.body))
        record = await self.records.create(visit, fields, key)
        location = ("location", f"{self.url}/{record.id}")
        etag = ("etag", record.etag)
        preference = read_preference(request.headers)
        replayed = (_REPLAYED,) if record.replayed else ()
        headers = (location, etag, *replayed, *_PRIVATE, *applied(preference))
        body = record.body
        if preference is Preference.MINIMAL:
            body = msgspec.json.encode({"id": record.id})
        return Response(HTTPStatus.CREATED, body, (_JSON, *headers))

    async def _replace(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        preconditions = self._preconditions(request)
        members, read_only = self.kind.split(read_document(request.headers, request.body))
        fields = self.kind.replaced(members)
        record = await self.records.replace(visit, _id(request), fields, preconditions, read_only)
        return _changed(request, record)

    async def _change(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        preconditions = self._preconditions(request)
        try:
            patch = read_patch(request.headers, request.body)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.UNSUPPORTED_MEDIA_TYPE:
                raise
            response = self.problems.answer(request, refused.refusal)
            return _with(response, ("accept-patch", PATCHES))
        read_only = NOTHING
        if isinstance(patch, MergePatch):
            members, read_only = self.kind.split(patch.document)
            patch = MergePatch(members)
        changed = await self.records.change(visit, _id(request), patch, preconditions, read_only)
        return _changed(request, changed)

    async def _delete(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        preconditions = self._preconditions(request)
        await self.records.delete(visit, _id(request), preconditions)
        return Response(HTTPStatus.NO_CONTENT)

    def _preconditions(self, request: Request) -> Preconditions:
        preconditions = read_preconditions(request.headers)
        if self.kind.requires_if_match and preconditions.match is None:
            raise Refused(REQUIRED)
        return preconditions


def _shown(record: Representation, more: Pairs = ()) -> Response:
    return Response(_OK, record.body, (_JSON, ("etag", record.etag), *_PRIVATE, *more))


def _either(create: Endpoint, read: Endpoint) -> Endpoint:
    """Read for a POST without a body; create for one with a body if the object allows it."""

    async def post(request: Request) -> Response:
        return await (create if request.body else read)(request)

    return post


def _changed(request: Request, record: Representation) -> Response:
    preference = read_preference(request.headers)
    headers = (("etag", record.etag), *_PRIVATE, *applied(preference))
    if preference is Preference.MINIMAL:
        return Response(HTTPStatus.NO_CONTENT, b"", headers)
    return Response(HTTPStatus.OK, record.body, (_JSON, *headers))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _with(response: Response, *more: tuple[str, str]) -> Response:
    return replace(response, headers=(*response.headers, *more))


def _refuse_query(request: Request) -> None:
    if request.query:
        raise Refused(_SEVERAL)


_ID_LENGTH = 200


def _id(request: Request) -> str:
    """Return the id in the path; "" for a singleton. Ids need no percent-decoding."""
    named = request.arguments.get("id", "")
    if len(named) > _ID_LENGTH or "%" in named or not named.isascii():
        raise Refused(NOT_FOUND)
    return named
