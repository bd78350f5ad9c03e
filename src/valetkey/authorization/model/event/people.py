"""Events of accounts, their roles, and email."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser, Event


@dataclass(frozen=True, slots=True)
class UserRegistered(ByUser):
    """An account was created."""

    uid: int


@dataclass(frozen=True, slots=True)
class UserImportStarted(Event):
    """An import of `users` users began; each of them has a `user.registered` of its own."""

    affects_tokens: ClassVar[bool] = False

    import_id: str
    users: int


@dataclass(frozen=True, slots=True)
class UserImportFinished(Event):
    """An import of users ended; `created` accounts were created, `failed` were not."""

    affects_tokens: ClassVar[bool] = False

    import_id: str
    created: int
    failed: int


@dataclass(frozen=True, slots=True)
class UserChanged(ByUser):
    """An account was changed; `fields` names its changed fields."""

    uid: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserDisabled(Event):
    """An account was disabled; its sessions and grants ended."""

    uid: int


@dataclass(frozen=True, slots=True)
class UserEnabled(Event):
    """An account was enabled; what had ended stays ended."""

    uid: int


@dataclass(frozen=True, slots=True)
class RemovalPlanned(ByUser):
    """An account is scheduled for removal at `due_at`; its sessions and grants ended."""

    uid: int
    due_at: int


@dataclass(frozen=True, slots=True)
class RemovalCancelled(ByUser):
    """A user signed in to an account scheduled for removal, which cancelled the removal."""

    uid: int


@dataclass(frozen=True, slots=True)
class UserRemoved(Event):
    """An account was removed with its data; only its uid remains."""

    uid: int


@dataclass(frozen=True, slots=True)
class DataExported(ByUser):
    """A user downloaded their data."""

    uid: int


@dataclass(frozen=True, slots=True)
class UserInvited(Event):
    """An invitation to create an account was issued."""


@dataclass(frozen=True, slots=True)
class PasswordResetRequested(ByAnonymous):
    """A password reset link was sent to the account's email address."""

    uid: int


@dataclass(frozen=True, slots=True)
class EmailRestored(ByUser):
    """A change of email address was undone from the previous address; all sessions ended."""

    uid: int


@dataclass(frozen=True, slots=True)
class PasswordChanged(ByUser):
    """A password was set; grants and all other sessions ended."""

    uid: int


@dataclass(frozen=True, slots=True)
class IdentityLinked(ByUser):
    """An account at an upstream provider was linked."""

    uid: int
    issuer: str


@dataclass(frozen=True, slots=True)
class IdentityUnlinked(ByUser):
    """An account at an upstream provider was unlinked; `because` says why."""

    uid: int
    issuer: str
    because: str


@dataclass(frozen=True, slots=True)
class MailDispatched(BySystem):
    """The mail server accepted a message; `kind` is its subject."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int


@dataclass(frozen=True, slots=True)
class MailGivenUp(BySystem):
    """Delivery of a message was abandoned; `because` says why."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int
    because: str


@dataclass(frozen=True, slots=True)
class RoleChanged(Event):
    """The role of a user changed; "" is none."""

    uid: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OwnerLinkIssued(Event):
    """A link that makes its user an owner was issued; `break_glass` where an owner existed."""

    break_glass: bool


@dataclass(frozen=True, slots=True)
class OwnerLinkRedeemed(ByUser):
    """An owner link was used."""

    uid: int
    break_glass: bool


@dataclass(frozen=True, slots=True)
class DeveloperAdmitted(Event):
    """A user was permitted to register apps."""

    uid: int


@dataclass(frozen=True, slots=True)
class DeveloperDismissed(Event):
    """A user lost the permission to register apps; their apps remain."""

    uid: int
