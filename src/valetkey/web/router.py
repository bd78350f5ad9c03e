"""The App: routes requests, checks them, and turns results into responses (ASGI 3)."""

import asyncio
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from enum import Enum
from time import perf_counter

from msgspec import Struct

from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import FAILED, ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import fresh_reference
from valetkey.kernel.text import translatable
from valetkey.kernel.tracing import OFF, TRACES, Span
from valetkey.web import log
from valetkey.web.body import is_multipart
from valetkey.web.client_address import Network, Proxies
from valetkey.web.connection.incoming_request import (
    AsgiRequest,
    BodyMemory,
    ClientDisconnected,
    IncomingRequest,
    Message,
    Receive,
    Send,
    read_body,
    send_stream,
    take_body,
)
from valetkey.web.exchange import (
    Endpoint,
    Headers,
    Interrupt,
    Refuse,
    Request,
    Response,
    conditional,
)
from valetkey.web.log import RequestIds, RequestTraces
from valetkey.web.offload import start_background
from valetkey.web.paths import NOWHERE, WRONG_HOST, Paths, ServerAddress
from valetkey.web.security_headers import Cors, harden, preflight

TARGET_BYTES = 8 * 1024
KIB = 1024
NO_ROUTE = "http.path"


class Body(Enum):
    """The kinds of request body a route accepts."""

    NONE = "none"
    """None; a body that is sent anyway is discarded, up to 64 KiB."""
    FORM = "form"
    """`application/x-www-form-urlencoded`, up to 64 KiB."""
    JSON = "json"
    """`application/json`, up to 1 MiB."""
    ANY = "any"
    """Bytes, up to 1 MiB."""
    UPLOAD = "upload"
    """`multipart/form-data`, up to the `limit` of the route."""


_LARGER = {Body.JSON: KIB * KIB, Body.ANY: KIB * KIB}
_CHARSET = r'(?:[ \t]*;[ \t]*charset="?utf-8"?)?'
_FORM_TYPE = re.compile(r"application/x-www-form-urlencoded" + _CHARSET, re.IGNORECASE)
_USUAL_TYPE = {Body.FORM: b"application/x-www-form-urlencoded", Body.JSON: b"application/json"}
_JSON_TYPE = re.compile(r"application/(?:(?:merge-patch|scim)\+)?json" + _CHARSET, re.IGNORECASE)


class Route(Struct, frozen=True):
    """A path, the endpoint of each method, and how refusals are rendered.

    `path` is compared with the path as sent; a segment written `{name}` matches any non-empty
    segment, `{+name}` at the end any rest of the path. GET implies HEAD (RFC 9110 section 9.3.2)
    unless GET is a `step` that changes something; `cors` implies OPTIONS, for pages of the origins
    that it names. Set `hides_query` if the query contains secrets; `quiet` for paths that
    monitoring requests every second, whose successes are logged at debug level only; `any_host`
    for paths that proxies request with a Host of their own, and probes with an IP address; `limit`
    for uploads.
    """

    path: str
    methods: Mapping[str, Endpoint]
    refuse: Refuse
    body: Body = Body.NONE
    hides_query: bool = False
    quiet: bool = False
    any_host: bool = False
    limit: int = 0
    step: bool = False
    cors: Cors | None = None

    @property
    def allow(self) -> str:
        """The methods of the resource, as a value of the header `Allow`."""
        return ", ".join(sorted(self.methods.keys() - {_PREFLIGHT} or self.methods))


_PREFLIGHT = "OPTIONS"
_WITHOUT_BODY = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_UNAVAILABLE = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the server is overloaded or its database is unavailable; try again in a moment",
    "http.unavailable",
    retry_after=1,
)
_CLEARTEXT = Refusal(ErrorCode.FORBIDDEN, "this server requires https", "http.cleartext")
_LAST_WORD = Response(
    500,
    b'{"error":"server_error","error_description":"the server failed"}',
    (("content-type", "application/json"),),
)
_FAILED = 400


