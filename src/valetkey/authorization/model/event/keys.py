"""What happens to keys, and to the database that they open."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import BySystem, Event


@dataclass(frozen=True, slots=True)
class SigningKeyIssued(BySystem):
    """A signing key was made and published; it signs from `activates_at` on."""

    name: ClassVar[str] = "signing_key.issued"
    kid: str
    algorithm: str
    activates_at: int


@dataclass(frozen=True, slots=True)
class SigningKeyRetired(BySystem):
    """A signing key signs no more; it is published until its last token has expired."""

    name: ClassVar[str] = "signing_key.retired"
    kid: str


@dataclass(frozen=True, slots=True)
class SigningKeyWithdrawn(Event):
    """A signing key was taken back before its time; nothing that it signed is good any more."""

    name: ClassVar[str] = "signing_key.withdrawn"
    kid: str


@dataclass(frozen=True, slots=True)
class KeyringRotated(Event):
    """The key that seals secrets was replaced and everything sealed was sealed anew."""

    name: ClassVar[str] = "keyring.rotated"
    version: int


@dataclass(frozen=True, slots=True)
class DatabaseRestored(Event):
    """A backup was restored: all that was issued before ended, and a new epoch began."""

    name: ClassVar[str] = "database.restored"
    epoch: int
    users_disabled: int
    clients_disabled: int
