"""The rules that client metadata must meet however it is registered (RFC 7591 section 2)."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    DISCOURAGED,
    EVERYONE,
    PROFILES,
    ApplicationType,
    AssertionAudience,
    AuthenticationMethod,
    ClientType,
    Editor,
    Field,
    FieldType,
    GrantTypeName,
    ProfileName,
)
from valetkey.authorization.protocol.client_authentication import BY_NAME
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    NO_KEYS,
    ClientMetadata,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault, refused_uri
from valetkey.authorization.protocol.register.openid_rules import (
    Network,
    OpenIdRules,
    Registrant,
    is_link,
)
from valetkey.authorization.protocol.resource import identifier_fault
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.refusal import Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import check_redirect_uri, origin


class GrantTypeRules(Struct, frozen=True):
    """The registration rules of one grant type.

    Operators may offer it to `editors`. `label` is what the form of an app says of it,
    translatable: a term, a colon and what it does. Without one, the form shows its name.
    """

    needs_redirect_uri: bool = False
    needs_secret: bool = False
    issues_refresh_tokens: bool = False
    editors: Editor = EVERYONE
    label: str = ""


NO_RULES = GrantTypeRules()
"""The rules of a grant type for which every client may register."""

GrantTypes = Mapping[str, GrantTypeRules]
"""The grant types of a server by name."""


def offered_to_developers(grant_types: GrantTypes) -> tuple[str, ...]:
    """Return the grant types that operators may offer to developers.

    Those of confidential clients come last.
    """
    names = [name for name, rules in grant_types.items() if Editor.DEVELOPER in rules.editors]
    return tuple(sorted(names, key=lambda name: grant_types[name].needs_secret))


MOST_REDIRECT_URIS = 20
_LONGEST_AUDIENCE = 2_000
_SOME_ONCE = "at least one, each only once"


class ClientRules(Struct, frozen=True):
    """The facts about this server that the rules need: URLs, scopes, default profile.

    `own_scopes` are the client's own, which cannot be requested from users, and `api_scopes` those
    of declared APIs, by the identifier of one, which need no registration. `signing_algorithms`
    are those that the server has keys for, `fetch_networks` those it may reach by http and on other
    ports.
    """

    own_origins: Collection[str]
    scopes: Collection[str]
    grant_types: GrantTypes
    default_profile: ProfileName
    own_scopes: Scope = CLIENT_SCOPE
    api_scopes: Mapping[str, str] = MappingProxyType({})
    signing_algorithms: Collection[str] = (Algorithm.ES256.value,)
    fetch_networks: Collection[Network] = ()

    def faults(self, metadata: ClientMetadata) -> tuple[MetadataError, ...]:
        """Return all errors at once; empty if the client may be registered."""
        return (
            *_field_faults(metadata),
            *self._redirect_faults(metadata),
            *self._grant_type_faults(metadata, self.profile_of(metadata)),
            *self._scope_faults(metadata),
            *_proof_faults(metadata),
            *self._openid_faults(metadata),
        )

    def profile_of(self, metadata: ClientMetadata) -> str:
        """Return the profile that the client will have."""
        return metadata.profile or self.default_profile.value

    def _redirect_faults(self, metadata: ClientMetadata) -> Iterator[MetadataError]:
        uris = metadata.redirect_uris
        if len(uris) > MOST_REDIRECT_URIS:
            yield fault("redirect_uris", "list.many", most=MOST_REDIRECT_URIS)
            return
        if len(set(uris)) != len(uris):
            yield fault("redirect_uris", "list.repeated")
        if not uris and any(
            name in self.grant_types and self.grant_types[name].needs_redirect_uri
            for name in metadata.grant_types
        ):
            yield fault("redirect_uris", "redirect_uris.none")
        native = metadata.application_type == ApplicationType.NATIVE
        for number, uri in enumerate(uris):
            try:
                check_redirect_uri(uri, native=native, own_origins=self.own_origins)
            except Refused as refused:
                yield refused_uri(f"redirect_uris/{number}", refused.refusal)
                continue
            if GrantTypeName.IMPLICIT in metadata.grant_types and "://" not in origin(uri):
                yield fault(f"redirect_uris/{number}", "redirect_uris.implicit")

    def _grant_type_faults(self, metadata: ClientMetadata, profile: str) -> Iterator[MetadataError]:
        names, grant_types = metadata.grant_types, self.grant_types
        for number, name in enumerate(names):
            field = f"grant_types/{number}"
            if name not in grant_types:
                yield fault(field, "choice.known", known=", ".join(grant_types))
            elif grant_types[name].needs_secret and metadata.type == ClientType.PUBLIC:
                yield fault(field, "grant.secret", name=name)
            elif (
                name in DISCOURAGED
                and profile in PROFILES
                and not PROFILES[profile].implicit_and_password
            ):
                yield fault(field, f"profile.{name}", profile=profile)
        if not names or len(set(names)) != len(names):
            yield fault("grant_types", "list.repeated" if names else "list.none", _SOME_ONCE)
        refreshing = [name for name, rules in grant_types.items() if rules.issues_refresh_tokens]
        if GrantTypeName.REFRESH_TOKEN in names and not set(refreshing).intersection(names):
            yield fault(
                f"grant_types/{names.index(GrantTypeName.REFRESH_TOKEN)}",
                "grant.refresh",
                f"refresh_token comes with {' or '.join(refreshing)}",
                known=", ".join(refreshing),
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
        return rules.invalid_fields(client)

    def _scope_faults(self, metadata: ClientMetadata) -> Iterator[MetadataError]:
        # Every client has CLIENT_SCOPE, so it cannot be registered.
        scopes = [name for name in self.scopes if name not in CLIENT_SCOPE]
        alone = not _OWN_GRANTS.isdisjoint(metadata.grant_types)
        for number, name in enumerate(metadata.scopes):
            if name in self.api_scopes and name not in scopes:
                yield fault(f"scopes/{number}", "scopes.api", api=self.api_scopes[name])
            elif name not in scopes:
                yield fault(f"scopes/{number}", "choice.known", known=", ".join(scopes))
            elif name in self.own_scopes and not alone:
                yield fault(f"scopes/{number}", "scopes.own")
        yield from _exchange_faults(metadata)
        if len(set(metadata.scopes)) != len(metadata.scopes):
            yield fault("scopes", "list.repeated")
        for field in ("default_scopes", "required_scopes"):
            chosen: tuple[str, ...] = getattr(metadata, field)
            for number, name in enumerate(chosen):
                if name not in metadata.scopes:
                    yield fault(f"{field}/{number}", "scopes.registered")
                elif name in self.own_scopes:
                    yield fault(f"{field}/{number}", "scopes.users")


_OWN_GRANTS = frozenset({GrantTypeName.CLIENT_CREDENTIALS, GrantTypeName.JWT_BEARER})
"""Grant types that give a client tokens of its own."""


def _exchange_faults(metadata: ClientMetadata) -> Iterator[MetadataError]:
    for number, client_id in enumerate(metadata.exchanges_tokens_of):
        if not client_id or " " in client_id or not _is_plain(client_id):
            yield fault(f"exchanges_tokens_of/{number}", "client.id")
    for number, identifier in enumerate(metadata.exchanges_for):
        if identifier_fault(identifier):
            yield fault(f"exchanges_for/{number}", "api.identifier")
    audiences = metadata.openid.assertion_audiences
    read = [AssertionAudience.parse(text) for text in audiences]
    for number, audience in enumerate(read):
        if audience is None or len(audiences[number]) > _LONGEST_AUDIENCE:
            yield fault(f"assertion_audiences/{number}", "audience.form")
    if len({entry.issuer for entry in read if entry}) < len([entry for entry in read if entry]):
        yield fault("assertion_audiences", "audience.repeated")
    if audiences and metadata.openid.is_pairwise:
        yield fault("assertion_audiences", "audience.subjects")


def _field_faults(metadata: ClientMetadata) -> Iterator[MetadataError]:
    for field in FIELDS.values():
        if error := _fault(field, metadata):
            yield error


def _fault(field: Field, metadata: ClientMetadata) -> MetadataError | None:
    """Return what is wrong with a field that its kind describes."""
    name, rule, value = field.name, field.rule, field.value_of(metadata)
    match rule.kind:
        case FieldType.LINE if not rule.shortest <= len(value) <= rule.longest or not _is_plain(
            value
        ):
            code = "name.length" if rule.shortest else "text.length"
            return fault(name, code, least=rule.shortest, most=rule.longest)
        case FieldType.LINK if value and not is_link(value):
            return fault(name, "link.form")
        case FieldType.LIFETIME if value is not None and not 0 < value <= rule.longest:
            return fault(name, "lifetime.day")
        case FieldType.CHOICE if value not in (*rule.choices, field.default):
            return fault(name, "choice.known", known=", ".join(rule.choices))
        case _:
            return None


def _proof_faults(metadata: ClientMetadata) -> Iterator[MetadataError]:
    if (metadata.type == ClientType.PUBLIC) != (metadata.proof == AuthenticationMethod.NONE):
        yield fault("authentication_method", "method.type")
    method = BY_NAME.get(metadata.proof)
    needs_keys = method is not None and method.needs_keys
    if needs_keys and not metadata.key_set and not metadata.openid.jwks_uri:
        detail = f"the client's public keys: {metadata.proof} needs them"
        yield fault("key_set", "keys.needed", detail, method=metadata.proof)
        return
    try:
        keys = metadata.keys
    except Refused as refused:
        yield fault("key_set", "keys.form", refused.refusal.description)
        return
    if needs_keys and metadata.key_set and not len(keys.signing):
        yield fault("key_set", "keys.signing", method=metadata.proof)


def _is_plain(text: str) -> bool:
    # isprintable() refuses controls, separators, surrogates and bidirectional overrides.
    return text.isprintable() and text.strip() == text