class RoutedApp:
    """An ASGI application made of routes, with the HTTP behaviour that both servers share."""

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        runtime: Runtime,
        refuse: Refuse,
        hosts: Collection[str],
        unavailable: tuple[type[Exception], ...] = (),
        trusted_proxies: Collection[Network] = (),
        traced_peers: Collection[Network] = (),
        tls_proxy: bool = False,
        hsts: bool = False,
        background: Sequence[Callable[[], Coroutine[object, object, object]]] = (),
        on_close: Callable[[], Awaitable[object]] | None = None,
        observe: Callable[[Instant, int, float], None] | None = None,
        elsewhere: ServerAddress = NOWHERE,
    ) -> None:
        """Answer requests for `hosts`; unknown paths are refused by `refuse` or redirected.

        Exceptions in `unavailable` become 503. The trace context of `traced_peers`, besides that of
        trusted proxies, is continued. `hsts` means that the server may be reached by https
        only; `tls_proxy` means that a proxy which terminates TLS is the only way in. `background`
        work runs as long as the App and is restarted when it fails; `on_close` runs last. `observe`
        is called for each response with the time of the request, the status, and the seconds the
        server took, excluding those in which the client sent or read; not for quiet routes and
        streams.
        """
        self.routes = tuple(_with_implied(route) for route in routes)
        self._paths = Paths([(route.path, route) for route in self.routes])
        self._runtime = runtime
        self._refuse = refuse
        self._hosts = frozenset(host.lower().encode("latin-1") for host in hosts)
        self._elsewhere = elsewhere
        self._unavailable = unavailable
        self.proxies = Proxies(trusted_proxies)
        self._tls_proxy = tls_proxy
        self._hsts = hsts
        self._background = tuple(background)
        self._on_close = on_close
        self._observe = observe
        self._room = BodyMemory()
        exact = self._paths.exact
        self.vital = frozenset(path for path, r in exact.items() if r.quiet)
        self.paths = frozenset(path.encode("ascii") for path in exact)
        self._access_log = log.AccessLog()
        self._traces = RequestTraces(Proxies((*trusted_proxies, *traced_peers)))
        self._ids = RequestIds(self.proxies, runtime.random)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or run one lifespan."""
        if scope["type"] == "http":
            request = AsgiRequest(scope, receive, send)
            await self.answer(request)
            await request.finish()
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise ValueError("only http and lifespan are supported")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the background work for the duration of the block, then stop and close everything."""
        tasks = start_background(self._background, self._unavailable)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._access_log.flush()
            if self._on_close is not None:
                await self._on_close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def refusal_of(self, target: str, refusal: Refusal) -> Response:
        """Return the refusal of a request of which only the beginning of its target was read."""
        path = target.partition("?")[0]
        route, arguments = self._paths.find(path)
        now, none = self._runtime.now(), Headers(())
        return self._respond(
            route, Request("GET", path, "", "", none, b"", "", False, now, arguments), refusal
        )

    async def answer(self, incoming: IncomingRequest) -> None:
        """Answer one request; nothing is sent if its client disconnected before it was complete."""
        started = admitted = perf_counter()
        incoming.request_id = self._ids.request_id(incoming)
        method, path, query, headers = (
            incoming.method,
            incoming.path,
            incoming.query,
            incoming.headers,
        )
        route, arguments = self._paths.find(path)
        if TRACES.on and not (route is not None and route.quiet):
            incoming.span = self._traces.begin(incoming)
        body, refusal = b"", None
        try:
            judged_route = self._judge(
                route, method, headers, incoming.peer, len(path) + len(query)
            )
            if method not in _WITHOUT_BODY or headers.has_any(_FRAMING):
                limit = judged_route.limit or _LARGER.get(judged_route.body, 64 * KIB)
                if incoming.more:
                    body = await read_body(headers, incoming.receive, limit, self._room)
                    admitted = perf_counter()
                else:
                    body = take_body(headers, incoming.whole(), limit, self._room)
                body = _of_type(judged_route.body, headers, body)
        except Refused as refused:
            refusal = refused.refusal
        except ClientDisconnected:
            return
        hides = route is None or route.hides_query
        address, secure = self._origin(incoming)
        request = Request(
            method,
            path,
            "" if hides else query,
            query if hides and route is not None else "",
            headers,
            body,
            address,
            secure,
            self._runtime.now(),
            arguments,
        )
        incoming.complete_at = admitted
        moved = self._elsewhere.redirect(incoming, self._is_read if route is None else None)
        response = moved or await self._answer(route, request, refusal)
        self._count(incoming.span, route, request, response, perf_counter() - admitted)
        hsts, bare = self._hsts and secure, method == "HEAD"
        try:
            if response.stream is None:
                incoming.send(response, hsts=hsts, bare=bare)
            else:
                harden(response.headers, hsts=hsts)  # validates the header before anything is sent
        except ValueError as failure:
            response = self._failed(route, request, failure)
            incoming.send(response, hsts=hsts, bare=bare)
        try:
            if response.stream is not None:
                await send_stream(incoming, response, response.stream, hsts=hsts, bare=bare)
        finally:
            self._log_request(incoming, route, request, response.status, perf_counter() - started)

    def _count(
        self, span: Span, route: Route | None, request: Request, response: Response, took: float
    ) -> None:
        path = log.UNKNOWN if route is None else route.path
        if span.sampled:
            metrics.HTTP_SECONDS.show(took, span.trace_id.hex(), request.at, path, response.status)
        metrics.HTTP_SECONDS.observe(took, path, _known(route, request), response.status)
        quiet = route is None or route.quiet or response.stream is not None
        if self._observe is not None and not quiet:
            self._observe(request.at, response.status, took)

    def _log_request(
        self,
        incoming: IncomingRequest,
        route: Route | None,
        request: Request,
        status: int,
        duration: float,
    ) -> None:
        span = incoming.span
        path = log.UNKNOWN if route is None else route.path
        if span is not OFF:
            self._traces.end(incoming, _known(route, request), path, status)
        # Requests to quiet routes are logged only when they fail.
        if route is None or not route.quiet or status >= _FAILED or log.is_enabled("debug"):
            whose = request.address, incoming.request_id, incoming.reference
            off = span is OFF
            trace = "" if off else span.trace_id.hex(), "" if off else span.span_id.hex()
            self._access_log.add(
                (request.at, request.method, path, status, duration, *whose, *trace)
            )

    def _is_read(self, path: str) -> bool:
        route, _ = self._paths.find(path)
        return route is not None and "GET" in route.methods

    def _judge(
        self, route: Route | None, method: str, headers: Headers, peer: str, target: int
    ) -> Route:
        # Returns the route or raises Refused, judging everything except the body.
        if headers.repeats():
            raise Refused(
                _invalid("a header was sent more than once that must be unique", "http.repeated")
            )
        if target >= TARGET_BYTES:
            description = "the request target has more than 8 KiB"
            raise Refused.because(ErrorCode.URI_TOO_LONG, description, "http.target")
        host = headers.raw(b"host") or b""
        host_known = host in self._hosts or host.lower() in self._hosts
        if not host_known and (route is None or not route.any_host):
            raise Refused(self._elsewhere.refusal(host))
        if self._hsts and headers.get("x-forwarded-proto") == "http" and self.proxies.trusts(peer):
            raise Refused(_CLEARTEXT)
        if route is None:
            raise Refused(_NOT_FOUND)
        if method not in route.methods:
            description = translatable("this address does not take that method")
            raise Refused.because(ErrorCode.METHOD_NOT_ALLOWED, description, "http.method")
        return route

    def _origin(self, request: IncomingRequest) -> tuple[str, bool]:
        # The client's address, and whether the client used TLS.
        headers, peer = request.headers, request.peer
        address = self.proxies.client(peer, headers.get("x-forwarded-for"))
        if request.tls or not self.proxies.trusts(peer):
            return address, request.tls or self._tls_proxy
        # Trusted proxies are assumed to terminate TLS unless they say otherwise.
        return address, headers.get("x-forwarded-proto") in (None, "https")

    async def _answer(
        self, route: Route | None, request: Request, refusal: Refusal | None
    ) -> Response:
        if refusal is not None or route is None:
            return self._respond(route, request, refusal or _NOT_FOUND)
        try:
            return conditional(request, await route.methods[request.method](request))
        except Refused as refused:
            return self._respond(route, request, refused.refusal)
        except Interrupt as interrupt:
            return interrupt.response
        except self._unavailable as failure:
            kind = type(failure).__name__
            metrics.UNAVAILABLE.add(kind)
            log.throttled("warning", "request.unavailable", f"{kind}: {failure}")
            return self._respond(route, request, _UNAVAILABLE)
        except Exception as failure:  # noqa: BLE001 - after any error, the client gets a response
            return self._failed(route, request, failure)

    def _failed(self, route: Route | None, request: Request, failure: Exception) -> Response:
        reference = fresh_reference(self._runtime.random)
        path = log.UNKNOWN if route is None else route.path
        log.error("request.failed", failure, reference=reference, method=request.method, path=path)
        description = f"the server failed; its log has the reason under {reference}"
        refusal = Refusal(ErrorCode.SERVER_ERROR, description, FAILED, received=reference)
        return self._respond(route, request, refusal)

    def _respond(self, route: Route | None, request: Request, refusal: Refusal) -> Response:
        refuse = self._refuse if route is None else route.refuse
        try:
            response = refuse(request, refusal)
        except Exception as failure:  # noqa: BLE001 - a refusal that fails must still be an answer
            log.error("refusal.failed", failure, method=request.method)
            return _LAST_WORD
        if refusal.check == WRONG_HOST:
            return replace(response, status=421)
        if refusal.code is ErrorCode.METHOD_NOT_ALLOWED and route is not None:
            return replace(response, headers=(*response.headers, ("allow", route.allow)))
        if refusal.retry_after and "retry-after" not in {n.lower() for n, _ in response.headers}:
            wait = ("retry-after", str(refusal.retry_after))
            return replace(response, headers=(*response.headers, wait))
        return response


