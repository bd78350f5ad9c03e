"""Which pages of other origins may call a route and read its responses (CORS, Fetch standard).

Cookies are never accepted from them, so a page can only use credentials that it has itself.
"""

from collections.abc import Callable

from valetkey.web.exchange import Pairs, Request, Response

Cors = Callable[[Request], Pairs]
"""Returns the headers with which the origin of a request may read the response; () for none."""

ANY_ORIGIN: Pairs = (("access-control-allow-origin", "*"),)
"""Any origin may read the response: it requires a credential, and cookies are ignored."""

METHODS = "access-control-allow-methods"

# The named ones also for clients that do not know `*`, which never includes Authorization.
# Tracing libraries add theirs to every request of a page: W3C Trace Context and Baggage.
_HEADERS = (
    "authorization, content-type, dpop, idempotency-key, if-match, if-none-match,"
    " mcp-protocol-version, prefer, traceparent, tracestate, baggage, x-requested-with, *"
)
_REMEMBERED = "600"  # seconds that a browser may keep the answer


def any_origin(request: Request) -> Pairs:
    """Let any origin call."""
    del request
    return ANY_ORIGIN


def preflight(allow: str, opened: Pairs) -> Response:
    """Return the response to a preflight request: what the origin of `opened` may send."""
    headers = (("allow", allow), *opened)
    if any(name == "access-control-allow-origin" for name, _ in opened):
        headers += (
            (METHODS, allow),
            ("access-control-allow-headers", _HEADERS),
            ("access-control-max-age", _REMEMBERED),
        )
    return Response(204, b"", headers)
