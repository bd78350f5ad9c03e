"""Parse If-Match, If-None-Match (RFC 9110 section 13), Idempotency-Key and Prefer (RFC 7240)."""

import re
from enum import StrEnum
from hashlib import sha256

from valetkey.kernel.preconditions import (
    FAILED,
    NO_PRECONDITIONS,
    REQUIRED,
    Preconditions,
    etag_of,
    preconditions,
)
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import to_base64url
from valetkey.resource.storage.idempotency_keys import IdempotencyKey
from valetkey.web.exchange import Headers, Pairs, Request

__all__ = [
    "FAILED",
    "NO_PRECONDITIONS",
    "OTHER_BODY",
    "REQUIRED",
    "Preconditions",
    "etag_of",
    "read_idempotency_key",
    "read_preconditions",
]

_KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)

OTHER_BODY = Refusal(
    ErrorCode.INVALID_REQUEST,
    "this Idempotency-Key was used for a request with another body: take a new key",
    "idempotency_key.other_body",
    "the body of the first request",
    "another body",
)
"""422."""


class Preference(StrEnum):
    """The body to send after a change."""

    REPRESENTATION = "return=representation"
    MINIMAL = "return=minimal"


def read_preference(headers: Headers) -> Preference | None:
    """Return the first supported preference, or None. Unknown ones are ignored."""
    for field in headers.all("prefer"):
        for item in field.split(","):
            said = item.partition(";")[0].replace('"', "").replace(" ", "").strip("\t").lower()
            if said in tuple(Preference):
                return Preference(said)
    return None


def applied(preference: Preference | None) -> Pairs:
    """Return the header that names the preference applied."""
    return () if preference is None else (("preference-applied", preference.value),)


def read_preconditions(headers: Headers) -> Preconditions:
    """Parse If-Match and If-None-Match. Raises Refused (400) for an invalid list of tags."""
    return preconditions(headers.all("if-match"), headers.all("if-none-match"))


def read_idempotency_key(request: Request, client_id: str) -> IdempotencyKey | None:
    """Return a POST's key and the hash of its body. Raises Refused (400) for a malformed key."""
    fields = request.headers.all("idempotency-key")
    if not fields:
        return None
    name, *others = fields
    if others or _KEY.fullmatch(name) is None:
        raise Refused(
            Refusal(
                ErrorCode.INVALID_REQUEST,
                "the Idempotency-Key must be one text of 1 to 255 visible ASCII characters",
                "idempotency_key.malformed",
            )
        )
    return IdempotencyKey(client_id, name, to_base64url(sha256(request.body).digest()))
