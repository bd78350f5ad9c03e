"""Caller: the bearer of a token, and its permissions; how tokens are presented (RFC 6750)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from valetkey.kernel.jose.access_token import Binding
from valetkey.kernel.moment import Instant, is_live
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret

_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Caller:
    """The bearer of a live access token, as its issuer describes it.

    Tokens expire: code that keeps a caller checks `is_live` before each use. `bindings` are the
    keys that the caller proved to hold; a bearer token has none. `claims` are the token's other
    claims, as the issuer's operator declared them.

    >>> caller = Caller(
    ...     subject="1001", client_id="printer", scope=Scope.parse("notes:read"), token_id="at_1",
    ...     grant_id="gr_1", issued_at=Instant(0), expires_at=Instant(3600),
    ...     claims={"roles": ["editor"]},
    ... )
    >>> caller.user, caller.roles
    ('1001', ('editor',))
    >>> caller.allows("notes:write", "notes:read")
    True
    >>> caller.is_live(Instant(3600))
    False
    """

    subject: str
    client_id: str
    scope: Scope
    token_id: str
    grant_id: str | None
    issued_at: Instant
    expires_at: Instant
    bindings: tuple[Binding, ...] = ()
    claims: Mapping[str, object] = field(default_factory=lambda: _NO_CLAIMS, hash=False)

    @property
    def user(self) -> str | None:
        """Return the user's `uid` in digits; None if the client acts on its own behalf."""
        return None if self.subject == self.client_id else self.subject

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the caller's roles at this API, from the `roles` claim (RFC 9068 section 2.2.3).

        None of them if the claim is missing or is no list of strings.
        """
        listed = self.claims.get("roles")
        roles = cast("list[object]", listed) if isinstance(listed, list) else []
        names = tuple(role for role in roles if isinstance(role, str))
        return names if len(names) == len(roles) else ()

    def allows(self, *names: str) -> bool:
        """Return whether any of these scope names was granted."""
        granted = self.scope.names
        for name in names:  # noqa: SIM110 - a generator would cost more than all the rest
            if name in granted:
                return True
        return False

    def is_live(self, now: Instant) -> bool:
        """Return whether the token has not expired and was not issued in the future."""
        return is_live(self.issued_at, self.expires_at, now)


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
