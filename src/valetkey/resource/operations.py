"""Operations: list, read, create, replace, change, delete; once, for every object."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret
from valetkey.resource.homes.identity import Declined
from valetkey.resource.homes.records import NOT_FOUND, Record, Records, Visit
from valetkey.resource.problem import Problems
from valetkey.resource.requests.paging import Pages
from valetkey.resource.requests.patches import MergePatch
from valetkey.resource.requests.preconditions import (
    etag_of,
    read_idempotency_key,
    read_preconditions,
)
from valetkey.resource.requests.representation import (
    MERGE_PATCH,
    check_accept,
    read_document,
)
from valetkey.resource.resource_object import OwnedBy, ResourceObject, Verb
from valetkey.resource.shapes.shape import Invalid
from valetkey.resource.storage.objects import Owner
from valetkey.sdk import Caller, Protection, demand, read_bearer
from valetkey.web.exchange import Endpoint, Pairs, Request, Response
from valetkey.web.router import Body, Route

_JSON = ("content-type", "application/json")
# Stored by nobody but the caller, and asked about each time: the ETag answers that.
_PRIVATE = (("cache-control", "private, no-cache"), ("vary", "authorization, accept"))
_NO_OBJECT = Refusal(
    ErrorCode.INVALID_REQUEST, "a field is not as it should be: see errors", "body.invalid"
)
_SEVERAL = Refusal(ErrorCode.INVALID_REQUEST, "this takes no query parameters", "query.unknown")

Act = Callable[[Request, Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operations:
    """What can be done to one kind of object, over HTTP."""

    kind: ResourceObject
    records: Records
    protection: Protection
    problems: Problems
    pages: Pages
    url: str
    """The base of every Location and Link: `{api_url}/v2/<name>`."""

    def routes(self) -> tuple[Route, ...]:
        """The routes of this kind: one for a singleton, two where there are several."""
        path = f"/v2/{self.kind.name}"
        if self.kind.singleton:
            own = {**self._reading(path, Verb.READ), **self._writing(path)}
            return (self._route(path, own),)
        each = f"{path}/{{id}}"
        one = {**self._reading(each, Verb.READ, post=False), **self._writing(each)}
        both = (self._route(path, self._reading(path, Verb.LIST)), self._route(each, one))
        return tuple(route for route in both if route.methods)

    def _route(self, path: str, methods: Mapping[str, Endpoint]) -> Route:
        return Route(path, methods, self.problems.refuse_at(path), body=Body.ANY)

    def _reading(self, path: str, verb: Verb, *, post: bool = True) -> dict[str, Endpoint]:
        create = self._endpoint(path, Verb.CREATE, self._create)
        if verb not in self.kind.verbs:
            creates = post and Verb.CREATE in self.kind.verbs
            return {"POST": create} if creates else {}
        read = self._endpoint(path, verb, self._list if verb is Verb.LIST else self._read)
        methods: dict[str, Endpoint] = {"GET": read, "HEAD": read}
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

        async def answer(request: Request) -> Response:
            try:
                visit = await self._visit(request, scopes)
                if verb not in self.kind.verbs:
                    return self._cannot_create(request, path)
                check_accept(request.headers)
                return await act(request, visit)
            except Invalid as invalid:
                return self.problems.answer(
                    request,
                    _NO_OBJECT,
                    endpoint=path,
                    errors=invalid.errors,
                    reference=invalid.reference,
                )
            except Refused as refused:
                reference = refused.reference if isinstance(refused, Declined) else ""
                return self.problems.answer(
                    request, refused.refusal, endpoint=path, scope=scopes[0], reference=reference
                )

        return answer

    async def _visit(self, request: Request, scopes: tuple[str, ...]) -> Visit:
        token: Secret = read_bearer(request.headers.all("authorization"))
        now: Instant = request.at
        caller = await self.protection.caller(token, now)
        demand(caller, *scopes)
        return Visit(caller, token, self._owner(caller, scopes), now)

    def _owner(self, caller: Caller, scopes: tuple[str, ...]) -> Owner:
        if self.kind.owned_by is OwnedBy.USER:
            if caller.user is not None:
                return Owner(f"user:{caller.user}")
            whose = "this belongs to users, and no user is behind this access token"
        else:
            if caller.user is None:
                return Owner(f"client:{caller.client_id}")
            whose = "this is for a client's own access token (client credentials), not a user's"
        raise Refused(
            Refusal(
                ErrorCode.INSUFFICIENT_SCOPE,
                whose,
                "caller.kind",
                f"a token of a {self.kind.owned_by} with {scopes[0]}",
                "the other kind",
            )
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
        allow = ("allow", ", ".join(sorted(methods)))
        return Response(response.status, response.body, (*response.headers, allow))

    async def _list(self, request: Request, visit: Visit) -> Response:
        name, now = self.kind.name, visit.now
        asked = self.pages.read(request.query, name, visit.owner, now)
        listed = await self.records.page(visit, asked)
        body = b'{"items":[' + b",".join(record.body for record in listed.records) + b"]"
        links: Pairs = ()
        if listed.next is not None:
            query = self.pages.next_query(asked, listed.next, name, visit.owner, now)
            target = f"{self.url}?{query}"
            body += b',"next":"' + target.encode("ascii") + b'"'
            links = (("link", f'<{target}>; rel="next"'),)
        # Cursors are sealed with fresh randomness: the tag is of the records alone.
        tag = etag_of(b"\n".join(r.id.encode() + r.etag.encode() for r in listed.records))
        return self._shown(request, Record("", body + b"}", tag), links)

    async def _read(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        return self._shown(request, await self.records.find(visit, _id(request)))

    async def _create(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        key = read_idempotency_key(request, visit.caller.client_id)
        fields = self.kind.created(read_document(request.headers, request.body))
        record = await self.records.create(visit, fields, key)
        location = ("location", f"{self.url}/{record.id}")
        etag = ("etag", record.etag)
        return Response(HTTPStatus.CREATED, record.body, (_JSON, location, etag, *_PRIVATE))

    async def _replace(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        preconditions = read_preconditions(request.headers)
        fields = self.kind.replaced(read_document(request.headers, request.body))
        return _changed(await self.records.replace(visit, _id(request), fields, preconditions))

    async def _change(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        preconditions = read_preconditions(request.headers)
        try:
            patch = read_document(request.headers, request.body, patch=True)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.UNSUPPORTED_MEDIA_TYPE:
                raise
            response = self.problems.answer(request, refused.refusal)
            accept = ("accept-patch", MERGE_PATCH)
            return Response(response.status, response.body, (*response.headers, accept))
        changed = await self.records.change(visit, _id(request), MergePatch(patch), preconditions)
        return _changed(changed)

    async def _delete(self, request: Request, visit: Visit) -> Response:
        _refuse_query(request)
        preconditions = read_preconditions(request.headers)
        await self.records.delete(visit, _id(request), preconditions)
        return Response(HTTPStatus.NO_CONTENT)

    def _shown(self, request: Request, record: Record, more: Pairs = ()) -> Response:
        headers = (("etag", record.etag), *_PRIVATE, *more)
        preconditions = read_preconditions(request.headers)
        if request.method != "POST" and preconditions.has(record.etag):
            return Response(HTTPStatus.NOT_MODIFIED, b"", headers)
        return Response(HTTPStatus.OK, record.body, (_JSON, *headers))


def _either(create: Endpoint, read: Endpoint) -> Endpoint:
    """POST without a body reads (S14); with one it creates, where that can be."""

    async def post(request: Request) -> Response:
        return await (create if request.body else read)(request)

    return post


def _changed(record: Record) -> Response:
    return Response(HTTPStatus.OK, record.body, (_JSON, ("etag", record.etag), *_PRIVATE))


def _refuse_query(request: Request) -> None:
    if request.query:
        raise Refused(_SEVERAL)


_ID_LENGTH = 200


def _id(request: Request) -> str:
    """The id in the path; "" for a singleton. Ids need no escapes, so nothing is unescaped."""
    named = request.arguments.get("id", "")
    if len(named) > _ID_LENGTH or "%" in named or not named.isascii():
        raise Refused(NOT_FOUND)
    return named
