"""Clients: applications that request access, and what their registration permits."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct, field

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.openid import IdTokenClaims, OpenIdRegistration
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.url import matches_redirect_uri, origin


class ProfileName(StrEnum):
    """The profiles."""

    CLASSIC = "classic"
    MODERN = "modern"


class ProfileRules(Struct, frozen=True):
    """The rules of a profile: what it allows and requires."""

    name: ProfileName
    token_parameters_in_query: bool
    #: Confidential clients need PKCE or, in an OpenID Connect request, `nonce` (RFC 9700 2.1.1).
    pkce_or_nonce: bool
    implicit_and_password: bool


PROFILES: Mapping[str, ProfileRules] = {
    ProfileName.CLASSIC: ProfileRules(
        ProfileName.CLASSIC,
        token_parameters_in_query=True,
        pkce_or_nonce=False,
        implicit_and_password=True,
    ),
    ProfileName.MODERN: ProfileRules(
        ProfileName.MODERN,
        token_parameters_in_query=False,
        pkce_or_nonce=True,
        implicit_and_password=False,
    ),
}


RESOURCE_SERVER = "resource-server"
"""The client id of the resource server in this package."""

CLIENT_SCOPE = Scope(("client:read", "client:write"))
"""A client's access to its own record; no user can grant it."""


class ClientType(StrEnum):
    """The client type: whether it can keep a secret (RFC 6749 section 2.1)."""

    CONFIDENTIAL = "confidential"
    PUBLIC = "public"


class ApplicationType(StrEnum):
    """The kind of application (OpenID Connect Registration section 2)."""

    WEB = "web"
    NATIVE = "native"


class AccessTokenFormat(StrEnum):
    """The format of access tokens: JWT (RFC 9068) or reference."""

    JWT = "jwt"
    REFERENCE = "reference"


class AuthenticationMethod(StrEnum):
    """The authentication methods that code refers to by name; `METHODS` are all of them.

    One member covers the secret however it is sent: body, Basic, or query if the profile allows it.
    """

    CLIENT_SECRET = "client_secret"
    CLIENT_SECRET_JWT = "client_secret_jwt"
    PRIVATE_KEY_JWT = "private_key_jwt"
    NONE = "none"


def is_by_secret(method: str) -> bool:
    """Return whether clients with this authentication method have secrets, as its name says."""
    return method.startswith(AuthenticationMethod.CLIENT_SECRET)


class GrantTypeName(StrEnum):
    """The grant types for which a client may be registered."""

    AUTHORIZATION_CODE = "authorization_code"
    IMPLICIT = "implicit"
    PASSWORD = "password"
    CLIENT_CREDENTIALS = "client_credentials"
    REFRESH_TOKEN = "refresh_token"
    DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
    TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
    JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


DISCOURAGED = (GrantTypeName.IMPLICIT, GrantTypeName.PASSWORD)
"""The grant types that RFC 9700 forbids (sections 2.1.2 and 2.4); no other can join them.

The profile `modern` has none; administrators enable them for one client at a time.
"""


class ClientSecret(Struct, frozen=True):
    """The fingerprint of a client secret; a client has at most two.

    `sealed` is the encrypted secret of a client that signs with it, otherwise "".
    """

    id: str
    fingerprint: Fingerprint
    expires_at: Instant | None
    sealed: str = ""

    def is_live(self, now: Instant) -> bool:
        """Return whether the secret can still be used."""
        return self.expires_at is None or self.expires_at > now


