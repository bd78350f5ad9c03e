"""Bearer tokens: found in the Authorization header, refused with a challenge (RFC 6750)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret

NO_TOKEN = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this needs an access token in the Authorization header: Bearer, a space, the token",
    "authorization.missing",
)
"""No token was sent: the challenge then names no error (RFC 6750 section 3.1)."""

_TOLD = frozenset(
    {ErrorCode.INVALID_TOKEN, ErrorCode.INSUFFICIENT_SCOPE, ErrorCode.INVALID_REQUEST}
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """An API's challenge: its realm and the URL of its metadata (RFC 9728 section 5.1)."""

    realm: str
    resource_metadata: str = ""

    def header(self, refusal: Refusal, scope: str = "") -> str:
        """Return the header for `refusal`; `scope` names the scopes that would suffice."""
        parts = [f'realm="{_quoted(self.realm)}"']
        if refusal.code in _TOLD and refusal != NO_TOKEN:
            parts.append(f'error="{refusal.code}"')
            parts.append(f'error_description="{_quoted(refusal.description)}"')
        if scope:
            parts.append(f'scope="{_quoted(scope)}"')
        if self.resource_metadata:
            parts.append(f'resource_metadata="{_quoted(self.resource_metadata)}"')
        return "Bearer " + ", ".join(parts)


def _quoted(text: str) -> str:
    """Return `text` without characters that could end the quotes or the header line."""
    return "".join(char for char in text if " " <= char <= "~" and char not in '"\\')


_BEARER = re.compile(r"(?i:bearer) ([A-Za-z0-9._~+/-]+=*)", re.ASCII)
_SCHEME = re.compile(r"(?i:bearer)(?![^ \t,])", re.ASCII)

LONGEST = 16_384
"""Maximum number of characters in a token; longer ones are not examined."""

_MALFORMED = Refusal(
    ErrorCode.INVALID_TOKEN,
    "the Authorization header must be exactly: Bearer, one space, the access token",
    "authorization.malformed",
    "Bearer and one token",
    "other text",
)
_REPEATED = Refusal(
    ErrorCode.INVALID_REQUEST,
    "the request has more than one Authorization header",
    "authorization.repeated",
)


def read_bearer(fields: Sequence[str]) -> Secret:
    """Return the token in the Authorization fields of one request.

    Raises Refused: `NO_TOKEN` if there is none or another scheme, `invalid_token` for anything
    after `Bearer` but one token, `invalid_request` for more than one field.
    """
    if not fields:
        raise Refused(NO_TOKEN)
    if len(fields) > 1:
        raise Refused(_REPEATED)
    field = fields[0]
    if _SCHEME.match(field) is None:
        raise Refused(NO_TOKEN)
    match = _BEARER.fullmatch(field)
    if match is None or len(match[1]) > LONGEST:
        raise Refused(_MALFORMED)
    return Secret(match[1])
