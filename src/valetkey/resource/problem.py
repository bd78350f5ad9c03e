"""Error responses of the API (RFC 9457, RFC 6750), and which origins may read responses (CORS)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.database.decisions import DecisionQueue
from valetkey.kernel.refusal import FAILED, ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.shapes.shape import FieldError
from valetkey.resource.requests.representation import NOT_ACCEPTABLE, OTHER_BODY
from valetkey.sdk.bearer import Challenge
from valetkey.web.exchange import Endpoint, Refuse, Request, Response

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


VERSIONS = ("v2",)
"""The existing versions of the API; the first segment of every path."""

# HTTP has a status for these; the registered error codes do not cover them.
_STATUS_OF: Mapping[str, int] = MappingProxyType({NOT_ACCEPTABLE.check: 406, OTHER_BODY.check: 422})
_CHALLENGED = frozenset((401, 403))
_TYPE = ("content-type", "application/problem+json")


class Problems:
    """Build every error response of this API."""

    def __init__(
        self,
        auth_url: str,
        challenge: Challenge,
        decisions: DecisionQueue,
        cors: Cors | None = None,
    ) -> None:
        """Link explanations at `auth_url`, send `challenge`, record in `decisions`."""
        self.cors = cors or Cors()
        self._auth_url = auth_url
        self._challenge = challenge
        self._decisions = decisions

    def refuse(self, request: Request, refusal: Refusal) -> Response:
        """Refuse a request that matched no route."""
        return self.answer(request, _with_versions(request, refusal))

    def refuse_at(self, endpoint: str) -> Refuse:
        """Return the error handler for the route called `endpoint`."""

        def refuse(request: Request, refusal: Refusal) -> Response:
            return self.answer(request, refusal, endpoint=endpoint)

        return refuse

    def answer(
        self,
        request: Request,
        refusal: Refusal,
        *,
        endpoint: str = "",
        scope: str = "",
        errors: Sequence[FieldError] = (),
        reference: str = "",
    ) -> Response:
        """Return the error response. `scope` would suffice; `reference` is another server's.

        `endpoint` is the path pattern of the route: values that callers put in a path may be
        secret.
        """
        status = _STATUS_OF.get(refusal.check, refusal.code.status)
        if refusal.check == FAILED:
            reference = refusal.received
        if not reference:
            reference = self._decisions.enqueue(refusal, endpoint=endpoint, at=request.at)
        problem: dict[str, object] = {
            "type": f"{self._auth_url}/errors/{refusal.code}",
            "title": refusal.code.heading,
            "status": status,
            "detail": refusal.description,
            "code": refusal.code.value,
            "reference": reference,
        }
        if errors:
            problem["errors"] = [
                {"pointer": error.pointer, "detail": error.detail} for error in errors
            ]
        headers: list[tuple[str, str]] = [_TYPE]
        if status in _CHALLENGED:
            header = self._challenge.header(refusal, scope)
            headers.append(("www-authenticate", header))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        response = Response(status, msgspec.json.encode(problem), tuple(headers))
        return self.cors.opened(request, response)


def _with_versions(request: Request, refusal: Refusal) -> Refusal:
    if refusal.code is not ErrorCode.NOT_FOUND:
        return refusal
    if request.path.split("/", 2)[1:2] and request.path.split("/", 2)[1] not in VERSIONS:
        names = ", ".join(f"/{version}/" for version in VERSIONS)
        return Refusal(ErrorCode.NOT_FOUND, f"no such path; paths begin with {names}", "path")
    return refusal
