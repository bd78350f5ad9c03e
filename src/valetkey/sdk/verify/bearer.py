"""Find the access token: only in the Authorization header (RFC 6750 section 2.1)."""

import re
from collections.abc import Sequence

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret
from valetkey.sdk.challenge import NO_TOKEN

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