def _with_implied(route: Route) -> Route:
    """Return the route with the methods that its declared ones imply."""
    methods = dict(route.methods)
    if "GET" in methods and not route.step:
        methods.setdefault("HEAD", methods["GET"])
    whole, cors = replace(route, methods=methods), route.cors
    if cors is None or _PREFLIGHT in methods:
        return whole
    allow = whole.allow

    async def answer(request: Request) -> Response:
        return preflight(allow, cors(request))

    answer.__doc__ = "Tell browsers which requests pages of other origins may send."
    return replace(whole, methods={**methods, _PREFLIGHT: answer})


def _known(route: Route | None, request: Request) -> str:
    # A method that the route does not have is arbitrary text from the client.
    method_known = route is not None and request.method in route.methods
    return request.method if method_known else metrics.OTHER


def _invalid(description: str, check: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, description, check)


_NOT_FOUND = Refusal(ErrorCode.NOT_FOUND, "this page does not exist", NO_ROUTE)


def _of_type(body_type: Body, headers: Headers, body: bytes) -> bytes:
    if not body or body_type is Body.NONE:
        return b""
    content_type = headers.raw(b"content-type") or b""
    if content_type != _USUAL_TYPE.get(body_type):
        _check_type(body_type, content_type.decode("latin-1"))
    return body


def _check_type(body: Body, content_type: str) -> None:
    check = "http.content_type"
    if body is Body.FORM and not _FORM_TYPE.fullmatch(content_type.strip(" \t")):
        # RFC 6749 does not use 415: a token request in the wrong format is an invalid request.
        raise Refused(
            _invalid("the body must be application/x-www-form-urlencoded in UTF-8", check)
        )
    if body is Body.UPLOAD and not is_multipart(content_type):
        raise Refused(_invalid("the body must be multipart/form-data", check))
    if body is Body.JSON and not _JSON_TYPE.fullmatch(content_type.strip(" \t")):
        what = "the body must be application/json in UTF-8"
        raise Refused.because(ErrorCode.UNSUPPORTED_MEDIA_TYPE, what, check)
