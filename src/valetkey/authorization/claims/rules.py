"""Declare attributes of accounts and claims of tokens. All run inside a transaction."""

import re
from collections.abc import Collection, Iterator

import msgspec

from valetkey.authorization.actions.attributes import SIMPLE_TYPES, attribute_shape
from valetkey.authorization.claims.model import (
    MOST_CLAIMS,
    AttributeDeclared,
    AttributeRemoved,
    ClaimDeclared,
    ClaimRemoved,
    Declarations,
    DeclaredClaim,
    Source,
)
from valetkey.authorization.model.api import CLAIM_NAME, ClaimLocation
from valetkey.authorization.model.user import ATTRIBUTE_NAME, MOST_ATTRIBUTES, Attribute
from valetkey.authorization.protocol.claims import GROUPS, RESERVED_CLAIMS, ROLES
from valetkey.authorization.protocol.register.faults import MetadataError, fault, input_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.shapes import UnusableSchema
from valetkey.kernel.text import translatable
from valetkey.kernel.url import canonical

Faults = tuple[MetadataError, ...]

_LARGEST_SCHEMA = 4_096
_LONGEST_LABEL = 80
_MOST_LISTED = 100
_LONGEST_CONSTANT = 1_000
_ONLY_INTROSPECTION = frozenset({Source.USERNAME, Source.EMAIL})
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}")
_SOURCES = (
    "attribute:NAME, groups, groups:PREFIX, roles, roles:API, constant:TEXT, email_domain, "
    "username, email or upstream:PROVIDER:NAME"
)


def declare_attribute(tx: Transaction, attribute: Attribute, now: Instant) -> bool | Faults:
    """Declare or change an attribute. False if nothing changed; faults if it is invalid.

    Values that users have stay as they are; each is judged again when its user's attributes change.
    """
    store = Declarations.of(tx)
    store.hold_all()
    declared = {declaration.name: declaration for declaration in store.attributes()}
    if faults := tuple(_attribute_faults(attribute)):
        return faults
    if declared.get(attribute.name) == attribute:
        return False
    if attribute.name not in declared and len(declared) >= MOST_ATTRIBUTES:
        detail = f"one of at most {MOST_ATTRIBUTES} attributes"
        return (fault("name", "list.full", detail, most=MOST_ATTRIBUTES),)
    store.save_attribute(attribute, now)
    tx.events.add(AttributeDeclared(attribute.name), now)
    return True


def remove_attribute(tx: Transaction, name: str, now: Instant) -> bool:
    """Remove a declaration; False if there is none. Values stay stored but are not shown.

    Raises Refused (conflict) while a claim comes from it.
    """
    store = Declarations.of(tx)
    store.hold_all()
    source = f"{Source.ATTRIBUTE}:{name}"
    users = [claim.name for claim in store.claims() if claim.source == source]
    if users:
        description = translatable("claims come from this attribute; remove them first")
        raise Refused.because(ErrorCode.CONFLICT, description, "attribute.used")
    if not store.remove_attribute(name):
        return False
    tx.events.add(AttributeRemoved(name), now)
    return True


def declare_claim(
    tx: Transaction,
    claim: DeclaredClaim,
    default_api: str,
    now: Instant,
) -> bool | Faults:
    """Declare or change a claim. False if nothing changed; faults if it is invalid.

    `default_api` is the identifier of the server's own API.
    """
    store = Declarations.of(tx)
    store.hold_all()
    servers = tx.upstream_servers().items()
    kept = {f"{server_id}:{name}" for server_id, server in servers for name in server.keep_claims}
    declared = {declaration.name: declaration for declaration in store.claims()}
    if faults := (*_claim_faults(claim), *_unknown(tx, claim, default_api, kept)):
        return faults
    if declared.get(claim.name) == claim:
        return False
    if claim.name not in declared and len(declared) >= MOST_CLAIMS:
        detail = f"one of at most {MOST_CLAIMS} claims"
        return (fault("name", "list.full", detail, most=MOST_CLAIMS),)
    store.save_claim(claim, now)
    tx.events.add(ClaimDeclared(claim.name, claim.source), now)
    return True


def remove_claim(tx: Transaction, name: str, now: Instant) -> bool:
    """Remove a declaration; False if there is none. Tokens issued before keep the claim."""
    store = Declarations.of(tx)
    store.hold_all()
    if not store.remove_claim(name):
        return False
    tx.events.add(ClaimRemoved(name), now)
    return True


