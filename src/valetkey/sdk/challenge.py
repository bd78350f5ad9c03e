"""What a refused request is told about tokens: the WWW-Authenticate header (RFC 6750 section 3)."""

from dataclasses import dataclass

from valetkey.kernel.refusal import ErrorCode, Refusal

NO_TOKEN = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this needs an access token in the Authorization header: Bearer, a space, the token",
    "authorization.missing",
)
"""Nobody showed a token: the challenge then names no error (RFC 6750 section 3.1)."""

_TOLD = frozenset(
    {ErrorCode.INVALID_TOKEN, ErrorCode.INSUFFICIENT_SCOPE, ErrorCode.INVALID_REQUEST}
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """How an API introduces itself: its realm and where its metadata is (RFC 9728 section 5.1)."""

    realm: str
    resource_metadata: str = ""

    def header(self, refusal: Refusal, scope: str = "") -> str:
        """The header's value for `refusal`; `scope` says which scopes would be enough."""
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
    """`text` with nothing left that could end the quotes or the header line."""
    return "".join(char for char in text if " " <= char <= "~" and char not in '"\\')
