"""CORS: which origins' pages may read responses (Fetch standard), matched exactly."""

from collections.abc import Collection, Iterable

from msgspec import Struct

from valetkey.kernel.replace import replace
from valetkey.web.exchange import Endpoint, Request, Response

_METHOD = "OPTIONS"
_SENT = "authorization, content-type, idempotency-key, if-match, if-none-match, prefer"
_SHOWN = (
    "deprecation, etag, link, location, preference-applied, ratelimit, ratelimit-policy,"
    " retry-after, sunset, www-authenticate"
)
_REMEMBERED = "600"  # seconds that a browser may keep a preflight's answer


class Cors(Struct, frozen=True):
    """The origins that may call from a browser; may be empty. Cookies are never accepted."""

    origins: Collection[str] = ()

    def opened(self, request: Request, response: Response) -> Response:
        """Return `response`, with the headers that let an allowed origin read it."""
        if not self.origins:
            return response
        headers = response.headers
        if (origin := self._origin(request)) is not None:
            headers = (
                *headers,
                ("access-control-allow-origin", origin),
                ("access-control-expose-headers", _SHOWN),
            )
        vary = [value for name, value in headers if name == "vary"]
        rest = tuple(pair for pair in headers if pair[0] != "vary")
        # For every origin: a cache must not serve the response to another origin.
        return replace(response, headers=(*rest, ("vary", ", ".join((*vary, "origin")))))

    def preflight(self, methods: Iterable[str]) -> dict[str, Endpoint]:
        """Return the handler of preflight requests by method; empty if no origin is allowed."""
        if not self.origins:
            return {}
        allowed = ", ".join(sorted({*methods, _METHOD}))

        async def answer(request: Request) -> Response:
            if self._origin(request) is None:
                return self.opened(request, Response(204, b"", (("allow", allowed),)))
            headers = (
                ("allow", allowed),
                ("access-control-allow-methods", allowed),
                ("access-control-allow-headers", _SENT),
                ("access-control-max-age", _REMEMBERED),
            )
            return self.opened(request, Response(204, b"", headers))

        return {_METHOD: answer}

    def _origin(self, request: Request) -> str | None:
        origins = request.headers.all("origin")
        return origins[0] if len(origins) == 1 and origins[0] in self.origins else None