def _attribute_faults(attribute: Attribute) -> Iterator[MetadataError]:
    if re.fullmatch(ATTRIBUTE_NAME, attribute.name) is None:
        yield input_fault("name", "attribute.name")
        return
    if len(attribute.label) > _LONGEST_LABEL or not attribute.label.isprintable():
        yield input_fault("label", "text.printable", most=_LONGEST_LABEL)
    if len(msgspec.json.encode(attribute.schema)) > _LARGEST_SCHEMA:
        yield fault("schema", "schema.size", most=_LARGEST_SCHEMA)
        return
    try:
        attribute_shape([attribute])
    except UnusableSchema as reason:
        yield fault("schema", "schema.form", reason=str(reason)[:300])
        return
    if attribute.editable and attribute.schema.get("type") not in SIMPLE_TYPES:
        yield fault("editable", "schema.simple", known=", ".join(SIMPLE_TYPES))


def _claim_faults(claim: DeclaredClaim) -> Iterator[MetadataError]:
    kind, _, argument = claim.source.partition(":")
    if re.fullmatch(CLAIM_NAME, claim.name) is None:
        yield fault("name", "claim.name")
    elif claim.name in RESERVED_CLAIMS and not (kind == claim.name in _ONLY_INTROSPECTION):
        yield fault("name", "claim.reserved", name=claim.name)
    elif claim.name in {GROUPS, ROLES} and kind != claim.name:
        yield fault("from", "claim.source", name=claim.name)
    elif claim.name == ROLES and argument and ClaimLocation.ACCESS_TOKEN in claim.places:
        # An API would mistake roles at another API for its own.
        yield fault("from", "claim.roles")
    has_argument = {
        Source.ATTRIBUTE: bool(argument),
        Source.CONSTANT: 0 < len(argument) <= _LONGEST_CONSTANT,
        **dict.fromkeys((Source.EMAIL_DOMAIN, *_ONLY_INTROSPECTION), ":" not in claim.source),
        Source.UPSTREAM: ":" in argument,
    }
    if kind not in set(Source) or not has_argument.get(Source(kind), True):
        yield fault("from", "claim.argument", _SOURCES)
    yield from _place_faults(claim, kind)
    if claim.scope and _SCOPE.fullmatch(claim.scope) is None:
        yield fault("scope", "word.form", "the name of one scope")
    for name, listed in (("clients", claim.clients), ("apis", claim.apis)):
        if len(listed) > _MOST_LISTED:
            detail = f"at most {_MOST_LISTED}, or none for all"
            yield fault(name, "list.many", detail, most=_MOST_LISTED)


def _place_faults(claim: DeclaredClaim, kind: str) -> Iterator[MetadataError]:
    if not claim.places:
        yield fault("in", "list.none", f"one or more of {', '.join(ClaimLocation)}")
    elif kind in _ONLY_INTROSPECTION:
        # Apps get both by scopes that users allow, and a token would keep what was true once.
        if claim.places != (ClaimLocation.INTROSPECTION,):
            yield fault("in", "claim.introspection", kind=kind)
    elif ClaimLocation.INTROSPECTION in claim.places:
        yield fault("in", "claim.access_token")


def _unknown(
    tx: Transaction, claim: DeclaredClaim, default_api: str, kept: Collection[str]
) -> Iterator[MetadataError]:
    """Return an error for each reference to something that does not exist.

    Otherwise the claim would be missing from every token without an error.
    """
    kind, _, argument = claim.source.partition(":")
    if kind == Source.ATTRIBUTE:
        names = [attribute.name for attribute in Declarations.of(tx).attributes()]
        if argument not in names:
            yield fault("from", "attribute.none", name=argument[:40])
    if kind == Source.ROLES and argument and tx.apis.find_by_key(canonical(argument)) is None:
        detail = "roles: and the identifier of a declared API"
        yield fault("from", "api.identifier", detail)
    if kind == Source.UPSTREAM and ":" in argument and argument not in kept:
        yield fault("from", "claim.kept")
    for client_id in sorted(claim.clients)[:_MOST_LISTED]:
        if not client_id.isprintable() or tx.clients.find(client_id) is None:
            yield fault("clients", "client.id", f"ids of clients; there is no {client_id[:80]!a}")
    for identifier in sorted(claim.apis)[:_MOST_LISTED]:
        if canonical(identifier) != canonical(default_api) and (
            not identifier.isprintable() or tx.apis.find_by_key(canonical(identifier)) is None
        ):
            detail = f"identifiers of APIs; there is no {identifier[:80]!a}"
            yield fault("apis", "api.identifier", detail)
