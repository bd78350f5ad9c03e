"""Events of accounts, their roles, and email."""

from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser, Event
from valetkey.kernel.words import translatable


class UserRegistered(ByUser, frozen=True):
    """An account was created."""

    sentence = translatable("The account %(uid)s was created.")

    uid: int


class UserChanged(ByUser, frozen=True):
    """An account was changed; `fields` names its changed fields."""

    sentence = translatable("The account %(uid)s was changed: %(fields)s.")

    uid: int
    fields: tuple[str, ...]


class UserDisabled(Event, frozen=True):
    """An account was disabled; its sessions and grants ended."""

    sentence = translatable("The account %(uid)s was disabled.")

    uid: int


class UserSecured(Event, frozen=True):
    """An account was secured: all access ended, and a second factor is required."""

    sentence = translatable("The account %(uid)s was secured.")

    uid: int


class UserEnabled(Event, frozen=True):
    """An account was enabled; what had ended stays ended."""

    sentence = translatable("The account %(uid)s was enabled.")

    uid: int


class RemovalPlanned(ByUser, frozen=True):
    """An account is scheduled for removal at `due_at`; its sessions and grants ended."""

    sentence = translatable("The account %(uid)s is scheduled for deletion at %(due_at)s.")

    uid: int
    due_at: int


class RemovalCancelled(ByUser, frozen=True):
    """A user signed in to an account scheduled for removal, which cancelled the removal."""

    sentence = translatable("The deletion of the account %(uid)s was cancelled.")

    uid: int


class UserRemoved(Event, frozen=True):
    """An account was removed with its data; only its uid remains."""

    sentence = translatable("The account %(uid)s was deleted.")

    uid: int


class DataExported(ByUser, frozen=True):
    """A user downloaded their data."""

    sentence = translatable("The data of the account %(uid)s was downloaded.")

    uid: int


class UserInvited(Event, frozen=True):
    """An invitation to create an account was issued."""

    sentence = translatable("A user was invited to create an account.")


class PasswordResetRequested(ByAnonymous, frozen=True):
    """A password reset link was sent to the account's email address."""

    sentence = translatable("A password reset was requested for %(uid)s.")

    uid: int


class SetPasswordLinkIssued(Event, frozen=True):
    """An administrator issued a link with which a user sets a password."""

    sentence = translatable("A link to set a password was issued for %(uid)s.")

    uid: int


class EmailRestored(ByUser, frozen=True):
    """A change of email address was undone from the previous address; all sessions ended."""

    sentence = translatable("The previous email address of %(uid)s was restored.")

    uid: int


class PasswordChanged(ByUser, frozen=True):
    """A password was set; grants and all other sessions ended."""

    sentence = translatable("The password of %(uid)s was changed.")

    uid: int


class MailDispatched(BySystem, frozen=True):
    """The mail server accepted an email; `kind` is its purpose."""

    sentence = translatable("An email was sent: %(kind)s.")

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int


class MailGivenUp(BySystem, frozen=True):
    """Delivery of an email was abandoned; `because` says why."""

    sentence = translatable("An email could not be delivered: %(kind)s.")

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int
    because: str


class RoleChanged(Event, frozen=True):
    """The role of a user changed; "" is none."""

    sentence = translatable("The role of %(uid)s was changed from %(before)s to %(after)s.")

    uid: int
    before: str
    after: str


class OwnerLinkIssued(Event, frozen=True):
    """A link that makes its user an owner was issued; `break_glass` where an owner existed."""

    sentence = translatable("A link that makes its user an owner was issued.")

    break_glass: bool


class OwnerLinkRedeemed(ByUser, frozen=True):
    """An owner link was used."""

    sentence = translatable("%(uid)s became an owner by a link.")

    uid: int
    break_glass: bool


class DeveloperAdmitted(Event, frozen=True):
    """A user was permitted to register apps."""

    sentence = translatable("%(uid)s was permitted to register apps.")

    uid: int


class DeveloperDismissed(Event, frozen=True):
    """A user lost the permission to register apps; their apps remain."""

    sentence = translatable("%(uid)s may no longer register apps.")

    uid: int
