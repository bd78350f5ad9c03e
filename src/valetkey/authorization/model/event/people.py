"""What happens to accounts."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, ByUser, Event


@dataclass(frozen=True, slots=True)
class UserRegistered(ByUser):
    """An account was made."""

    name: ClassVar[str] = "user.registered"
    uid: int


@dataclass(frozen=True, slots=True)
class UserChanged(ByUser):
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
class UserRemovalPlanned(ByUser):
    """An account is to be removed at `due_at`; its sessions and grants have ended."""

    name: ClassVar[str] = "removal.planned"
    uid: int
    due_at: int


@dataclass(frozen=True, slots=True)
class UserRemovalCancelled(ByUser):
    """Somebody signed in to such an account: it stays."""

    name: ClassVar[str] = "removal.cancelled"
    uid: int


@dataclass(frozen=True, slots=True)
class UserRemoved(Event):
    """An account is gone, with all that was known of its person but this number."""

    name: ClassVar[str] = "user.removed"
    uid: int


@dataclass(frozen=True, slots=True)
class DataExported(ByUser):
    """A person downloaded what is known of them."""

    name: ClassVar[str] = "data.exported"
    uid: int


@dataclass(frozen=True, slots=True)
class UserInvited(Event):
    """Somebody may make an account who has none."""

    name: ClassVar[str] = "user.invited"


@dataclass(frozen=True, slots=True)
class PasswordResetRequested(ByAnonymous):
    """A link to choose another password was mailed to the account's address."""

    name: ClassVar[str] = "password_reset.requested"
    uid: int


@dataclass(frozen=True, slots=True)
class EmailRestored(ByUser):
    """The address before took the account back; everybody is signed out of it."""

    name: ClassVar[str] = "email.restored"
    uid: int


@dataclass(frozen=True, slots=True)
class PasswordChanged(ByUser):
    """A password was set; grants ended, and sessions but the one in which it was changed."""

    name: ClassVar[str] = "password.changed"
    uid: int


@dataclass(frozen=True, slots=True)
class IdentityLinked(ByUser):
    """A person connected their account at another server and can sign in from there."""

    name: ClassVar[str] = "identity.linked"
    uid: int
    issuer: str


@dataclass(frozen=True, slots=True)
class IdentityUnlinked(ByUser):
    """Such an account was disconnected; `because` says why."""

    name: ClassVar[str] = "identity.unlinked"
    uid: int
    issuer: str
    because: str
