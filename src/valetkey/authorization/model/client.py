"""Clients: applications that request access, and the declarations of their fields.

`ClientMetadata` and its part `OpenIdRegistration` annotate each of their fields with a `FieldRule`.
Registration, portal, console, commands, `valetkey apply`, the admin API and the reference derive
from these.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum, Flag, StrEnum, auto
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, get_type_hints

import msgspec
from msgspec import Struct, field, structs

from valetkey.authorization.model.user import Uid
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.text import translatable
from valetkey.kernel.url import matches_redirect_uri, origin, parse_url


class FieldType(Enum):
    """The types of field values."""

    LINE = "printable text"
    LINK = "an https address"
    TEXT = "text"
    CHOICE = "one of a list of words"
    TEXTS = "a list of texts"
    SCOPES = "a list of scopes"
    GRANT_TYPES = "a list of grant types"
    FLAG = "true or false"
    WHOLE = "a whole number"
    LIFETIME = "a lifetime"
    KEY_SET = "a JWK set"


LISTS = frozenset({FieldType.TEXTS, FieldType.SCOPES, FieldType.GRANT_TYPES})
"""The kinds whose values are tuples of texts."""


class UnusableValue(Enum):
    """What becomes of a value that cannot be kept, where a program registers a client.

    People who type a value are always told that it is refused.
    """

    REFUSED = "refused"
    LEFT_OUT = "left out"
    LEFT_OUT_BESIDE_OTHERS = "left out, if other entries remain"


class Editor(Flag):
    """The interfaces that may set a field."""

    CLIENT = auto()
    """The client itself, by dynamic registration (RFC 7591, RFC 7592)."""
    DEVELOPER = auto()
    """A developer, by the form of the portal."""
    ADMINISTRATOR = auto()
    """An administrator, by the admin API."""
    OPERATOR = auto()
    """The operator, by commands and the file of `valetkey apply`."""


RFC_7591 = "RFC 7591"
PROTOCOL = Editor.CLIENT | Editor.OPERATOR
STAFF = Editor.ADMINISTRATOR | Editor.OPERATOR
EVERYONE = PROTOCOL | STAFF | Editor.DEVELOPER


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The properties of a field beyond its type, its default and its docstring.

    `source` is the document that defines it. `member` is its name in a registration if it differs
    (RFC 7591 section 2), `attribute` its name in `Client`. `label` is its name on pages: a
    developer's field needs one, and lines and links with one are in the portal's form. Texts have
    from `shortest` to `longest` characters. `unusable` is REFUSED for what identifies the client,
    proves or protects something; other fields are less than what a registration is for.
    """

    kind: FieldType
    source: str = ""
    editors: Editor = EVERYONE
    label: str = ""
    _: KW_ONLY
    hint: str = ""
    member: str = ""
    attribute: str = ""
    choices: type[StrEnum] | tuple[str, ...] = ()
    shortest: int = 0
    longest: int = 2_000
    unusable: UnusableValue = UnusableValue.REFUSED

    @property
    def enum(self) -> type[StrEnum] | None:
        """The type of the choices; None where a registry has their names."""
        return self.choices if isinstance(self.choices, type) else None


class Field(Struct, frozen=True):
    """A declared field. `part` is the attribute of the metadata that holds it, "" for none."""

    name: str
    default: object
    rule: FieldRule
    part: str = ""

    @property
    def member(self) -> str:
        """The name of the field in a registration."""
        return self.rule.member or self.name

    @property
    def attribute(self) -> str:
        """The name of the field in `Client`."""
        return self.rule.attribute or self.name

    def value_of(self, metadata: object) -> Any:
        """Return the value of the field in these `ClientMetadata`."""
        return getattr(getattr(metadata, self.part) if self.part else metadata, self.name)

    def recorded(self, metadata: object) -> Any:
        """Return the value of the field in these `ClientMetadata`, as a `Client` stores it."""
        value = self.value_of(metadata)
        match self.rule.kind:
            case FieldType.CHOICE if value and self.rule.enum:
                return self.rule.enum(value)
            case FieldType.SCOPES:
                return Scope(value)
            case FieldType.GRANT_TYPES:
                return frozenset(value)
            case _:
                return value

    def chosen(self, client: object) -> Any:
        """Return the value of the field in this `Client`, as `ClientMetadata` have it."""
        value = getattr(client, self.attribute)
        match self.rule.kind:
            case FieldType.CHOICE:
                return str(value)
            case FieldType.SCOPES:
                return value.names
            case FieldType.GRANT_TYPES:
                return tuple(sorted(value))
            case _:
                return value


