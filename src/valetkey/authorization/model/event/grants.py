"""Events of consents, codes, grants and tokens.

`audience` is the identifier of the API that an access token is for. Events stored before it was
recorded have none.
"""

from typing import ClassVar

from valetkey.authorization.model.event.event import ByClient, ByUser
from valetkey.authorization.model.register.client import GrantTypeName
from valetkey.kernel.words import translatable


class ConsentGiven(ByUser, frozen=True):
    """A user allowed a client this scope, at these APIs, and individually requested claims."""

    sentence = translatable("%(uid)s allowed the app %(client_id)s to use their account.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    scope: str
    claims: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()


class ConsentDenied(ByUser, frozen=True):
    """A user declined a consent request."""

    sentence = translatable("%(uid)s denied access to the app %(client_id)s.")

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    client_id: str


class ConsentWithdrawn(ByUser, frozen=True):
    """A user withdrew a consent; the client must ask again."""

    sentence = translatable("%(uid)s revoked access for the app %(client_id)s.")

    uid: int
    client_id: str


class CodeIssued(ByUser, frozen=True):
    """An authorization code was issued; `pkce` says whether the request had a code challenge."""

    sentence = translatable("The app %(client_id)s got an authorization code for %(uid)s.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    pkce: bool


class CodeRedeemed(ByClient, frozen=True):
    """A code was redeemed: the grant began and its first access token was issued."""

    sentence = translatable("The app %(client_id)s got access to the account %(uid)s.")

    issued_by: ClassVar[str] = GrantTypeName.AUTHORIZATION_CODE.value
    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


class CodeReplayed(ByClient, frozen=True):
    """A code was used twice; its grant was revoked."""

    sentence = translatable(
        "The app %(client_id)s used an authorization code twice; the grant was revoked."
    )

    client_id: str
    grant_id: str


class CodeSpoiled(ByClient, frozen=True):
    """A code came with a wrong verifier or redirect URI from its client; the code is void."""

    sentence = translatable(
        "The app %(client_id)s used an authorization code incorrectly; the code is no longer valid."
    )

    client_id: str
    grant_id: str
    check: str


class AccessTokenIssued(ByClient, frozen=True):
    """An access token was issued without a code or a refresh token; `grant_type` says how."""

    sentence = translatable("The app %(client_id)s got an access token.")

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

    sentence = translatable(
        "The app %(client_id)s got an identity assertion of %(uid)s for another service."
    )

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    token_id: str
    audience: str
    scope: str


class IdentityAssertionRedeemed(ByClient, frozen=True):
    """A client got an access token for the user whom an assertion of `issuer` names."""

    sentence = translatable(
        "The app %(client_id)s got access to the account %(uid)s with an identity assertion "
        "from another service."
    )

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

    sentence = translatable("The app %(client_id)s renewed its access to the account %(uid)s.")

    issued_by: ClassVar[str] = GrantTypeName.REFRESH_TOKEN.value
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

    sentence = translatable("The app %(client_id)s repeated a refresh within the grace period.")

    issued_by: ClassVar[str] = GrantTypeName.REFRESH_TOKEN.value
    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str
    token_id: str
    audience: str


class RefreshTokenReused(ByClient, frozen=True):
    """A replaced refresh token was used too late; its grant ended as `refresh_token_reused`."""

    sentence = translatable(
        "A replaced refresh token of the app %(client_id)s was used; the grant ended."
    )

    client_id: str
    grant_id: str


class AccessTokenRevoked(ByClient, frozen=True):
    """An access token was revoked."""

    sentence = translatable("An access token of the app %(client_id)s was revoked.")

    client_id: str
    grant_id: str | None
    token_id: str
    audience: str


class GrantRevoked(ByUser, frozen=True):
    """A grant was revoked with all its tokens; `because` says why."""

    sentence = translatable(
        "The access of the app %(client_id)s to the account %(uid)s ended: %(because)s."
    )

    uid: int
    client_id: str
    grant_id: str
    because: str