class Client(Struct, frozen=True, kw_only=True):
    """A registered application (RFC 7591 section 2); the defaults are those of one without rights.

    What is chosen for it is declared in `ClientMetadata`; here it is checked and typed.
    """

    id: str
    name: str = ""
    description: str = ""
    type: ClientType = ClientType.CONFIDENTIAL
    application_type: ApplicationType = ApplicationType.WEB
    profile_name: ProfileName = ProfileName.MODERN
    access_token_format: AccessTokenFormat = AccessTokenFormat.JWT
    access_token_lifetime: Lifetime | None = None
    authentication_method: str = AuthenticationMethod.CLIENT_SECRET.value
    redirect_uris: tuple[str, ...] = ()
    grant_types: frozenset[str] = frozenset()
    scope: Scope = field(default_factory=Scope)
    default_scope: Scope = field(default_factory=Scope)
    required_scope: Scope = field(default_factory=Scope)
    key_set: KeySet = field(default_factory=KeySet)
    requires_pkce: bool = True
    rotates_refresh_token: bool = False
    ends_with_session: bool = False
    logo_uri: str = ""
    policy_uri: str = ""
    tos_uri: str = ""
    created_at: Instant
    changed_at: Instant
    disabled_at: Instant | None = None
    secrets: tuple[ClientSecret, ...] = ()
    openid: OpenIdRegistration = OpenIdRegistration.NOTHING
    self_registered: bool = False
    #: When an administrator verified who runs it.
    verified_at: Instant | None = None
    #: The name of our copy of its logo; "" if there is none.
    logo: str = ""
    #: Tokens and codes issued in an earlier generation have ended.
    generation: int = 0
    #: The clients whose access tokens it may exchange, beside its own.
    exchanges_tokens_of: tuple[str, ...] = ()
    #: The identifiers of the APIs for which it may exchange tokens of other APIs.
    exchanges_for: tuple[str, ...] = ()

    @property
    def is_public(self) -> bool:
        """Whether the client runs where it cannot keep a secret."""
        return self.type is ClientType.PUBLIC

    @property
    def is_native(self) -> bool:
        """Whether the client runs on the user's device outside a browser (RFC 8252)."""
        return self.application_type is ApplicationType.NATIVE

    @property
    def profile(self) -> ProfileRules:
        """Return the rules of its profile."""
        return PROFILES[self.profile_name]

    @property
    def has_secret(self) -> bool:
        """Whether the client authenticates with a secret, sent or used for signing."""
        return is_by_secret(self.authentication_method)

    def live_secrets(self, now: Instant) -> tuple[ClientSecret, ...]:
        """Return the secrets that can still be used."""
        return tuple(each for each in self.secrets if each.is_live(now))

    @property
    def signs_with_secret(self) -> bool:
        """Whether the client's secret is also an HMAC key, which must be stored decryptably."""
        openid = self.openid
        return self.authentication_method == AuthenticationMethod.CLIENT_SECRET_JWT or (
            self.has_secret
            and "HS256"
            in {
                openid.id_token_signed_response_alg,
                openid.userinfo_signed_response_alg,
                openid.introspection_signed_response_alg,
                openid.request_object_signing_alg,
            }
        )

    @property
    def needs_pkce(self) -> bool:
        """Whether every request for a code needs a code challenge (RFC 9700 2.1.1)."""
        return self.is_public or self.requires_pkce

    @property
    def has_scope_claims_in_id_token(self) -> bool:
        """Return whether ID tokens from the token endpoint carry the claims of the granted scopes.

        OpenID Connect Core section 5.4 leaves them to userinfo; common libraries never call it.
        """
        chosen = self.openid.id_token_claims
        if chosen == IdTokenClaims.AUTO:
            return not self.self_registered
        return chosen == IdTokenClaims.SCOPE

    @property
    def may_show_logo(self) -> bool:
        """Whether its logo is fetched and shown: not for an unreviewed self-registered app."""
        return not self.self_registered or self.verified_at is not None

    @property
    def appearance(self) -> str:
        """Return what users saw when they consented; a change requires consent again.

        It includes the redirect URIs: an attacker with a client's secret can change them and must
        not inherit the consents that users gave.
        """
        return _appearance(
            self.name, self.logo_uri, self.policy_uri, self.tos_uri, self.redirect_uris
        )

    def may_use(self, grant_type: str) -> bool:
        """Return whether the client registered for this grant type and its profile permits it."""
        if grant_type in DISCOURAGED:
            return grant_type in self.grant_types and self.profile.implicit_and_password
        return grant_type in self.grant_types

    def registered_redirect_uri(self, presented: str, *, any_port: bool = True) -> bool:
        """Return whether the redirect URI is registered: equal bytes, but for a port of loopback.

        A public client with a loopback address runs on the user's device, also one that says web
        (RFC 8252 section 7.3); the port of a confidential web app is part of its address.
        """
        native = any_port and (self.is_native or self.is_public)
        return any(
            matches_redirect_uri(registered, presented, native=native)
            for registered in self.redirect_uris
        )

    @property
    def domain(self) -> str:
        """The host of the client's first redirect URI, by which users recognise it."""
        if not self.redirect_uris:
            return ""
        return origin(self.redirect_uris[0]).partition("://")[2] or self.redirect_uris[0]


@lru_cache(maxsize=1_024)
def _appearance(
    name: str, logo_uri: str, policy_uri: str, tos_uri: str, redirect_uris: tuple[str, ...]
) -> str:
    # Needed twice by every authorization, and rarely changed.
    places = " ".join(sorted({origin(uri) for uri in redirect_uris}))
    return f"{name}\n{logo_uri}\n{policy_uri}\n{tos_uri}\n{places}"


def client_without_rights(client_id: str, now: Instant) -> Client:
    """Return a confidential client without name, grant types and scopes."""
    return Client(id=client_id, created_at=now, changed_at=now)


class TeamRole(StrEnum):
    """The roles of an app's team members."""

    OWNER = "owner"  # everything
    MEMBER = "member"  # everything except the team and deleting the app


class Membership(Struct, frozen=True):
    """One user in the team of one app."""

    client_id: str
    uid: Uid
    role: TeamRole
    since: Instant

    @property
    def owns(self) -> bool:
        """Whether the member may change the team and delete the app."""
        return self.role is TeamRole.OWNER
