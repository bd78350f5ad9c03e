"""Claims that an operator declares: their source, and the tokens that carry them."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

import msgspec
from msgspec import Struct, field

CLAIM_NAME = r"[A-Za-z](?:[A-Za-z0-9_.:/-]{0,198}[A-Za-z0-9_])?"
"""The pattern of a claim's name: a word, or a URL for one that is to be unique."""

MOST_CLAIMS = 100
"""Maximum number of declared claims."""

LARGEST_CLAIMS = 8_192
"""Maximum size of the claims in one token in bytes of JSON, without those of the protocol."""

Claims = Mapping[str, object]

NO_CLAIMS: Claims = MappingProxyType({})


class ClaimLocation(StrEnum):
    """Where a claim can be."""

    ID_TOKEN = "id_token"
    USERINFO = "userinfo"
    ACCESS_TOKEN = "access_token"
    INTROSPECTION = "introspection"  # for the API of the token, as things are when it asks


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
    def kind(self) -> Source:
        """The source without its argument."""
        return _parsed(self.source)[0]

    @property
    def argument(self) -> str:
        """Return the argument after the source's colon; "" for none."""
        return _parsed(self.source)[1]

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
