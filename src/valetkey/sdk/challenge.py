"""The WWW-Authenticate header of refused requests (RFC 6750 section 3)."""

from dataclasses import dataclass

from valetkey.kernel.refusal import ErrorCode, Refusal

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
