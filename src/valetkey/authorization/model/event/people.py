"""Events of accounts, their roles, and email."""

from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser, Event


class UserRegistered(ByUser, frozen=True):
    """An account was created."""

    uid: int


class UserImportStarted(Event, frozen=True):
    """An import of `users` users began; each of them has a `user.registered` of its own."""

    affects_tokens: ClassVar[bool] = False

    import_id: str
    users: int


class UserImportFinished(Event, frozen=True):
    """An import of users ended; `created` accounts were created, `failed` were not."""

    affects_tokens: ClassVar[bool] = False

    import_id: str
    created: int
    failed: int


class UserChanged(ByUser, frozen=True):
    """An account was changed; `fields` names its changed fields."""

    uid: int
    fields: tuple[str, ...]


class UserDisabled(Event, frozen=True):
    """An account was disabled; its sessions and grants ended."""

    uid: int


class UserEnabled(Event, frozen=True):
    """An account was enabled; what had ended stays ended."""

    uid: int


class RemovalPlanned(ByUser, frozen=True):
    """An account is scheduled for removal at `due_at`; its sessions and grants ended."""

    uid: int
    due_at: int


class RemovalCancelled(ByUser, frozen=True):
    """A user signed in to an account scheduled for removal, which cancelled the removal."""

    uid: int


class UserRemoved(Event, frozen=True):
    """An account was removed with its data; only its uid remains."""

    uid: int


class DataExported(ByUser, frozen=True):
    """A user downloaded their data."""

    uid: int


class UserInvited(Event, frozen=True):
    """An invitation to create an account was issued."""


class PasswordResetRequested(ByAnonymous, frozen=True):
    """A password reset link was sent to the account's email address."""

    uid: int


class EmailRestored(ByUser, frozen=True):
    """A change of email address was undone from the previous address; all sessions ended."""

    uid: int


class PasswordChanged(ByUser, frozen=True):
    """A password was set; grants and all other sessions ended."""

    uid: int


class IdentityLinked(ByUser, frozen=True):
    """An account at an upstream provider was linked."""

    uid: int
    issuer: str


class IdentityUnlinked(ByUser, frozen=True):
    """An account at an upstream provider was unlinked; `because` says why."""

    uid: int
    issuer: str
    because: str


class MailDispatched(BySystem, frozen=True):
    """The mail server accepted a message; `kind` is its subject."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int


class MailGivenUp(BySystem, frozen=True):
    """Delivery of a message was abandoned; `because` says why."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int
    because: str


class RoleChanged(Event, frozen=True):
    """The role of a user changed; "" is none."""

    uid: int
    before: str
    after: str


class OwnerLinkIssued(Event, frozen=True):
    """A link that makes its user an owner was issued; `break_glass` where an owner existed."""

    break_glass: bool


class OwnerLinkRedeemed(ByUser, frozen=True):
    """An owner link was used."""

    uid: int
    break_glass: bool


class DeveloperAdmitted(Event, frozen=True):
    """A user was permitted to register apps."""

    uid: int


class DeveloperDismissed(Event, frozen=True):
    """A user lost the permission to register apps; their apps remain."""

    uid: int
