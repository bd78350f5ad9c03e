"""Declared attributes and claims: their events, and what makes the value of a claim."""

from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.api import Api, ClaimInputs, ClaimLocation, ReadsFor
from valetkey.authorization.model.event.event import Event
from valetkey.kernel.text import translatable
from valetkey.kernel.url import canonical

MOST_CLAIMS = 100
"""Maximum number of declared claims."""


class Source(StrEnum):
    """The source of a claim's value; its argument follows a colon."""

    ATTRIBUTE = "attribute"  # its name
    GROUPS = "groups"  # what the names begin with; none for all groups
    ROLES = "roles"  # the identifier of an API; none for that of the token
    CONSTANT = "constant"  # the text
    EMAIL_DOMAIN = "email_domain"
    USERNAME = "username"
    EMAIL = "email"
    UPSTREAM = "upstream"  # the id of a provider, a colon, and the name of its kept claim


_READS = {
    Source.GROUPS: ReadsFor.MEMBERSHIPS,
    Source.ROLES: ReadsFor.MEMBERSHIPS,
    Source.UPSTREAM: ReadsFor.UPSTREAM,
}


class DeclaredClaim(Struct, frozen=True):
    """A claim: its source, and which tokens have it.

    `scope` is "" for every scope. Empty `clients` stand for every client, empty `apis` for every
    API; both are compared with what the token is issued to and for.
    """

    name: str
    source: str
    places: tuple[ClaimLocation, ...]
    scope: str = ""
    clients: frozenset[str] = field(default_factory=frozenset[str])
    apis: frozenset[str] = field(default_factory=frozenset[str])

    @property
    def reads(self) -> ReadsFor:
        """What is read for its value."""
        return _READS.get(_parsed(self.source)[0], ReadsFor.NOTHING)

    def is_for(self, client_id: str, api: Api, scope: Collection[str]) -> bool:
        """Return whether tokens of this client, API and scope have it, if it has a value."""
        return (
            (not self.scope or self.scope in scope)
            and (not self.clients or client_id in self.clients)
            and (not self.apis or canonical(api.identifier) in map(canonical, self.apis))
        )

    def value(self, inputs: ClaimInputs) -> object:
        """Return its value; None if the user has none."""
        (kind, argument), user = _parsed(self.source), inputs.user
        if kind is Source.CONSTANT:
            return argument
        if user is None:
            return None
        match kind:
            case Source.ATTRIBUTE:
                return user.attributes.values.get(argument)
            case Source.GROUPS:
                return inputs.groups(argument)
            case Source.ROLES:
                return inputs.roles(argument)
            case Source.EMAIL_DOMAIN:
                # An unverified address must not be taken for membership of its domain.
                verified = user.email_verified_at is not None
                return user.email.rpartition("@")[2].lower() if verified else None
            case Source.USERNAME:
                return user.username
            case Source.EMAIL:
                # Mail servers find mailboxes by it: an unverified address proves nothing.
                return user.email if user.email_verified_at is not None else None
            case Source.UPSTREAM:
                server_id, _, name = argument.partition(":")
                return inputs.upstream(server_id, name)

    def encode(self) -> str:
        """Encode for storage."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @staticmethod
    def decode(text: str) -> "DeclaredClaim":
        """Decode what `encode` returned."""
        return msgspec.json.decode(text, type=DeclaredClaim)


@lru_cache(maxsize=1024)
def _parsed(source: str) -> tuple[Source, str]:
    """Return a source and its argument. Cached: every token asks for each of its claims."""
    kind, _, argument = source.partition(":")
    return Source(kind), argument


class AttributeDeclared(Event, frozen=True):
    """An attribute of accounts was declared, or its declaration changed."""

    sentence = translatable("The attribute %(attribute)s was declared or changed.")

    attribute: str


class AttributeRemoved(Event, frozen=True):
    """An attribute of accounts is no longer declared; its values are no longer shown."""

    sentence = translatable("The attribute %(attribute)s was deleted.")

    attribute: str


class ClaimDeclared(Event, frozen=True):
    """A claim of tokens was declared, or its declaration changed."""

    sentence = translatable("The claim %(claim)s was declared or changed.")

    claim: str
    source: str


class ClaimRemoved(Event, frozen=True):
    """A claim of tokens is no longer declared."""

    sentence = translatable("The claim %(claim)s was deleted.")

    claim: str


EVENTS = (AttributeDeclared, AttributeRemoved, ClaimDeclared, ClaimRemoved)
