"""Events of consents, codes, grants and tokens.

`audience` is the identifier of the API that an access token is for. Events stored before it was
recorded have none.
"""

from typing import ClassVar

from valetkey.authorization.model.event.event import ByClient, ByUser


class ConsentGiven(ByUser, frozen=True):
    """A user allowed a client this scope, at these APIs, and individually requested claims."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    scope: str
    claims: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()


class ConsentDenied(ByUser, frozen=True):
    """A user declined a consent request."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    client_id: str


class ConsentWithdrawn(ByUser, frozen=True):
    """A user withdrew a consent; the client must ask again."""

    uid: int
    client_id: str


class CodeIssued(ByUser, frozen=True):
    """An authorization code was issued; `pkce` says whether the request had a code challenge."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    pkce: bool


class CodeRedeemed(ByClient, frozen=True):
    """A code was redeemed: the grant began and its first access token was issued."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


class CodeReplayed(ByClient, frozen=True):
    """A code was used twice; its grant was revoked."""

    client_id: str
    grant_id: str


class CodeSpoiled(ByClient, frozen=True):
    """A code came with a wrong verifier or redirect URI from its client; the code is void."""

    client_id: str
    grant_id: str
    check: str


class DeviceCodeIssued(ByClient, frozen=True):
    """A device asked for authorization and shows a user code."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str


class DeviceCodeAllowed(ByUser, frozen=True):
    """A user entered the code of a device and allowed its client this scope."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    scope: str


class DeviceCodeRedeemed(ByClient, frozen=True):
    """A device code was redeemed: the grant began and its first access token was issued."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


class DeviceCodeSpoiled(ByClient, frozen=True):
    """An allowed device code was redeemed after what it depends on had ended; the code is void."""

    client_id: str
    grant_id: str
    check: str


class AccessTokenIssued(ByClient, frozen=True):
    """An access token was issued without a code or a refresh token; `grant_type` says how."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int | None
    grant_id: str | None
    token_id: str
    grant_type: str
    scope: str
    audience: str


class IdentityAssertionIssued(ByClient, frozen=True):
    """A client got an assertion about a user for the authorization server `audience`."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    token_id: str
    audience: str
    scope: str


class IdentityAssertionRedeemed(ByClient, frozen=True):
    """A client got an access token for the user whom an assertion of `issuer` names."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    grant_id: str
    token_id: str
    issuer: str
    scope: str
    audience: str


class RefreshTokenUsed(ByClient, frozen=True):
    """A refresh token was used; `rotated` says whether it was replaced."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    rotated: bool
    scope: str
    audience: str


class RefreshTokenRepeated(ByClient, frozen=True):
    """The previous refresh token was used within the grace period; its successor was returned."""

    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str
    token_id: str
    audience: str


class RefreshTokenReused(ByClient, frozen=True):
    """A replaced refresh token was used too late; its grant ended as `refresh_token_reused`."""

    client_id: str
    grant_id: str


class AccessTokenRevoked(ByClient, frozen=True):
    """An access token was revoked."""

    client_id: str
    grant_id: str | None
    token_id: str
    audience: str


class GrantRevoked(ByUser, frozen=True):
    """A grant was revoked with all its tokens; `because` says why."""

    uid: int
    client_id: str
    grant_id: str
    because: str
