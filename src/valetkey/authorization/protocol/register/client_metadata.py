"""Client metadata: the declaration of every field that is chosen for a client (RFC 7591).

All that reads, checks, shows, stores or documents a field derives from here.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import (
    PROTOCOL,
    RFC_7591,
    STAFF,
    AccessTokenFormat,
    ApplicationType,
    AuthenticationMethod,
    ClientType,
    Editor,
    Field,
    FieldRule,
    FieldType,
    OpenIdRegistration,
    ProfileName,
    UnusableValue,
    declared,
)
from valetkey.authorization.protocol.client_authentication import BY_NAME, REGISTERED
from valetkey.authorization.protocol.register.openid_rules import completed
from valetkey.kernel.jose.jwe import EncryptionKeys
from valetkey.kernel.jose.key import KeySet, refused, thumbprint
from valetkey.kernel.moment import Lifetime, days
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable


class RegisteredKeys(Struct, frozen=True):
    """One key set, split by the use of its keys."""

    signing: KeySet
    encryption: EncryptionKeys

    @property
    def encryption_document(self) -> str:
        """The encryption keys as a JWKS document, "" if there are none."""
        return self.encryption.document().decode() if len(self.encryption) else ""


NO_KEYS = RegisteredKeys(KeySet(), EncryptionKeys())


def read_keys(document: str, *, encrypts: bool) -> RegisteredKeys:
    """Read a JWKS document; "" is an empty one.

    A key without `use` is also an encryption key if the client `encrypts`. Refused with
    `invalid_client_metadata` for a malformed document, for an unusable signing key, and if no key
    is usable.
    """
    if not document:
        return NO_KEYS
    # surrogatepass: an unpaired surrogate must become a refusal by the reader, not an exception.
    data = document.encode("utf-8", "surrogatepass")
    signing, encryption = KeySet.parse(data), EncryptionKeys.parse(data)
    if not encrypts:
        thumbprints = {thumbprint(key.jwk) for key in signing}
        only = tuple(key for key in encryption if thumbprint(key.jwk) not in thumbprints)
        encryption = EncryptionKeys(only)
    if not len(signing) and not len(encryption):
        raise refused("none", "there is no key in it that can be used")
    return RegisteredKeys(signing, encryption)


def as_document(signing: KeySet, encryption_document: str) -> str:
    """Return both kinds as one document that `read_keys` accepts, "" if there are none."""
    keys = [dict(key.jwk) for key in signing]
    if encryption_document:
        keys += [dict(key.jwk) for key in EncryptionKeys.parse(encryption_document.encode())]
    return msgspec.json.encode({"keys": keys}).decode() if keys else ""


_PROVING = frozenset({"type", "key_set", "jwks_uri", "token_endpoint_auth_method"})
_AUTH_METHOD = "token_endpoint_auth_method"
_PORTAL, _SELF = STAFF | Editor.DEVELOPER, STAFF | Editor.CLIENT
_staff = partial(FieldRule, editors=STAFF)
_some_scopes = partial(_staff, FieldType.SCOPES, unusable=UnusableValue.LEFT_OUT)
_link = partial(FieldRule, FieldType.LINK, RFC_7591, unusable=UnusableValue.LEFT_OUT)
_choice = partial(FieldRule, FieldType.CHOICE)

_NAME = FieldRule(
    FieldType.LINE,
    RFC_7591,
    label=translatable("Name"),
    hint=translatable("Users see this name on the consent page."),
    member="client_name",
    shortest=1,
    longest=80,
)
_DESCRIPTION = FieldRule(
    FieldType.LINE,
    editors=_PORTAL,
    label=translatable("Description"),
    hint=translatable("One sentence, for you and your team."),
    longest=500,
)
_REDIRECT_URIS = FieldRule(FieldType.TEXTS, RFC_7591, label=translatable("Redirect URIs"))
_GRANT_TYPES = FieldRule(
    FieldType.GRANT_TYPES,
    RFC_7591,
    _SELF,
    translatable("Grant types"),
    unusable=UnusableValue.LEFT_OUT_BESIDE_OTHERS,
)
_SCOPES = FieldRule(
    FieldType.SCOPES,
    RFC_7591,
    label=translatable("Scopes"),
    member="scope",
    attribute="scope",
    unusable=UnusableValue.LEFT_OUT,
)
_SECURITY = translatable("Security profile")
_PROFILE = _choice("", _PORTAL, _SECURITY, attribute="profile_name", choices=ProfileName)
_TYPE = _choice(
    "RFC 6749", STAFF, translatable("Client type"), member=_AUTH_METHOD, choices=ClientType
)
_APPLICATION_TYPE = _choice(
    "OpenID Connect Registration",
    _SELF,
    translatable("Application type"),
    choices=ApplicationType,
    unusable=UnusableValue.LEFT_OUT,
)
_FORMAT = _choice("RFC 9068", STAFF, translatable("Access tokens"), choices=AccessTokenFormat)
_METHOD = _choice(
    RFC_7591,
    Editor.OPERATOR,
    translatable("Authentication"),
    member=_AUTH_METHOD,
    choices=tuple(BY_NAME),
)
_PKCE = FieldRule(FieldType.FLAG, "RFC 7636", _PORTAL, translatable("Require PKCE"))
_LOGO = _link(
    label=translatable("Logo"),
    hint=translatable(
        "The https URL of a square PNG, JPEG, GIF or WebP image of at most 256 KiB. A copy is "
        "shown; to change the image, use another URL."
    ),
)


class ClientMetadata(Struct, frozen=True):
    """The configurable fields of a client, unchecked; the text below each documents it.

    A field of the part `openid` is stored without a column of its own. `profile` is "" for the
    server's default, `authentication_method` for the one that fits the type; a lifetime of None is
    the server's default. `key_set` is a JWKS document with keys for verifying the client's
    signatures and for encrypting to it.
    """

    name: Annotated[str, _NAME]
    """The app's name, as users see it on the consent page."""
    description: Annotated[str, _DESCRIPTION] = ""
    """One sentence about the app."""
    redirect_uris: Annotated[tuple[str, ...], _REDIRECT_URIS] = ()
    """Addresses to which users are redirected after sign-in."""
    grant_types: Annotated[tuple[str, ...], _GRANT_TYPES] = ("authorization_code", "refresh_token")
    """Grant types the app may use."""
    scopes: Annotated[tuple[str, ...], _SCOPES] = ()
    """Scopes the app may request."""
    default_scopes: Annotated[tuple[str, ...], _some_scopes(attribute="default_scope")] = ()
    """Scopes of a request that names none; all of its scopes without it."""
    required_scopes: Annotated[tuple[str, ...], _some_scopes(attribute="required_scope")] = ()
    """Scopes that users cannot deny."""
    profile: Annotated[str, _PROFILE] = ""
    """Security profile: modern for new apps; `clients.default_profile` without it."""
    type: Annotated[str, _TYPE] = "confidential"
    """Client type: public if it runs where it cannot keep a secret."""
    application_type: Annotated[str, _APPLICATION_TYPE] = "web"
    """native for an app on a device, which may use a redirect URI with a scheme of its own."""
    access_token_format: Annotated[str, _FORMAT] = "jwt"
    """A jwt can be verified anywhere; a reference can be revoked everywhere at once."""
    access_token_lifetime: Annotated[
        Lifetime | None, _staff(FieldType.LIFETIME, longest=days(1))
    ] = None
    """Lifetime of the app's access tokens; by default, `tokens.access_token_lifetime`."""
    authentication_method: Annotated[str, _METHOD] = ""
    """How the app authenticates; by default, this follows from its type and keys."""
    key_set: Annotated[str, FieldRule(FieldType.KEY_SET, RFC_7591, PROTOCOL, member="jwks")] = ""
    """The app's public keys, as a JWK set."""
    requires_pkce: Annotated[bool, _PKCE] = False
    """Whether each request of the app must use PKCE; a public client always must."""
    rotates_refresh_token: Annotated[bool, _staff(FieldType.FLAG)] = False
    """Whether each use of a refresh token replaces it (RFC 9700 section 4.14.2)."""
    ends_with_session: Annotated[bool, _staff(FieldType.FLAG)] = False
    """Whether the app's authorizations end with the user's session."""
    exchanges_tokens_of: Annotated[tuple[str, ...], _staff(FieldType.TEXTS)] = ()
    """Ids of the clients whose access tokens the app may exchange, beside its own (RFC 8693)."""
    exchanges_for: Annotated[tuple[str, ...], _staff(FieldType.TEXTS)] = ()
    """Identifiers of the APIs for which the app may exchange tokens of others (RFC 8693)."""
    logo_uri: Annotated[str, _LOGO] = ""
    """URL of the app's logo, an image."""
    policy_uri: Annotated[str, _link(label=translatable("Privacy policy"))] = ""
    """URL of the app's privacy policy."""
    tos_uri: Annotated[str, _link(label=translatable("Terms of service"))] = ""
    """URL of the app's terms of service."""
    openid: OpenIdRegistration = OpenIdRegistration.NOTHING

    def __post_init__(self) -> None:
        """Leave out the spaces around texts, but not around the entries of lists.

        An app that registers a redirect URI with a space sends it so too.
        """
        for name, text in _untrimmed(self):
            msgspec.structs.force_setattr(self, name, text)
        if texts := dict(_untrimmed(self.openid)):
            msgspec.structs.force_setattr(self, "openid", replace(self.openid, **texts))

    @property
    def proof(self) -> str:
        """The authentication method: the chosen one, or the default of its type."""
        if self.authentication_method:
            return self.authentication_method
        if self.type == ClientType.PUBLIC:
            return AuthenticationMethod.NONE.value
        if method := REGISTERED.get(self.openid.token_endpoint_auth_method):
            return method
        if self.key_set or self.openid.jwks_uri:
            return AuthenticationMethod.PRIVATE_KEY_JWT.value
        return AuthenticationMethod.CLIENT_SECRET.value

    @property
    def completed(self) -> OpenIdRegistration:
        """The OpenID Connect part, with the values that follow from others filled in."""
        return completed(
            self.openid,
            redirect_uris=self.redirect_uris,
            encryption_keys=self.keys.encryption_document,
        )

    @property
    def keys(self) -> RegisteredKeys:
        """The registered keys. Refused if `key_set` cannot be read."""
        return read_keys(self.key_set, encrypts=self.openid.is_encrypting)


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (*declared(ClientMetadata), *declared(OpenIdRegistration, part="openid"))
}
"""Every field of a client that can be chosen, by its name."""


