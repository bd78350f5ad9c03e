"""The span of a request: continued from a trusted client's trace, or the first of its own."""

from valetkey.kernel.metrics import OTHER
from valetkey.kernel.tracing import TRACES, Kind, Span
from valetkey.web.client_address import Proxies
from valetkey.web.connection.incoming_request import IncomingRequest

_FAULT = 500


class RequestTraces:
    """Begins the spans of requests and ends them, once tracing is on."""

    __slots__ = ("_peers",)

    def __init__(self, peers: Proxies) -> None:
        """Continue the traces of `peers`."""
        self._peers = peers

    def begin(self, asked: IncomingRequest) -> Span:
        """Begin the span of a request."""
        # A context of any other client could force sampling, or join the traces of others.
        if not self._peers.trusts(asked.peer):
            return TRACES.root("", Kind.SERVER)
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
