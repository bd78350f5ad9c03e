"""Error responses of the endpoints for clients (RFC 6749 section 5.2), and CORS."""

from collections.abc import Iterable
from dataclasses import dataclass

from valetkey.authorization.protocol.authorization_response import explained_at
from valetkey.authorization.storage.decisions import DecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.exchange import Endpoint, Pairs, Request, Response, json_response

ANY_ORIGIN: Pairs = (("access-control-allow-origin", "*"),)
"""Any origin may read the response: it takes a credential, and cookies are ignored."""

NOT_STORED: Pairs = (("cache-control", "no-store"), ("pragma", "no-cache"))
"""Not to be cached, also by HTTP/1.0 caches (RFC 6749 section 5.1)."""


def preflight(methods: Iterable[str]) -> Endpoint:
    """Answer a CORS preflight request (Fetch standard)."""
    allowed = ", ".join(sorted({*methods, "OPTIONS"}))
    headers = (
        ("allow", allowed),
        ("access-control-allow-methods", allowed),
        # The last one is sent by MCP clients, with requests for metadata too.
        ("access-control-allow-headers", "authorization, content-type, mcp-protocol-version"),
        ("access-control-max-age", "600"),
        *ANY_ORIGIN,
    )

    async def answer(request: Request) -> Response:
        return Response(204, b"", headers)

    return answer


@dataclass(frozen=True, slots=True)
class ClientRefusal:
    """A refusal as JSON: error code, description, `error_uri` and reference.

    `keeps_path` is False for requests to unknown paths: what was typed there may be a secret.
    """

    issuer: str
    decisions: DecisionQueue
    keeps_path: bool = True

    def __call__(
        self, request: Request, refusal: Refusal, client_id: str | None = None
    ) -> Response:
        """Return the response and record the reason. `client_id` is authenticated."""
        endpoint = request.path if self.keeps_path else ""
        reference = self.decisions.put(
            refusal,
            endpoint=endpoint,
            at=request.at,
            client_id=client_id,
            proven=client_id is not None,
        )
        body = {
            "error": refusal.code.value,
            "error_description": refusal.description,
            "error_uri": explained_at(self.issuer, refusal.code, reference),
            "reference": reference,
        }
        headers: list[tuple[str, str]] = [*NOT_STORED, *ANY_ORIGIN]
        if refusal.code is ErrorCode.INVALID_CLIENT:
            headers.append(("www-authenticate", f'Basic realm="{self.issuer}", charset="UTF-8"'))
        if refusal.code is ErrorCode.INVALID_TOKEN:
            headers.append(("www-authenticate", 'Bearer error="invalid_token"'))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        return json_response(body, refusal.status or refusal.code.status, tuple(headers))
