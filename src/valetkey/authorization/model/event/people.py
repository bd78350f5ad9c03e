"""What happens to accounts."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class UserRegistered(Event):
    """An account was made."""

    name: ClassVar[str] = "user.registered"
    uid: int


@dataclass(frozen=True, slots=True)
class UserChanged(Event):
    """An account's record was changed; `fields` names what."""

    name: ClassVar[str] = "user.changed"
    uid: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserDisabled(Event):
    """An account was switched off; its sessions and grants have ended."""

    name: ClassVar[str] = "user.disabled"
    uid: int


@dataclass(frozen=True, slots=True)
class UserEnabled(Event):
    """An account was switched on again; nothing that ended came back."""

    name: ClassVar[str] = "user.enabled"
    uid: int


@dataclass(frozen=True, slots=True)
class PasswordChanged(Event):
    """A password was set; grants ended, and sessions but the one in which it was changed."""

    name: ClassVar[str] = "password.changed"
    uid: int


@dataclass(frozen=True, slots=True)
class IdentityLinked(Event):
    """A person connected their account at another server and can sign in from there."""

    name: ClassVar[str] = "identity.linked"
    uid: int
    issuer: str


@dataclass(frozen=True, slots=True)
class IdentityUnlinked(Event):
    """Such an account was disconnected; `because` says why."""

    name: ClassVar[str] = "identity.unlinked"
    uid: int
    issuer: str
    because: str