def declared(kind: type[Struct], part: str = "") -> Iterator[Field]:
    """Return the annotated fields of a Struct, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    for member in structs.fields(kind):
        for rule in getattr(hints[member.name], "__metadata__", ()):
            if isinstance(rule, FieldRule):
                yield Field(member.name, "" if member.required else member.default, rule, part)


_CORE = "OpenID Connect Registration"
_SIGN_OUT = "OpenID Connect RP-Initiated Logout"
_FRONT_CHANNEL = "OpenID Connect Front-Channel Logout"
_BACK_CHANNEL = "OpenID Connect Back-Channel Logout"
_optional = partial(FieldRule, editors=PROTOCOL, unusable=UnusableValue.LEFT_OUT)
_text = partial(_optional, FieldType.TEXT)
_texts = partial(_optional, FieldType.TEXTS)
_flag = partial(_optional, FieldType.FLAG)
_whole = partial(_optional, FieldType.WHOLE)
# What identifies users and keys, encrypts, or ends sessions: without it the app would be less safe
# than it asks to be.
_strict_text = partial(_text, unusable=UnusableValue.REFUSED)
_WEBSITE = FieldRule(
    FieldType.LINK, RFC_7591, label=translatable("Website"), unusable=UnusableValue.LEFT_OUT
)


class IdTokenClaims(StrEnum):
    """Which claims about the user the ID tokens of the token endpoint carry."""

    AUTO = "auto"
    SCOPE = "scope"
    REQUESTED = "requested"


_ID_TOKEN_CLAIMS = FieldRule(
    FieldType.CHOICE,
    editors=STAFF | Editor.CLIENT,
    choices=IdTokenClaims,
    unusable=UnusableValue.LEFT_OUT,
)


class AssertionAudience(Struct, frozen=True):
    """Another authorization server, and what a client is and may have there."""

    issuer: str
    client_id: str
    scope: Scope

    @staticmethod
    def parse(text: str) -> "AssertionAudience | None":
        """Read `ISSUER CLIENT_ID SCOPE …`; None if it is malformed."""
        issuer, _, rest = text.partition(" ")
        client_id, _, scope = rest.partition(" ")
        web = parse_url(issuer)
        if web is None or not client_id or (web.scheme != "https" and not web.is_loopback()):
            return None
        try:
            return AssertionAudience(issuer, client_id, Scope.parse(scope))
        except Refused:
            return None


class OpenIdRegistration(Struct, frozen=True):
    """The part `openid` of `ClientMetadata`; the defaults apply to a client that chose nothing.

    A field added here is stored without a migration. Empty `response_types` means all that its
    grant types allow. `sector` is the host under which pairwise subjects are made,
    `encryption_keys` the JWKS document of its encryption keys by value; both are derived.
    """

    NOTHING: ClassVar["OpenIdRegistration"]

    response_types: Annotated[tuple[str, ...], _texts(RFC_7591)] = ()
    """Response types it may request, such as 'code id_token'."""
    subject_type: Annotated[str, _strict_text(_CORE)] = "public"
    """`public`, or `pairwise` for other subjects of the app's users in each sector."""
    sector_identifier_uri: Annotated[str, _strict_text(_CORE)] = ""
    """Address of the list of all redirect URIs of the app's sector."""
    sector: str = ""
    jwks_uri: Annotated[str, _strict_text(RFC_7591)] = ""
    """Address of the app's public keys, in place of the keys themselves."""
    encryption_keys: str = ""
    token_endpoint_auth_method: Annotated[str, _text(RFC_7591)] = ""
    """How the app authenticates: `client_secret_basic`, `private_key_jwt`, …"""
    token_endpoint_auth_signing_alg: Annotated[str, _text(_CORE)] = ""
    """Algorithm with which the app signs its assertions."""
    id_token_signed_response_alg: Annotated[str, _text(_CORE)] = ""
    """Algorithm with which the app's ID tokens are signed; RS256 without it."""
    id_token_claims: Annotated[str, _ID_TOKEN_CLAIMS] = "auto"
    """Claims in the app's ID tokens: those of the granted scopes (`scope`) or those that a request
    names (`requested`); auto is `requested` for an app that registered itself, else `scope`."""
    required_groups: Annotated[tuple[str, ...], FieldRule(FieldType.TEXTS, editors=STAFF)] = ()
    """Groups of which users must be in one to sign in to the app; all users may without it."""
    assertion_audiences: Annotated[tuple[str, ...], FieldRule(FieldType.TEXTS, editors=STAFF)] = ()
    """Authorization servers for which the app may get identity assertions (ID-JAG), each as
    `ISSUER CLIENT_ID SCOPE …`: the other server's issuer, its client id there, and the scopes that
    it may have there."""
    id_token_encrypted_response_alg: Annotated[str, _strict_text(_CORE)] = ""
    """Key management of the app's encrypted ID tokens: `RSA-OAEP-256` or `ECDH-ES`."""
    id_token_encrypted_response_enc: Annotated[str, _text(_CORE)] = ""
    """Cipher of the app's encrypted ID tokens: `A128CBC-HS256`, `A128GCM` or `A256GCM`."""
    userinfo_signed_response_alg: Annotated[str, _text(_CORE)] = ""
    """Algorithm with which the app's userinfo is signed; plain JSON without it."""
    userinfo_encrypted_response_alg: Annotated[str, _strict_text(_CORE)] = ""
    """Key management of the app's encrypted userinfo: `RSA-OAEP-256` or `ECDH-ES`."""
    userinfo_encrypted_response_enc: Annotated[str, _text(_CORE)] = ""
    """Cipher of the app's encrypted userinfo: `A128CBC-HS256`, `A128GCM` or `A256GCM`."""
    introspection_signed_response_alg: Annotated[str, _text("RFC 9701")] = ""
    """Algorithm with which introspection responses are signed; plain JSON without it."""
    request_object_signing_alg: Annotated[str, _text(_CORE)] = ""
    """Algorithm with which the app's request objects must be signed."""
    request_uris: Annotated[tuple[str, ...], _texts(_CORE)] = ()
    """Addresses from which the app's request objects may be fetched."""
    default_max_age: Annotated[int | None, _whole(_CORE)] = None
    """Time after which the app's users sign in again; in JSON, in seconds."""
    require_auth_time: Annotated[bool, _flag(_CORE)] = False
    """Whether the app's ID tokens always say when the user signed in."""
    default_acr_values: Annotated[tuple[str, ...], _texts(_CORE)] = ()
    """How the app's users sign in unless a request says otherwise."""
    initiate_login_uri: Annotated[str, _text(_CORE)] = ""
    """URL of the app that starts a sign-in which another site initiated."""
    post_logout_redirect_uris: Annotated[tuple[str, ...], _texts(_SIGN_OUT)] = ()
    """Addresses to which users are redirected after signing out."""
    frontchannel_logout_uri: Annotated[str, _strict_text(_FRONT_CHANNEL)] = ""
    """URL of the app's page that signs users out, loaded in a frame."""
    frontchannel_logout_session_required: Annotated[bool, _flag(_FRONT_CHANNEL)] = False
    """Whether the front-channel sign-out page needs `iss` and `sid`."""
    backchannel_logout_uri: Annotated[str, _strict_text(_BACK_CHANNEL)] = ""
    """The URL that is notified when a session has ended."""
    backchannel_logout_session_required: Annotated[bool, _flag(_BACK_CHANNEL)] = False
    """Whether back-channel logout notices need the `sid`."""
    client_uri: Annotated[str, _WEBSITE] = ""
    """URL of the app's home page."""
    contacts: Annotated[tuple[str, ...], _texts(RFC_7591)] = ()
    """Email addresses of those responsible for the app."""

    def assertion_audience(self, issuer: str) -> "AssertionAudience | None":
        """Return the entry of `assertion_audiences` for this issuer, byte by byte."""
        entries = (AssertionAudience.parse(text) for text in self.assertion_audiences)
        return next(
            (audience for audience in entries if audience and audience.issuer == issuer), None
        )

    @property
    def is_pairwise(self) -> bool:
        """Whether it gets pairwise subjects (Core section 8.1)."""
        return self.subject_type == "pairwise"

    @property
    def is_encrypting(self) -> bool:
        """Whether it registered any encryption."""
        return bool(self.id_token_encrypted_response_alg or self.userinfo_encrypted_response_alg)

    def encode(self) -> str:
        """Encode for storage."""
        return "{}" if self == OpenIdRegistration.NOTHING else msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "OpenIdRegistration":
        """Decode what `encode` returned, in this or an older version."""
        if text == "{}":
            return OpenIdRegistration.NOTHING
        return msgspec.json.decode(text, type=OpenIdRegistration)


OpenIdRegistration.NOTHING = OpenIdRegistration()


class ProfileName(StrEnum):
    """`MODERN` forbids the legacy grants, and parameters in the query, that `CLASSIC` allows."""

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
        """What the profile of this client requires and allows."""
        return PROFILES[self.profile_name]

    @property
    def has_secret(self) -> bool:
        """Whether the client authenticates with a secret, sent or used for signing."""
        return is_by_secret(self.authentication_method)

    def live_secrets(self, now: Instant) -> tuple[ClientSecret, ...]:
        """Return the secrets that can still be used."""
        return tuple(secret for secret in self.secrets if secret.is_live(now))

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
