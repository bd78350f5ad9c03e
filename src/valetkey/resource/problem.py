"""Error responses of the API (RFC 9457, RFC 6750), and which origins may read responses (CORS)."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.database.decisions import DecisionQueue
from valetkey.kernel.refusal import FAILED, ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.shapes import FieldError
from valetkey.resource.requests.representation import NOT_ACCEPTABLE, OTHER_BODY
from valetkey.sdk.caller import Challenge
from valetkey.web.exchange import Pairs, Refuse, Request, Response

_SHOWN = (
    "deprecation, etag, idempotency-replayed, link, location, preference-applied, ratelimit,"
    " ratelimit-policy, retry-after, sunset, www-authenticate"
)


class Cors(Struct, frozen=True):
    """The origins that may call from a browser; may be empty. Cookies are never accepted."""

    origins: Collection[str] = ()

    def opened(self, request: Request, response: Response) -> Response:
        """Return `response`, with the headers that let an allowed origin read it."""
        if not self.origins:
            return response
        *opened, (_, origin) = self.headers(request)
        vary = [value for name, value in response.headers if name == "vary"]
        rest = tuple(pair for pair in response.headers if pair[0] != "vary")
        return replace(response, headers=(*rest, *opened, ("vary", ", ".join((*vary, origin)))))

    def headers(self, request: Request) -> Pairs:
        """Return the headers that let an allowed origin read the response, `vary` last."""
        # For every origin: a cache must not serve the response to another origin.
        vary = ("vary", "origin")
        if (origin := self._origin(request)) is None:
            return (vary,)
        return (
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", _SHOWN),
            vary,
        )

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
