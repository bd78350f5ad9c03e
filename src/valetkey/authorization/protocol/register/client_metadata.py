"""Client metadata and the rules that apply however it is registered (RFC 7591 section 2)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from valetkey.authorization.model.register.client import (
    CLIENT_SCOPE,
    AccessTokenFormat,
    ApplicationType,
    AuthenticationMethod,
    ClientType,
    GrantTypeName,
)
from valetkey.authorization.model.register.openid import OpenIdRegistration
from valetkey.authorization.model.register.profile import PROFILES, ProfileName
from valetkey.authorization.protocol.register.grant_types import GrantTypes
from valetkey.authorization.protocol.register.keys import NO_KEYS, RegisteredKeys, read_keys
from valetkey.authorization.protocol.register.links import Network, is_link
from valetkey.authorization.protocol.register.openid_rules import (
    AUTHENTICATION_METHODS,
    OpenIdRules,
    Registrant,
    completed,
)
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Lifetime, days
from valetkey.kernel.refusal import Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import check_redirect_uri, origin

MOST_REDIRECT_URIS = 20
LONGEST_NAME = 80
LONGEST_DESCRIPTION = 500
_LONGEST_LIFETIME = days(1)
_PROVING = frozenset({"type", "key_set", "jwks_uri", "token_endpoint_auth_method"})


@dataclass(frozen=True, slots=True)
class MetadataError:
    """An error in client metadata: the field and what would be valid."""

    field: str
    detail: str


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """The client metadata somebody chooses, unchecked.

    `profile` may be "" for the server's default, `authentication_method` for the one that fits the
    type. An `access_token_lifetime` of None is the server's default. `key_set` is a JWKS document
    with keys for verifying the client's signatures and for encrypting to it.
    """

    name: str
    description: str = ""
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    scopes: tuple[str, ...] = ()
    default_scopes: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    profile: str = ""
    type: str = "confidential"
    application_type: str = "web"
    access_token_format: str = "jwt"
    access_token_lifetime: Lifetime | None = None
    authentication_method: str = ""
    key_set: str = ""
    requires_pkce: bool = False
    rotates_refresh_token: bool = False
    ends_with_session: bool = False
    logo_uri: str = ""
    policy_uri: str = ""
    tos_uri: str = ""
    openid: OpenIdRegistration = OpenIdRegistration.NOTHING

    @property
    def proof(self) -> str:
        """The authentication method: the chosen one, or the default of its type."""
        if self.authentication_method:
            return self.authentication_method
        if self.type == ClientType.PUBLIC:
            return AuthenticationMethod.NONE.value
        if method := AUTHENTICATION_METHODS.get(self.openid.token_endpoint_auth_method):
            return method.value
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


def fitted(metadata: ClientMetadata, said: Collection[str]) -> ClientMetadata:
    """Return a copy in which dependent fields are derived again after `said` were changed.

    The fields in `said` are kept; those left open, and those that no longer fit, are derived.
    """
    method = metadata.openid.token_endpoint_auth_method
    if "authentication_method" not in said and _PROVING.intersection(said):
        metadata = replace(metadata, authentication_method="")
    if method and "token_endpoint_auth_method" not in said:
        public = metadata.type == ClientType.PUBLIC
        proof = AUTHENTICATION_METHODS.get(method)
        chosen = metadata.authentication_method or proof
        if chosen != proof or public != (proof is AuthenticationMethod.NONE):
            openid = replace(metadata.openid, token_endpoint_auth_method="")
            metadata = replace(metadata, openid=openid)
    return replace(metadata, authentication_method=metadata.proof)


@dataclass(frozen=True, slots=True)
class ClientRules:
    """What the rules need to know of this server: addresses, scopes, default profile.

    Of the scopes `own_scopes` are the client's own, which no person can be asked for.
    `signing_algorithms` are those it has keys for, `fetch_networks` those to which it may go by
    http and on other ports.
    """

    own_origins: Collection[str]
    scopes: Collection[str]
    grant_types: GrantTypes
    default_profile: ProfileName
    own_scopes: Scope = CLIENT_SCOPE
    signing_algorithms: Collection[str] = (Algorithm.ES256.value,)
    fetch_networks: Collection[Network] = ()

    def faults(self, metadata: ClientMetadata) -> tuple[MetadataError, ...]:
        """Return all errors at once; empty if the client may be registered."""
        return (
            *_text_faults(metadata),
            *_word_faults(metadata),
            *self._redirect_faults(metadata),
            *self._grant_type_faults(metadata, self.profile_of(metadata)),
            *self._scope_faults(metadata),
            *_proof_faults(metadata),
            *self._openid_faults(metadata),
        )

    def profile_of(self, metadata: ClientMetadata) -> str:
        """Return the profile it will have."""
        return metadata.profile or self.default_profile.value

    def _redirect_faults(self, metadata: ClientMetadata) -> Iterator[MetadataError]:
        uris = metadata.redirect_uris
        if len(uris) > MOST_REDIRECT_URIS:
            yield MetadataError("redirect_uris", f"at most {MOST_REDIRECT_URIS}")
            return
        if len(set(uris)) != len(uris):
            yield MetadataError("redirect_uris", "each only once")
        if not uris and any(
            name in self.grant_types and self.grant_types[name].needs_redirect_uri
            for name in metadata.grant_types
        ):
            yield MetadataError("redirect_uris", "at least one: users are sent back to it")
        native = metadata.application_type == ApplicationType.NATIVE
        for number, uri in enumerate(uris):
            try:
                check_redirect_uri(uri, native=native, own_origins=self.own_origins)
            except Refused as refused:
                yield MetadataError(f"redirect_uris/{number}", refused.refusal.description)
                continue
            if GrantTypeName.IMPLICIT in metadata.grant_types and "://" not in origin(uri):
                yield MetadataError(
                    f"redirect_uris/{number}",
                    "the implicit grant needs https or a loopback address",
                )

    def _grant_type_faults(self, metadata: ClientMetadata, profile: str) -> Iterator[MetadataError]:
        names, known = metadata.grant_types, self.grant_types
        for number, name in enumerate(names):
            field = f"grant_types/{number}"
            if name not in known:
                yield MetadataError(field, f"one of: {', '.join(known)}")
            elif known[name].needs_secret and metadata.type == ClientType.PUBLIC:
                yield MetadataError(field, f"{name} is for confidential clients only")
            elif (
                known[name].discouraged
                and profile in PROFILES
                and not PROFILES[profile].implicit_and_password
            ):
                yield MetadataError(field, f"the profile {profile} has no {name} grant")
        if not names or len(set(names)) != len(names):
            yield MetadataError("grant_types", "at least one, each only once")
        refreshing = [name for name, rules in known.items() if rules.issues_refresh_tokens]
        if GrantTypeName.REFRESH_TOKEN in names and not set(refreshing).intersection(names):
            yield MetadataError(
                "grant_types", f"refresh_token comes with {' or '.join(refreshing)}"
            )

    def _openid_faults(self, metadata: ClientMetadata) -> Iterator[MetadataError]:
        try:
            keys = metadata.keys
        except Refused:
            # Reported as an error of the key set; it must not be reported twice.
            keys = NO_KEYS
        rules = OpenIdRules(self.signing_algorithms, self.own_origins, self.fetch_networks)
        client = Registrant(
            openid=metadata.openid,
            redirect_uris=metadata.redirect_uris,
            grant_types=metadata.grant_types,
            proof=metadata.proof,
            has_signing_keys=len(keys.signing) > 0,
            encrypts=frozenset(key.alg for key in keys.encryption),
            is_native=metadata.application_type == ApplicationType.NATIVE,
        )
        return (MetadataError(field, detail) for field, detail in rules.wrongs(client))

    def _scope_faults(self, metadata: ClientMetadata) -> Iterator[MetadataError]:
        # Every client has CLIENT_SCOPE, so it cannot be registered.
        known = [name for name in self.scopes if name not in CLIENT_SCOPE]
        alone = GrantTypeName.CLIENT_CREDENTIALS in metadata.grant_types
        for number, name in enumerate(metadata.scopes):
            if name not in known:
                yield MetadataError(f"scopes/{number}", f"one of: {', '.join(known)}")
            elif name in self.own_scopes and not alone:
                yield MetadataError(
                    f"scopes/{number}", "a client's own: it needs client_credentials"
                )
        if len(set(metadata.scopes)) != len(metadata.scopes):
            yield MetadataError("scopes", "each only once")
        for field in ("default_scopes", "required_scopes"):
            chosen: tuple[str, ...] = getattr(metadata, field)
            if not set(chosen) <= set(metadata.scopes):
                yield MetadataError(field, "only scopes that the client has")
            elif any(name in self.own_scopes for name in chosen):
                yield MetadataError(field, "only scopes that people are asked for")


def _text_faults(metadata: ClientMetadata) -> Iterator[MetadataError]:
    if not 0 < len(metadata.name) <= LONGEST_NAME or not _is_plain(metadata.name):
        yield MetadataError("name", f"1 to {LONGEST_NAME} printable characters")
    if len(metadata.description) > LONGEST_DESCRIPTION or not _is_plain(metadata.description):
        yield MetadataError("description", f"at most {LONGEST_DESCRIPTION} printable characters")
    for field in ("logo_uri", "policy_uri", "tos_uri"):
        uri: str = getattr(metadata, field)
        if uri and not is_link(uri):
            yield MetadataError(field, "an https address")
    lifetime = metadata.access_token_lifetime
    if lifetime is not None and not 0 < lifetime <= _LONGEST_LIFETIME:
        yield MetadataError("access_token_lifetime", "from one second to one day")


def _word_faults(metadata: ClientMetadata) -> Iterator[MetadataError]:
    words = (
        ("profile", metadata.profile, ("", *PROFILES)),
        ("type", metadata.type, tuple(ClientType)),
        ("application_type", metadata.application_type, tuple(ApplicationType)),
        ("access_token_format", metadata.access_token_format, tuple(AccessTokenFormat)),
        ("authentication_method", metadata.authentication_method, ("", *AuthenticationMethod)),
    )
    for field, word, known in words:
        if word not in known:
            yield MetadataError(field, f"one of: {', '.join(name for name in known if name)}")


def _proof_faults(metadata: ClientMetadata) -> Iterator[MetadataError]:
    if (metadata.type == ClientType.PUBLIC) != (metadata.proof == AuthenticationMethod.NONE):
        yield MetadataError("authentication_method", "none for public clients, and for no other")
    needs_keys = metadata.proof == AuthenticationMethod.PRIVATE_KEY_JWT
    if needs_keys and not metadata.key_set and not metadata.openid.jwks_uri:
        yield MetadataError("key_set", "the client's public keys: private_key_jwt needs them")
        return
    try:
        keys = metadata.keys
    except Refused as refused:
        yield MetadataError("key_set", refused.refusal.description)
        return
    if needs_keys and metadata.key_set and not len(keys.signing):
        yield MetadataError("key_set", "a key that verifies signatures: private_key_jwt needs it")


def _is_plain(text: str) -> bool:
    # isprintable() refuses controls, separators, surrogates and bidirectional overrides.
    return text.isprintable() and text.strip() == text
