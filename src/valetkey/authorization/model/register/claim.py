"""Claims of tokens beyond those of the protocol: where one can be, and what makes its value."""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Protocol

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.api import Api

CLAIM_NAME = r"[A-Za-z](?:[A-Za-z0-9_.:/-]{0,198}[A-Za-z0-9_])?"
"""The pattern of a claim's name: a word, or a URL for one that is to be unique."""

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


class ReadsFor(Enum):
    """What is read for the value of a claim."""

    NOTHING = "nothing"  # the record of the user has it, or it is the same for all
    MEMBERSHIPS = "memberships"  # groups or roles; the value is a list as long as these
    UPSTREAM = "upstream"  # what providers sent at the last sign-in


class ClaimInputs(Protocol):
    """What the value of a claim is made from: one user at one API.

    `user` is None for a client's own token, which has no groups and no roles.
    """

    user: User | None

    def groups(self, prefix: str) -> Sequence[str]:
        """Return the user's groups whose names begin with `prefix`."""
        ...

    def roles(self, identifier: str) -> Sequence[str]:
        """Return the user's roles at the API with this identifier, "" for that of the token."""
        ...

    def upstream(self, provider: str, name: str) -> object:
        """Return the claim that the provider sent at the last sign-in; None if it sent none."""
        ...


class ExtraClaim(Protocol):
    """A claim that a feature adds to tokens."""

    @property
    def name(self) -> str:
        """Its name in tokens."""
        ...

    @property
    def places(self) -> Collection[ClaimLocation]:
        """Where it can be."""
        ...

    @property
    def reads(self) -> ReadsFor:
        """What is read for its value."""
        ...

    def is_for(self, client_id: str, api: Api, scope: Collection[str]) -> bool:
        """Return whether tokens of this client, API and scope have it."""
        ...

    def value(self, inputs: ClaimInputs) -> object:
        """Return its value; None if the user has none."""
        ...
