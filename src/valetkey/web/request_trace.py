"""The id of a request, the proxy's or one of our own, and its span in a trace."""

import re
from collections.abc import Callable
from itertools import count

from valetkey.kernel.metrics import OTHER
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.tracing import TRACES, Span, SpanKind
from valetkey.web.client_address import Proxies
from valetkey.web.connection.incoming_request import IncomingRequest

_GIVEN = re.compile(rb"[A-Za-z0-9._+/=@:-]{1,128}")
_FAULT = 500


class RequestIds:
    """Name requests: by `X-Request-Id` of a trusted proxy, else by process and number."""

    __slots__ = ("_numbers", "_process", "_proxies")

    def __init__(self, proxies: Proxies, random: Callable[[int], bytes]) -> None:
        """Trust the ids and addresses of `proxies`."""
        self._proxies = proxies
        self._process = f"{to_base64url(random(6))}-"
        self._numbers = count(1)

    def of(self, asked: IncomingRequest) -> str:
        """Return the id of a request: that of a trusted proxy, or a new one."""
        given = asked.headers.raw(b"x-request-id")
        # Any other client could imitate other requests in the log.
        if given and self._proxies.trusts(asked.peer) and _GIVEN.fullmatch(given):
            return given.decode("ascii")
        return f"{self._process}{next(self._numbers):x}"


class RequestTraces:
    """Begins the spans of requests and ends them, once tracing is on."""

    __slots__ = ("_peers",)

    def __init__(self, peers: Proxies) -> None:
        """Continue the traces that `peers` send."""
        self._peers = peers

    def begin(self, asked: IncomingRequest) -> Span:
        """Begin the span of a request."""
        # A context of any other client could force sampling, or join the traces of others.
        if not self._peers.trusts(asked.peer):
            return TRACES.root("", SpanKind.SERVER)
        headers = asked.headers
        return TRACES.request(headers.raw(b"traceparent"), headers.raw(b"tracestate"))

    @staticmethod
    def end(asked: IncomingRequest, method: str, route: str, status: int) -> None:
        """End the span of a request, if it is recorded; `method` and `route` are ours."""
        span = asked.span
        if not span.sampled:
            return
        if method == OTHER:
            method = "_OTHER"  # the semantic conventions' word
        span.name = f"{method} {route}"
        span.set("http.request.method", method)
        span.set("http.route", route)
        span.set("http.response.status_code", status)
        span.set("valetkey.request_id", asked.request_id)
        if asked.reference:
            span.set("valetkey.reference", asked.reference)
        if status >= _FAULT:
            span.fail(str(status))
        span.end()
