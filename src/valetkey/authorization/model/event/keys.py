"""Events of signing keys, the keyring and restored databases."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import BySystem, Event


@dataclass(frozen=True, slots=True)
class SigningKeyIssued(BySystem):
    """A signing key was published; it signs from `activates_at` on."""

    kid: str
    algorithm: str
    activates_at: int


@dataclass(frozen=True, slots=True)
class SigningKeyRetired(BySystem):
    """A signing key was retired; it stays published until its last token has expired."""

    kid: str


@dataclass(frozen=True, slots=True)
class SigningKeyWithdrawn(Event):
    """A signing key was withdrawn; nothing it signed is valid any more."""

    kid: str


@dataclass(frozen=True, slots=True)
class KeyringRotated(Event):
    """The key that encrypts stored secrets was replaced and all of them were encrypted again."""

    version: int


@dataclass(frozen=True, slots=True)
class DatabaseRestored(Event):
    """A backup was restored: everything issued before it ended, and a new epoch began."""

    epoch: int
    users_disabled: int
    clients_disabled: int
