"""Clients: applications that ask for access, and what their registration lets them do."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from valetkey.authorization.model.register.openid import OpenIdRegistration
from valetkey.authorization.model.register.profile import PROFILES, Profile, ProfileName
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.url import matches_redirect_uri, origin

RESOURCE_SERVER = "resource-server"
"""The client id under which the shipped resource server is registered."""

CLIENT_SCOPE = Scope(("client:read", "client:write"))
"""What a client may do to its own record; never a user's to give (specification S22)."""


class ClientType(StrEnum):
    """RFC 6749 section 2.1: whether it can keep a secret."""

    CONFIDENTIAL = "confidential"
    PUBLIC = "public"


class ApplicationType(StrEnum):
    """OpenID Registration section 2: where it runs."""

    WEB = "web"
    NATIVE = "native"


class AccessTokenFormat(StrEnum):
    """By value (RFC 9068) or by reference."""

    JWT = "jwt"
    REFERENCE = "reference"


class AuthenticationMethod(StrEnum):
    """How a client proves who it is at the token endpoint (RFC 7591 section 2).

    One member covers the secret wherever it travels: body, Basic, or query by profile.
    """

    CLIENT_SECRET = "client_secret"
    CLIENT_SECRET_JWT = "client_secret_jwt"
    PRIVATE_KEY_JWT = "private_key_jwt"
    NONE = "none"


BY_SECRET = frozenset({AuthenticationMethod.CLIENT_SECRET, AuthenticationMethod.CLIENT_SECRET_JWT})
"""The methods of a client that has secrets."""


class GrantTypeName(StrEnum):
    """The grant types a client may be registered for."""

    AUTHORIZATION_CODE = "authorization_code"
    IMPLICIT = "implicit"
    PASSWORD = "password"
    CLIENT_CREDENTIALS = "client_credentials"
    REFRESH_TOKEN = "refresh_token"


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """One of a client's secrets, as its fingerprint; two may live side by side.

    `sealed` is the secret itself, for a client that signs with it; "" for every other.
    """

    id: str
    fingerprint: Fingerprint
    expires_at: Instant | None
    sealed: str = ""

    def is_live(self, now: Instant) -> bool:
        """Whether it still authenticates."""
        return self.expires_at is None or self.expires_at > now


@dataclass(frozen=True, slots=True)
class Client:
    """One registered application (RFC 7591 section 2)."""

    id: str
    name: str
    description: str
    type: ClientType
    application_type: ApplicationType
    profile_name: ProfileName
    access_token_format: AccessTokenFormat
    access_token_lifetime: Lifetime | None
    authentication_method: AuthenticationMethod
    redirect_uris: tuple[str, ...]
    grant_types: frozenset[str]
    scope: Scope
    default_scope: Scope
    required_scope: Scope
    key_set: KeySet
    requires_pkce: bool
    rotates_refresh_token: bool
    ends_with_session: bool
    logo_uri: str
    policy_uri: str
    tos_uri: str
    created_at: Instant
    changed_at: Instant
    disabled_at: Instant | None
    secrets: tuple[ClientSecret, ...] = ()
    openid: OpenIdRegistration = OpenIdRegistration.NOTHING
    self_registered: bool = False
    #: Since when an administrator says that they know who is behind it.
    verified_at: Instant | None = None
    #: The name of our copy of its logo; "" while there is none.
    logo: str = ""
    #: What was issued to it in an earlier one has ended.
    generation: int = 0

    @property
    def is_public(self) -> bool:
        """Whether it runs where it cannot keep a secret."""
        return self.type is ClientType.PUBLIC

    @property
    def is_native(self) -> bool:
        """Whether it runs on the user's device outside a browser (RFC 8252)."""
        return self.application_type is ApplicationType.NATIVE

    @property
    def profile(self) -> Profile:
        """What its one word allows and demands."""
        return PROFILES[self.profile_name]

    @property
    def has_secret(self) -> bool:
        """Whether it proves who it is by a secret, shown or signed with."""
        return self.authentication_method in BY_SECRET

    @property
    def signs_with_secret(self) -> bool:
        """Whether its secret is a key as well, and must be kept so that it can be read again."""
        openid = self.openid
        return self.authentication_method is AuthenticationMethod.CLIENT_SECRET_JWT or (
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
        """Whether an authorization request without a code challenge is refused (RFC 9700 2.1.1)."""
        return self.is_public or self.requires_pkce or self.profile.pkce_for_everyone

    @property
    def may_show_logo(self) -> bool:
        """Whether its logo is fetched and shown: not for one that nobody here has looked at."""
        return not self.self_registered or self.verified_at is not None

    @property
    def appearance(self) -> str:
        """What a person saw when consenting; a change of it asks again.

        Where the answers go is part of it: who only holds a client's secret may move its redirect
        URIs (specification S22), and must not inherit what people allowed.
        """
        return _appearance(
            self.name, self.logo_uri, self.policy_uri, self.tos_uri, self.redirect_uris
        )

    def may_use(self, grant_type: str) -> bool:
        """Whether it is registered for this grant type and its profile permits it."""
        if grant_type in {GrantTypeName.IMPLICIT, GrantTypeName.PASSWORD}:
            return grant_type in self.grant_types and self.profile.implicit_and_password
        return grant_type in self.grant_types

    def registered_redirect_uri(self, presented: str) -> bool:
        """Whether it may be sent there: byte equality, loopback port free for native clients."""
        return any(
            matches_redirect_uri(registered, presented, native=self.is_native)
            for registered in self.redirect_uris
        )

    @property
    def domain(self) -> str:
        """Where its first redirect URI leads, for people to recognise."""
        if not self.redirect_uris:
            return ""
        return origin(self.redirect_uris[0]).partition("://")[2] or self.redirect_uris[0]


@lru_cache(maxsize=1_024)
def _appearance(
    name: str, logo_uri: str, policy_uri: str, tos_uri: str, redirect_uris: tuple[str, ...]
) -> str:
    # Asked for twice by every authorization; a client's looks hardly ever change.
    places = " ".join(sorted({origin(uri) for uri in redirect_uris}))
    return f"{name}\n{logo_uri}\n{policy_uri}\n{tos_uri}\n{places}"


def client_without_rights(client_id: str, now: Instant) -> Client:
    """A confidential client with no name, no grant type and no scope; say the rest by `replace`."""
    return Client(
        id=client_id,
        name="",
        description="",
        type=ClientType.CONFIDENTIAL,
        application_type=ApplicationType.WEB,
        profile_name=ProfileName.MODERN,
        access_token_format=AccessTokenFormat.JWT,
        access_token_lifetime=None,
        authentication_method=AuthenticationMethod.CLIENT_SECRET,
        redirect_uris=(),
        grant_types=frozenset(),
        scope=Scope(),
        default_scope=Scope(),
        required_scope=Scope(),
        key_set=KeySet(),
        requires_pkce=True,
        rotates_refresh_token=False,
        ends_with_session=False,
        logo_uri="",
        policy_uri="",
        tos_uri="",
        created_at=now,
        changed_at=now,
        disabled_at=None,
    )