def _untrimmed(struct: Struct) -> Iterator[tuple[str, Any]]:
    """Yield the texts that have spaces around them, without these."""
    for name, text in msgspec.structs.asdict(struct).items():
        if isinstance(text, str) and text != (bare := text.strip(" ")):
            yield name, bare


def fields_of(editor: Editor) -> tuple[Field, ...]:
    """Return the fields that this editor may set."""
    return tuple(field for field in FIELDS.values() if editor in field.rule.editors)


def with_values(metadata: ClientMetadata, values: Mapping[str, object]) -> ClientMetadata:
    """Return a copy with these fields, and those that depend on them derived again."""
    # Any: each interface reads a value by the kind of its field.
    plain: dict[str, Any] = {name: values[name] for name in values if not FIELDS[name].part}
    inner: dict[str, Any] = {name: values[name] for name in values if FIELDS[name].part}
    openid = replace(metadata.openid, **inner) if inner else metadata.openid
    return fitted(replace(metadata, **plain, openid=openid), values)


def fitted(metadata: ClientMetadata, names: Collection[str]) -> ClientMetadata:
    """Return a copy in which dependent fields are derived again after `said` were changed.

    The fields in `said` are kept; those left open, and those that no longer fit, are derived.
    """
    method = metadata.openid.token_endpoint_auth_method
    if "authentication_method" not in names and _PROVING.intersection(names):
        metadata = replace(metadata, authentication_method="")
    if method and "token_endpoint_auth_method" not in names:
        public = metadata.type == ClientType.PUBLIC
        proof = REGISTERED.get(method)
        chosen = metadata.authentication_method or proof
        if chosen != proof or public != (proof == AuthenticationMethod.NONE):
            openid = replace(metadata.openid, token_endpoint_auth_method="")
            metadata = replace(metadata, openid=openid)
    return replace(metadata, authentication_method=metadata.proof)
