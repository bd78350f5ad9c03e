"""Rules for the OpenID Connect part of a registration, and for a client's links."""

import re
from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network
from itertools import chain
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.model.client import GrantTypeName, OpenIdRegistration, is_by_secret
from valetkey.authorization.protocol.client_authentication import BY_NAME, METHODS, REGISTERED
from valetkey.authorization.protocol.register.faults import (
    MetadataError,
    fault,
    input_fault,
    refused_uri,
)
from valetkey.fetch.address import is_in, may_be_reached, read_address
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwe import A128CBC_HS256, ALGORITHMS, ENCRYPTIONS
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.url import LONGEST, check_redirect_uri, origin, parse_url

Network = IPv4Network | IPv6Network

# No quote, bracket, space or backslash, which pages, headers and browsers read differently.
_REST = r"(?:[A-Za-z0-9\-._~!$&()*+,;=:@/?#]|%[0-9A-Fa-f]{2})*"
_LINK = re.compile(
    rf"https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?([/?#]{_REST})?"
)
_HTTPS = 443
_PORT = re.compile(r":[0-9]+\Z")


def is_link(uri: str) -> bool:
    """Return whether pages may link to it or show it as an image: a plain https URL."""
    return len(uri) <= LONGEST and _LINK.fullmatch(uri) is not None


def return_refusal(
    uri: str, *, native: bool, own_origins: Collection[str], answered_by: Collection[str]
) -> Refusal | None:
    """Return why browsers may not be redirected there; None if they may.

    `answered_by` are the parameters that they bring.
    """
    try:
        check_redirect_uri(uri, native=native, own_origins=own_origins, answered_by=answered_by)
    except Refused as refused:
        return refused.refusal
    return None


def fetch_fault(
    field: str, uri: str, allowed: Collection[Network], *, fragment: bool = False
) -> MetadataError | None:
    """Return why this server would not fetch the address in that field; None if it would.

    https on port 443, and no private address; http, other ports and private addresses only in
    networks the operator lists. What a name resolves to is checked when it is fetched. A `fragment`
    is allowed where the specification gives it a meaning.
    """
    bare = uri.partition("#")[0] if fragment else uri
    web = parse_url(bare) if len(uri) <= LONGEST and uri.isascii() and uri.isprintable() else None
    if web is None or any(letter in uri for letter in " \"'<>\\^`{|}"):
        return fault(field, "fetch.form")
    host = web.host.strip("[]")
    address = read_address(host)
    if address is None:
        # A host name: what it resolves to is checked when it is fetched.
        inside, listed = host == "localhost" or host.endswith(".localhost"), bool(allowed)
    else:
        inside, listed = not may_be_reached(address), is_in(address, allowed)
    if listed:
        return None
    if inside:
        return fault(field, "fetch.private")
    if web.scheme == "http":
        return fault(field, "fetch.http")
    return fault(field, "fetch.port") if web.port != _HTTPS else None


def host_of(uri: str) -> str:
    """Return the host of a web address without its port; "" if it has none."""
    try:
        _, separator, host = origin(uri).partition("://")
    except Refused:
        return ""
    return _PORT.sub("", host) if separator else ""


_CODE, _IMPLICIT = GrantTypeName.AUTHORIZATION_CODE.value, GrantTypeName.IMPLICIT.value

GRANT_TYPES_OF: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "code": frozenset({_CODE}),
        "token": frozenset({_IMPLICIT}),
        "id_token": frozenset({_IMPLICIT}),
        "id_token token": frozenset({_IMPLICIT}),
        "code id_token": frozenset({_CODE, _IMPLICIT}),
        "code token": frozenset({_CODE, _IMPLICIT}),
        "code id_token token": frozenset({_CODE, _IMPLICIT}),
    }
)
"""Response types, and the grant types that each of them requires."""

SHARED_ALGORITHM = "HS256"
"""Signs with the client's own secret, so it requires one."""

