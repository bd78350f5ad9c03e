"""Declared attributes and claims: events, what makes the value of a claim, and their store."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.api import Api, ClaimInputs, ClaimLocation, ReadsFor
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import Attribute
from valetkey.authorization.storage.administration import Applied
from valetkey.authorization.storage.revision import hold_all, touch
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
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

    subject = "attribute:{attribute}"
    sentence = translatable("The attribute %(attribute)s was declared or changed.")

    attribute: str


class AttributeRemoved(Event, frozen=True):
    """An attribute of accounts is no longer declared; its values are no longer shown."""

    subject = "attribute:{attribute}"
    sentence = translatable("The attribute %(attribute)s was deleted.")

    attribute: str


class ClaimDeclared(Event, frozen=True):
    """A claim of tokens was declared, or its declaration changed."""

    subject = "claim:{claim}"
    sentence = translatable("The claim %(claim)s was declared or changed.")

    claim: str
    source: str


class ClaimRemoved(Event, frozen=True):
    """A claim of tokens is no longer declared."""

    subject = "claim:{claim}"
    sentence = translatable("The claim %(claim)s was deleted.")

    claim: str


EVENTS = (AttributeDeclared, AttributeRemoved, ClaimDeclared, ClaimRemoved)


class Declarations(Struct, frozen=True):
    """Store declared attributes and claims. Changes bump the revision and block issuing."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "Declarations":
        """Return the store in this transaction."""
        return Declarations(tx.db)

    def hold_all(self) -> None:
        """Block issuing and other changes of declarations until the transaction ends."""
        hold_all(self.db)
        touch(self.db)

    def attributes(self) -> Sequence[Attribute]:
        """Return the declared attributes by name; at most `MOST_ATTRIBUTES`."""
        return [Attribute.decode(text) for text in self._all("attribute")]

    def save_attribute(self, attribute: Attribute, now: Instant) -> None:
        """Declare or change an attribute. Call `hold_all` first."""
        self._put("attribute", attribute.name, attribute.encode(), now)

    def remove_attribute(self, name: str) -> bool:
        """Remove a declared attribute; its values stay. Call `hold_all` first."""
        return self._remove("attribute", name)

    def claims(self) -> Sequence[DeclaredClaim]:
        """Return the declared claims by name; at most `MOST_CLAIMS`."""
        return [DeclaredClaim.decode(text) for text in self._all("claim")]

    def save_claim(self, claim: DeclaredClaim, now: Instant) -> None:
        """Declare or change a claim. Call `hold_all` first."""
        self._put("claim", claim.name, claim.encode(), now)

    def remove_claim(self, name: str) -> bool:
        """Remove a declared claim. Call `hold_all` first."""
        return self._remove("claim", name)

    def _all(self, kind: str) -> Sequence[str]:
        rows = self.db.rows(
            "SELECT declaration FROM declarations WHERE kind = :kind ORDER BY name", kind=kind
        )
        return [str(row[0]) for row in rows]

    def _put(self, kind: str, name: str, declaration: str, now: Instant) -> None:
        self.db.run(
            "INSERT INTO declarations (kind, name, declaration, changed_at)"
            " VALUES (:kind, :name, :declaration, :now) ON CONFLICT (kind, name)"
            " DO UPDATE SET declaration = :declaration, changed_at = :now",
            kind=kind,
            name=name,
            declaration=declaration,
            now=now,
        )

    def _remove(self, kind: str, name: str) -> bool:
        removed = self.db.run(
            "DELETE FROM declarations WHERE kind = :kind AND name = :name", kind=kind, name=name
        )
        Applied(self.db).release(kind, name)
        return removed == 1
