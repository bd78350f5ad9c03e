"""Events of consents, codes, grants and tokens.

`audience` is the identifier of the API that an access token is for. Events stored before it was
recorded have none.
"""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByClient, ByUser


@dataclass(frozen=True, slots=True)
class ConsentGiven(ByUser):
    """A user allowed a client this scope, at these APIs, and individually requested claims."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    scope: str
    claims: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsentDenied(ByUser):
    """A user declined a consent request."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    client_id: str


@dataclass(frozen=True, slots=True)
class ConsentWithdrawn(ByUser):
    """A user withdrew a consent; the client must ask again."""

    uid: int
    client_id: str


@dataclass(frozen=True, slots=True)
class CodeIssued(ByUser):
    """An authorization code was issued; `pkce` says whether the request had a code challenge."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    pkce: bool


@dataclass(frozen=True, slots=True)
class CodeRedeemed(ByClient):
    """A code was redeemed: the grant began and its first access token was issued."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


@dataclass(frozen=True, slots=True)
class CodeReplayed(ByClient):
    """A code was used twice; its grant was revoked."""

    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class CodeSpoiled(ByClient):
    """A code came with a wrong verifier or redirect URI from its client; the code is void."""

    client_id: str
    grant_id: str
    check: str


@dataclass(frozen=True, slots=True)
class DeviceCodeIssued(ByClient):
    """A device asked for authorization and shows a user code."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class DeviceCodeAllowed(ByUser):
    """A user entered the code of a device and allowed its client this scope."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    scope: str


@dataclass(frozen=True, slots=True)
class DeviceCodeRedeemed(ByClient):
    """A device code was redeemed: the grant began and its first access token was issued."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


@dataclass(frozen=True, slots=True)
class DeviceCodeSpoiled(ByClient):
    """An allowed device code was redeemed after what it depends on had ended; the code is void."""

    client_id: str
    grant_id: str
    check: str


@dataclass(frozen=True, slots=True)
class AccessTokenIssued(ByClient):
    """An access token was issued without a code or a refresh token; `grant_type` says how."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int | None
    grant_id: str | None
    token_id: str
    grant_type: str
    scope: str
    audience: str


@dataclass(frozen=True, slots=True)
class IdentityAssertionIssued(ByClient):
    """A client got an assertion about a user for the authorization server `audience`."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    token_id: str
    audience: str
    scope: str


@dataclass(frozen=True, slots=True)
class IdentityAssertionRedeemed(ByClient):
    """A client got an access token for the user whom an assertion of `issuer` names."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    grant_id: str
    token_id: str
    issuer: str
    scope: str
    audience: str


@dataclass(frozen=True, slots=True)
class RefreshTokenUsed(ByClient):
    """A refresh token was used; `rotated` says whether it was replaced."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    rotated: bool
    scope: str
    audience: str


@dataclass(frozen=True, slots=True)
class RefreshTokenRepeated(ByClient):
    """The previous refresh token was used within the grace period; its successor was returned."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str
    token_id: str
    audience: str


@dataclass(frozen=True, slots=True)
class RefreshTokenReused(ByClient):
    """A replaced refresh token was used too late (`reuse_detected`); its grant ended."""

    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class AccessTokenRevoked(ByClient):
    """An access token was revoked."""

    client_id: str
    grant_id: str | None
    token_id: str
    audience: str


@dataclass(frozen=True, slots=True)
class GrantRevoked(ByUser):
    """A grant was revoked with all its tokens; `because` says why."""

    uid: int
    client_id: str
    grant_id: str
    because: str