UNSIGNED = "none"
VERIFIED_ALGORITHMS = tuple(algorithm.value for algorithm in Algorithm)
"""Algorithms that clients may sign with."""

DEFAULT_CONTENT_ENCRYPTION = A128CBC_HS256
"""Used if only the algorithm is named (OpenID Connect Registration section 2)."""

MOST_ADDRESSES = 20
_MOST_CONTACTS = 10
_LONGEST_CONTACT = 200
_MOST_ACRS = 10
_LONGEST_AGE = 10 * 365 * 86_400
_SIGNED = ("id_token_signed_response_alg", "userinfo_signed_response_alg")
_ENCRYPTED = ("id_token", "userinfo")


class Registrant(Struct, frozen=True):
    """The other properties of a registration that these rules depend on.

    `encrypts` are the algorithms for which a key was given by value.
    """

    openid: OpenIdRegistration
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    proof: str
    has_signing_keys: bool
    encrypts: frozenset[str]
    is_native: bool

    @property
    def has_secret(self) -> bool:
        """Whether it has a client secret."""
        return is_by_secret(self.proof)

    @property
    def signs(self) -> bool:
        """Whether it names the keys for verifying its signatures."""
        return self.has_signing_keys or bool(self.openid.jwks_uri)


class OpenIdRules(Struct, frozen=True):
    """The capabilities of this server: algorithms, addresses, networks reachable over http."""

    signing_algorithms: Collection[str]
    own_origins: Collection[str]
    fetch_networks: Collection[Network] = ()

    def invalid_fields(self, client: Registrant) -> Iterator[MetadataError]:
        """Check each group of OpenID fields; no error hides another."""
        return chain(
            _response_types(client),
            _authentication(client),
            _signatures(client, self.signing_algorithms),
            _encryptions(client),
            self._keys(client),
            self._subject(client),
            self._logout(client),
            self._addresses(client),
            _requests(client),
        )

    def _keys(self, client: Registrant) -> Iterator[MetadataError]:
        uri = client.openid.jwks_uri
        if not uri:
            return
        if client.has_signing_keys or client.encrypts:
            yield fault("jwks_uri", "keys.both")
        elif error := fetch_fault("jwks_uri", uri, self.fetch_networks):
            yield error

    def _subject(self, client: Registrant) -> Iterator[MetadataError]:
        openid = client.openid
        if openid.subject_type not in {"public", "pairwise"}:
            yield _unknown("subject_type", ("public", "pairwise"))
        field, uri = "sector_identifier_uri", openid.sector_identifier_uri
        if uri:
            if error := fetch_fault(field, uri, self.fetch_networks):
                yield error
        elif openid.is_pairwise and sector_of(client) is None:
            yield fault(field, "sector.needed")

    def _logout(self, client: Registrant) -> Iterator[MetadataError]:
        openid = client.openid
        yield from self._returns(client, "post_logout_redirect_uris")
        if uri := openid.frontchannel_logout_uri:
            # Without own origins: this field must be on an origin of the client, which is stricter.
            own = {origin_of(redirect) for redirect in client.redirect_uris}
            if refusal := return_refusal(
                uri, native=False, own_origins=(), answered_by=("iss", "sid")
            ):
                yield refused_uri("frontchannel_logout_uri", refusal)
            elif origin(uri) not in own:
                yield fault("frontchannel_logout_uri", "logout.origin")
        field, uri = "backchannel_logout_uri", openid.backchannel_logout_uri
        if uri and (error := fetch_fault(field, uri, self.fetch_networks)):
            yield error
        for name in ("frontchannel", "backchannel"):
            required: bool = getattr(openid, f"{name}_logout_session_required")
            if required and not getattr(openid, f"{name}_logout_uri"):
                field = f"{name}_logout_session_required"
                yield fault(field, "logout.uri", name=f"{name}_logout_uri")

    def _returns(self, client: Registrant, field: str) -> Iterator[MetadataError]:
        uris: tuple[str, ...] = getattr(client.openid, field)
        yield from _too_many(field, uris, MOST_ADDRESSES)
        for number, uri in enumerate(uris[:MOST_ADDRESSES]):
            refusal = return_refusal(
                uri,
                native=client.is_native,
                own_origins=self.own_origins,
                answered_by=("state",),
            )
            if refusal:
                yield refused_uri(f"{field}/{number}", refusal)

    def _addresses(self, client: Registrant) -> Iterator[MetadataError]:
        openid = client.openid
        uri = openid.initiate_login_uri
        brought = ("iss", "login_hint", "target_link_uri")
        if uri and (
            refusal := return_refusal(
                uri, native=False, own_origins=self.own_origins, answered_by=brought
            )
        ):
            yield refused_uri("initiate_login_uri", refusal)
        uris = openid.request_uris
        yield from _too_many("request_uris", uris, MOST_ADDRESSES)
        for number, uri in enumerate(uris[:MOST_ADDRESSES]):
            field = f"request_uris/{number}"
            if error := fetch_fault(field, uri, self.fetch_networks, fragment=True):
                yield error


