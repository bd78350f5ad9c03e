"""Responses of client registration, readable by scripts of any origin (RFC 7591 section 3.2)."""

from dataclasses import dataclass
from typing import cast

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.registrations import Registered
from valetkey.authorization.endpoints.client.answer import ANY_ORIGIN, ClientRefusal
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.protocol.register.self_registration import (
    members,
    refuse_registration,
)
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.json_body import read_json

_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class RegistrationAnswers:
    """Registration responses and refusals; never cached."""

    issuer: str
    refusal: ClientRefusal

    def told(self, registered: Registered, token: str, status: int) -> Response:
        """Return the stored record with all defaults, and secrets for its owner."""
        client = registered.client
        record: dict[str, object] = {
            "client_id": client.id,
            "client_id_issued_at": client.created_at,
            **dict(members(metadata_of(client))),
            "registration_client_uri": f"{self.issuer}/oauth/register/{client.id}",
            "registration_access_token": token,
        }
        if registered.secret is not None:
            record["client_secret"] = registered.secret.reveal()
        if client.has_secret:
            record["client_secret_expires_at"] = 0
        headers = (("cache-control", "no-store"), ("pragma", "no-cache"), *ANY_ORIGIN)
        return json_response(record, status, headers)

    def gone(self) -> Response:
        """Return the response to a deletion."""
        return Response(204, b"", (("cache-control", "no-store"), *ANY_ORIGIN))

    def refuse(self, request: Request, refusal: Refusal, client_id: str | None = None) -> Response:
        """Return the refusal."""
        return self.refusal(request, refusal, client_id)


def bearer(request: Request) -> str:
    """Return the token of the Authorization header, "" for none (RFC 6750 section 2.1)."""
    sent = request.headers.get("authorization") or ""
    return sent[len(_BEARER) :].strip(" ") if sent[: len(_BEARER)].lower() == _BEARER else ""


def read_members(request: Request) -> dict[str, object]:
    """Return the members of the body; Refused unless it is a JSON object."""
    try:
        value = read_json(request.body)
    except Refused as refused:
        refuse_registration([MetadataError("the request", refused.refusal.description)])
    if not isinstance(value, dict):
        refuse_registration([MetadataError("the request", "the body must be a JSON object")])
    return cast("dict[str, object]", value)
