"""CORS: which pages of other origins may read the answers (Fetch standard), by exact name."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from valetkey.web.exchange import Endpoint, Request, Response

_METHOD = "OPTIONS"
_SENT = "authorization, content-type, idempotency-key, if-match, if-none-match, prefer"
_SHOWN = (
    "deprecation, etag, link, location, preference-applied, ratelimit, ratelimit-policy,"
    " retry-after, sunset, www-authenticate"
)
_REMEMBERED = "600"  # seconds that a browser may keep a preflight's answer


@dataclass(frozen=True, slots=True)
class Cors:
    """The origins that may call from a browser; empty for none. Cookies are never taken."""

    origins: Collection[str] = ()

    def opened(self, request: Request, response: Response) -> Response:
        """`response`, readable by the page that asked if its origin may."""
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
        # Whatever the origin was, a cache must not show the answer to another.
        return replace(response, headers=(*rest, ("vary", ", ".join((*vary, "origin")))))

    def preflight(self, methods: Iterable[str]) -> dict[str, Endpoint]:
        """What answers a browser that asks before it calls; nothing where nobody may."""
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