def completed(
    openid: OpenIdRegistration, *, redirect_uris: tuple[str, ...], encryption_keys: str
) -> OpenIdRegistration:
    """Return what is stored: what was given, with defaults that depend on other fields."""
    changes: dict[str, str] = {}
    if encryption_keys != openid.encryption_keys:
        changes["encryption_keys"] = encryption_keys
    for kind in _ENCRYPTED:
        algorithm = getattr(openid, f"{kind}_encrypted_response_alg")
        if algorithm and not getattr(openid, f"{kind}_encrypted_response_enc"):
            changes[f"{kind}_encrypted_response_enc"] = DEFAULT_CONTENT_ENCRYPTION
    sector = ""
    if openid.sector_identifier_uri:
        sector = host_of(openid.sector_identifier_uri)
    elif openid.is_pairwise:
        sector = _only_host(redirect_uris) or ""
    if sector != openid.sector:
        changes["sector"] = sector
    # Return the same object if nothing was registered, so that identity still says so.
    return replace(openid, **changes) if changes else openid  # type: ignore[arg-type]


def sector_of(client: Registrant) -> str | None:
    """Return the host under which pairwise subjects are made; None if it is ambiguous."""
    if uri := client.openid.sector_identifier_uri:
        return host_of(uri)
    return _only_host(client.redirect_uris)


def origin_of(uri: str) -> str:
    """Return the origin, "" if it is not an address."""
    try:
        return origin(uri)
    except Refused:
        return ""


def _only_host(redirect_uris: tuple[str, ...]) -> str | None:
    hosts = {host_of(uri) for uri in redirect_uris}
    if not hosts:
        # No user signs in there, so no subject exists.
        return ""
    (host, *others) = hosts
    return host if host and not others else None


def _response_types(client: Registrant) -> Iterator[MetadataError]:
    names = client.openid.response_types
    if len(set(names)) != len(names):
        yield fault("response_types", "list.repeated")
    for number, name in enumerate(names):
        needed = GRANT_TYPES_OF.get(name)
        if needed is None:
            yield _unknown(f"response_types/{number}", GRANT_TYPES_OF)
        elif missing := sorted(needed.difference(client.grant_types)):
            names_missing = ", ".join(missing)
            yield fault(f"response_types/{number}", "response_type.grants", missing=names_missing)


def _authentication(client: Registrant) -> Iterator[MetadataError]:
    method = client.openid.token_endpoint_auth_method
    if method and REGISTERED.get(method) != client.proof:
        fits = [name for name, proof in REGISTERED.items() if proof == client.proof]
        yield _unknown("token_endpoint_auth_method", fits)
    chosen = client.openid.token_endpoint_auth_signing_alg
    algorithms = BY_NAME[client.proof].signing_algorithms if client.proof in BY_NAME else ()
    if chosen and not algorithms:
        signing = [
            candidate.name for candidate in reversed(METHODS) if candidate.signing_algorithms
        ]
        detail = f"only with {' or '.join(signing)}"
        yield fault(
            "token_endpoint_auth_signing_alg", "method.signing", detail, known=", ".join(signing)
        )
    elif chosen and chosen not in algorithms:
        yield _unknown("token_endpoint_auth_signing_alg", algorithms)


