"""The fields of a client that are stored as one document, most of them from OpenID Connect."""

from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.model.register.fields import (
    PROTOCOL,
    RFC_7591,
    STAFF,
    Editor,
    FieldRule,
    FieldType,
    UnusableValue,
)
from valetkey.kernel.refusal import Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import parse_url
from valetkey.kernel.words import translatable

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
    """Seconds after which the app's users sign in again."""
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
        entries = (AssertionAudience.parse(each) for each in self.assertion_audiences)
        return next((each for each in entries if each and each.issuer == issuer), None)

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
