"""Errors of the admin API: problem documents (RFC 9457), with a challenge where required."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.storage.decisions import DecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.exchange import Refuse, Request, Response

_TYPE = ("content-type", "application/problem+json")
_NO_STORE = ("cache-control", "no-store")
_UNAUTHORIZED = 401

NO_TOKEN = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this needs a token of the admin API that works, sent as Authorization: Bearer",
    "admin_api.token",
    "a valid token of a user with a role",
    "none, or another",
)


@dataclass(frozen=True, slots=True)
class Problems:
    """Answers every refusal of this API."""

    issuer: str
    decisions: DecisionQueue

    def at(self, path: str) -> Refuse:
        """Return the error handler of this path's route."""

        def refuse(request: Request, refusal: Refusal) -> Response:
            return self.answer(request, refusal, path)

        return refuse

    def answer(
        self, request: Request, refusal: Refusal, path: str, faults: Sequence[MetadataError] = ()
    ) -> Response:
        """The problem; its reason is kept behind the reference."""
        reference = self.decisions.put(refusal, endpoint=path, at=request.at)
        status = refusal.code.status
        problem: dict[str, object] = {
            "type": f"{self.issuer}/errors/{refusal.code.value}",
            "title": refusal.code.heading,
            "status": status,
            "detail": refusal.description,
            "code": refusal.code.value,
            "reference": reference,
        }
        if faults:
            problem["errors"] = [
                {"pointer": f"/{fault.field}", "detail": fault.detail} for fault in faults
            ]
        headers: list[tuple[str, str]] = [_TYPE, _NO_STORE]
        if status == _UNAUTHORIZED:
            headers.append(("www-authenticate", 'Bearer realm="admin API", error="invalid_token"'))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        return Response(status, msgspec.json.encode(problem), tuple(headers))