def _signatures(client: Registrant, algorithms: Collection[str]) -> Iterator[MetadataError]:
    openid = client.openid
    client_algorithms = (*algorithms, *((SHARED_ALGORITHM,) if client.has_secret else ()))
    for field in _SIGNED:
        chosen: str = getattr(openid, field)
        if chosen and chosen not in client_algorithms:
            yield _unknown(field, client_algorithms)
    signed = openid.introspection_signed_response_alg
    if signed and signed not in algorithms:
        yield _unknown("introspection_signed_response_alg", algorithms)
    algorithm = openid.request_object_signing_alg
    possible = (*VERIFIED_ALGORITHMS, *((SHARED_ALGORITHM,) if client.has_secret else ()), UNSIGNED)
    if algorithm and algorithm not in possible:
        yield _unknown("request_object_signing_alg", possible)
    elif algorithm in VERIFIED_ALGORITHMS and not client.signs:
        detail = "comes with the client's public keys"
        yield fault("request_object_signing_alg", "keys.needed", detail, method=algorithm)


def _encryptions(client: Registrant) -> Iterator[MetadataError]:
    for kind in _ENCRYPTED:
        alg: str = getattr(client.openid, f"{kind}_encrypted_response_alg")
        enc: str = getattr(client.openid, f"{kind}_encrypted_response_enc")
        if alg and alg not in ALGORITHMS:
            yield _unknown(f"{kind}_encrypted_response_alg", ALGORITHMS)
        elif alg and not client.openid.jwks_uri and alg not in client.encrypts:
            yield fault(f"{kind}_encrypted_response_alg", "keys.encryption")
        if enc and not alg:
            field, name = f"{kind}_encrypted_response_alg", f"{kind}_encrypted_response_enc"
            yield fault(field, "encryption.algorithm", name=name)
        elif enc and enc not in ENCRYPTIONS:
            yield _unknown(f"{kind}_encrypted_response_enc", ENCRYPTIONS)


def _requests(client: Registrant) -> Iterator[MetadataError]:
    openid = client.openid
    if openid.default_max_age is not None and not 0 <= openid.default_max_age <= _LONGEST_AGE:
        detail = "seconds, from 0 to ten years"
        yield fault("default_max_age", "number.range", detail, least=0, most=_LONGEST_AGE)
    yield from _too_many("default_acr_values", openid.default_acr_values, _MOST_ACRS)
    for number, acr in enumerate(openid.default_acr_values[:_MOST_ACRS]):
        if not _is_word(acr):
            yield fault(f"default_acr_values/{number}", "word.form")
    yield from _too_many("contacts", openid.contacts, _MOST_CONTACTS)
    for number, text in enumerate(openid.contacts[:_MOST_CONTACTS]):
        if not 0 < len(text) <= _LONGEST_CONTACT or not text.isprintable():
            yield input_fault(f"contacts/{number}", "text.some", least=1, most=_LONGEST_CONTACT)


def _too_many(field: str, values: tuple[str, ...], most: int) -> Iterator[MetadataError]:
    if len(set(values)) != len(values):
        yield fault(field, "list.repeated")
    for number in range(most, len(values)):
        yield fault(f"{field}/{number}", "list.many", most=most)


def _unknown(field: str, choices: Collection[str]) -> MetadataError:
    return fault(field, "choice.known", known=", ".join(choices))


def _is_word(text: str) -> bool:
    return (
        0 < len(text) <= _LONGEST_CONTACT
        and text.isascii()
        and text.isprintable()
        and " " not in text
    )
