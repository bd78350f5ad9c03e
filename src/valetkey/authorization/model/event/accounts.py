"""Events of accounts: their roles, email, sessions, ways to sign in, and groups."""

from types import MappingProxyType
from typing import ClassVar

from valetkey.authorization.model.event.event import (
    WHY_ACCESS_ENDED,
    ActivityKind,
    ActivityText,
    ByAnonymous,
    BySystem,
    ByUser,
    Event,
)
from valetkey.kernel.text import translatable


class UserRegistered(ByUser, frozen=True):
    """An account was created."""

    sentence = translatable("The account %(uid)s was created.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("Your account was created."))

    uid: int


class UserChanged(ByUser, frozen=True):
    """An account was changed; `fields` names its changed fields."""

    sentence = translatable("The account %(uid)s was changed: %(fields)s.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("Your profile was changed."))

    uid: int
    fields: tuple[str, ...]


class UserDisabled(Event, frozen=True):
    """An account was disabled; its sessions and grants ended."""

    sentence = translatable("The account %(uid)s was disabled.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("Your account was disabled."))

    uid: int


class UserSecured(Event, frozen=True):
    """An account was secured: all access ended, and a second factor is required."""

    sentence = translatable("The account %(uid)s was secured.")
    activity = ActivityText(
        ActivityKind.SECURITY,
        translatable(
            "An administrator secured your account: its sign-in methods, sessions and app access "
            "ended."
        ),
    )

    uid: int


class UserEnabled(Event, frozen=True):
    """An account was enabled; what had ended stays ended."""

    sentence = translatable("The account %(uid)s was enabled.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("Your account was enabled again."))

    uid: int


class RemovalPlanned(ByUser, frozen=True):
    """An account is scheduled for removal at `due_at`; its sessions and grants ended."""

    sentence = translatable("The account %(uid)s is scheduled for deletion at %(due_at)s.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("You requested the deletion of your account.")
    )

    uid: int
    due_at: int


class RemovalCancelled(ByUser, frozen=True):
    """A user signed in to an account scheduled for removal, which cancelled the removal."""

    sentence = translatable("The deletion of the account %(uid)s was cancelled.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("You signed in again, so your account is not deleted.")
    )

    uid: int


class UserRemoved(Event, frozen=True):
    """An account was removed with its data; only its user ID remains."""

    sentence = translatable("The account %(uid)s was deleted.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("Your account was deleted."))

    uid: int


class DataExported(ByUser, frozen=True):
    """A user downloaded their data."""

    sentence = translatable("The data of the account %(uid)s was downloaded.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("You downloaded your data."))

    uid: int


class UserInvited(Event, frozen=True):
    """An invitation to create an account was issued."""

    sentence = translatable("A user was invited to create an account.")


class PasswordResetRequested(ByAnonymous, frozen=True):
    """A password reset link was sent to the account's email address."""

    sentence = translatable("A password reset was requested for %(uid)s.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("A password reset was requested."))

    uid: int


class SetPasswordLinkIssued(Event, frozen=True):
    """An administrator issued a link with which a user sets a password."""

    sentence = translatable("A link to set a password was issued for %(uid)s.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("An administrator issued a link to set your password.")
    )

    uid: int


class EmailRestored(ByUser, frozen=True):
    """A change of email address was undone from the previous address; all sessions ended."""

    sentence = translatable("The previous email address of %(uid)s was restored.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("Your old email address was restored.")
    )

    uid: int


class PasswordChanged(ByUser, frozen=True):
    """A password was set; grants and all other sessions ended."""

    sentence = translatable("The password of %(uid)s was changed.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("Your password was changed."))

    uid: int


class MailDispatched(BySystem, frozen=True):
    """The mail server accepted an email; `kind` is its purpose."""

    without = MappingProxyType({"uid": translatable("An email was sent: %(kind)s.")})
    sentence = translatable("An email was sent to %(uid)s: %(kind)s.")
    unlisted = "the user has the email"

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int


class MailGivenUp(BySystem, frozen=True):
    """Delivery of an email was abandoned; `because` says why."""

    is_failure = True
    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "encrypted with another keyring": translatable("it was encrypted with another keyring"),
        "expired before delivery": translatable("it expired before it was delivered"),
        "invalid address": translatable("the address is not valid"),
        "its feature was taken out": translatable("its feature was taken out"),
    }
    without = MappingProxyType(
        {"uid": translatable("An email (%(kind)s) could not be delivered: %(because)s.")}
    )
    sentence = translatable("An email to %(uid)s (%(kind)s) could not be delivered: %(because)s.")
    unlisted = "a problem for the operator, who is notified"

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int
    because: str


class RoleChanged(Event, frozen=True):
    """The role of a user changed; "" is none."""

    is_alarming = True
    sentence = translatable("The role of %(uid)s was changed from %(before)s to %(after)s.")
    without = MappingProxyType(
        {
            "before": translatable("%(uid)s was assigned the role %(after)s."),
            "after": translatable("The role %(before)s was removed from %(uid)s."),
        }
    )
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("Your role on this server was changed.")
    )

    uid: int
    before: str
    after: str


class OwnerLinkIssued(Event, frozen=True):
    """A link that makes its user an owner was issued; `break_glass` where an owner existed."""

    is_alarming = True
    sentence = translatable("A link that makes its user an owner was issued.")

    break_glass: bool


class OwnerLinkRedeemed(ByUser, frozen=True):
    """An owner link was used."""

    is_alarming = True
    sentence = translatable("%(uid)s became an owner by a link.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("You became the owner of this server.")
    )

    uid: int
    break_glass: bool


class DeveloperAdmitted(Event, frozen=True):
    """A user was permitted to register apps."""

    sentence = translatable("%(uid)s was permitted to register apps.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("You were allowed to register apps.")
    )

    uid: int


class DeveloperDismissed(Event, frozen=True):
    """A user lost the permission to register apps; their apps remain."""

    sentence = translatable("%(uid)s may no longer register apps.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("You can no longer register apps."))

    uid: int


class SignInFailed(ByAnonymous, frozen=True):
    """A sign-in failed; `because` says why.

    It is `wrong_password`, `unknown_user` (`uid` is then absent), `account_disabled`,
    `no_password`, `password_changed` (while it was verified) or `passkey_refused`; absent before
    version 0.3.
    """

    is_failure = True
    without = MappingProxyType({"uid": translatable("A sign-in failed: %(because)s.")})
    sentence = translatable("A sign-in as %(uid)s failed: %(because)s.")
    activity = ActivityText(ActivityKind.SIGN_IN, translatable("A sign-in failed: wrong password."))
    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "account_disabled": translatable("the account is disabled"),
        "no_password": translatable("the account has no password"),
        "passkey_refused": translatable("the passkey was refused"),
        "password_changed": translatable("the password was changed during the sign-in"),
        "unknown_user": translatable("there is no such account"),
        "wrong_password": translatable("the password is wrong"),
    }

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    channel: str
    because: str = ""


class SessionStarted(ByUser, frozen=True):
    """A user signed in."""

    sentence = translatable("%(uid)s signed in.")
    activity = ActivityText(ActivityKind.SIGN_IN, translatable("You signed in."))

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


class SessionRenewed(ByUser, frozen=True):
    """A signed-in user signed in again; the session continues."""

    sentence = translatable("%(uid)s signed in again.")
    activity = ActivityText(
        ActivityKind.SIGN_IN, translatable("You confirmed your identity again.")
    )

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


class IdentityConfirmed(ByUser, frozen=True):
    """A signed-in user authenticated again before a sensitive action."""

    sentence = translatable("%(uid)s confirmed their identity.")
    unlisted = "part of an action that is listed"

    uid: int
    session_id: str
    methods: tuple[str, ...]


class SessionEnded(ByUser, frozen=True):
    """A session ended; `because` says why."""

    sentence = translatable("A session of %(uid)s ended: %(because)s.")
    activity = ActivityText(
        ActivityKind.SIGN_IN,
        translatable("A browser was signed out."),
        {
            "signed_out": translatable("You signed out."),
            "signed_out_elsewhere": translatable("You signed out another browser."),
            "password_changed": translatable(
                "A browser was signed out, because the password was changed."
            ),
        },
    )
    reasons = WHY_ACCESS_ENDED

    uid: int
    session_id: str
    because: str


class LogoutTokenDelivered(BySystem, frozen=True):
    """A logout token was delivered and the client confirmed it."""

    sentence = translatable("The app %(client_id)s was notified that %(uid)s signed out.")
    unlisted = "between the server and an app; session.ended records it"

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int


class LogoutTokenGivenUp(BySystem, frozen=True):
    """Delivery of a logout token was abandoned; `because` says why."""

    is_failure = True
    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "client_gone": translatable("the app was disabled or deleted"),
        "no_address": translatable("the app has no address for it"),
        "unheard": translatable("the app did not confirm it"),
    }
    sentence = translatable(
        "The app %(client_id)s could not be notified that %(uid)s signed out: %(because)s."
    )
    unlisted = "between the server and an app; session.ended records it"

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str


class SecondFactorFailed(ByAnonymous, frozen=True):
    """A second factor was wrong after a correct password."""

    is_failure = True
    sentence = translatable("A sign-in as %(uid)s failed: the second factor is wrong.")
    activity = ActivityText(
        ActivityKind.SIGN_IN,
        translatable("A sign-in failed: the password was correct, the second factor was not."),
    )

    affects_tokens: ClassVar[bool] = False
    uid: int
    channel: str


class PasskeyAdded(ByUser, frozen=True):
    """A passkey was added to an account."""

    sentence = translatable("A passkey was added to %(uid)s.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("A passkey was added."))

    uid: int
    passkey_id: str


class PasskeyRenamed(ByUser, frozen=True):
    """A passkey was renamed."""

    sentence = translatable("A passkey of %(uid)s was renamed.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("A passkey was renamed."))

    uid: int
    passkey_id: str


class PasskeyRemoved(ByUser, frozen=True):
    """A passkey was removed from an account."""

    sentence = translatable("A passkey of %(uid)s was removed.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("A passkey was removed."))

    uid: int
    passkey_id: str


class PasskeyCounterFallen(ByUser, frozen=True):
    """A passkey's signature counter decreased, so a copy of it may exist."""

    is_alarming = True
    sentence = translatable("A passkey of %(uid)s was used that may have been copied.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("A passkey was used that may have been copied.")
    )

    uid: int
    passkey_id: str
    accepted: bool


class AuthenticatorAdded(ByUser, frozen=True):
    """An authenticator app was added to an account."""

    sentence = translatable("An authenticator app was added to %(uid)s.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("An authenticator app was added."))

    uid: int


class AuthenticatorRemoved(ByUser, frozen=True):
    """An authenticator app was removed from an account."""

    sentence = translatable("The authenticator app of %(uid)s was removed.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("The authenticator app was removed.")
    )

    uid: int


class RecoveryCodesIssued(ByUser, frozen=True):
    """Recovery codes were issued; earlier ones no longer work."""

    sentence = translatable("New recovery codes were created for %(uid)s.")
    activity = ActivityText(
        ActivityKind.SECURITY,
        translatable("New recovery codes were created; the old ones no longer work."),
    )

    uid: int


class RecoveryCodeUsed(ByUser, frozen=True):
    """A recovery code was used as the second factor; `left` is how many remain."""

    sentence = translatable("%(uid)s signed in with a recovery code; %(left)s left.")
    activity = ActivityText(
        ActivityKind.SIGN_IN, translatable("A recovery code was used to sign in.")
    )

    uid: int
    left: int


class PasswordRemoved(ByUser, frozen=True):
    """The password of an account was removed; its passkeys remain."""

    sentence = translatable("The password of %(uid)s was removed.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("Your password was removed; you sign in without one.")
    )

    uid: int


class DeviceRemembered(ByUser, frozen=True):
    """A browser was remembered: the second factor is not requested there for a while."""

    sentence = translatable("A browser of %(uid)s was remembered and skips the second factor.")
    activity = ActivityText(
        ActivityKind.SIGN_IN, translatable("A browser was remembered and skips the second factor.")
    )

    uid: int
    device_id: str


class DeviceForgotten(ByUser, frozen=True):
    """A remembered browser was forgotten: the second factor is requested again."""

    sentence = translatable("A remembered browser of %(uid)s was forgotten.")
    activity = ActivityText(
        ActivityKind.SIGN_IN, translatable("A remembered browser was forgotten.")
    )

    uid: int
    device_id: str


class DeviceStolen(ByAnonymous, frozen=True):
    """A remembered browser's old cookie was used: it was copied, and its sessions ended."""

    is_alarming = True
    sentence = translatable(
        "A remembered browser of %(uid)s was forgotten because its cookie was used twice."
    )
    activity = ActivityText(
        ActivityKind.SIGN_IN,
        translatable("A remembered browser was forgotten because its cookie was used twice."),
    )

    uid: int
    device_id: str


class SecondFactorWaived(Event, frozen=True):
    """The second factor that a user had to add is no longer required."""

    sentence = translatable("%(uid)s no longer has to add a second factor.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("You no longer have to add a second factor.")
    )

    uid: int


class FactorsRemoved(Event, frozen=True):
    """All second factors of an account were removed by an administrator."""

    sentence = translatable("All second factors of %(uid)s were removed.")
    activity = ActivityText(
        ActivityKind.SECURITY,
        translatable("Your passkeys, authenticator app and recovery codes were removed."),
    )

    uid: int


class GroupCreated(Event, frozen=True):
    """A group was created, in the group `parent` unless that is ""."""

    subject = "group:{group_id}"
    sentence = translatable("The group %(group_id)s was created.")

    group: str
    parent: str
    group_id: str = ""


class GroupChanged(Event, frozen=True):
    """A group was renamed, moved into the group `parent`, "" for none, or described otherwise.

    `before` is its name until then.
    """

    subject = "group:{group_id}"
    sentence = translatable("The group %(group_id)s was changed.")

    group: str
    before: str
    parent: str
    group_id: str = ""


class GroupDeleted(Event, frozen=True):
    """A group was deleted; it has no members any more."""

    subject = "group:{group_id}"
    sentence = translatable("The group %(group_id)s was deleted.")

    group: str
    group_id: str = ""


class GroupMemberAdded(Event, frozen=True):
    """A user became a direct member of a group."""

    subject = "group:{group_id}"
    sentence = translatable("%(uid)s was added to the group %(group_id)s.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("You were added to a group."))

    uid: int
    group: str
    group_id: str = ""


class GroupMemberRemoved(Event, frozen=True):
    """A user was removed from a group as a direct member."""

    subject = "group:{group_id}"
    sentence = translatable("%(uid)s was removed from the group %(group_id)s.")
    activity = ActivityText(ActivityKind.ACCOUNT, translatable("You were removed from a group."))

    uid: int
    group: str
    group_id: str = ""


class ApiRoleAssigned(Event, frozen=True):
    """A user got a role at an API."""

    subject = "api:{api_id}"
    sentence = translatable("%(uid)s was assigned the role %(role)s at the API %(api_id)s.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("A role for an API was assigned to you.")
    )

    uid: int
    api_id: str
    role: str


class ApiRoleWithdrawn(Event, frozen=True):
    """A user no longer has a role at an API, except by a group."""

    subject = "api:{api_id}"
    sentence = translatable("The role %(role)s at the API %(api_id)s was removed from %(uid)s.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("A role for an API was removed from you.")
    )

    uid: int
    api_id: str
    role: str


class GroupApiRoleAssigned(Event, frozen=True):
    """The members of a group got a role at an API."""

    subject = "api:{api_id}"
    sentence = translatable(
        "The group %(group)s was assigned the role %(role)s at the API %(api_id)s."
    )

    group: str
    api_id: str
    role: str


class GroupApiRoleWithdrawn(Event, frozen=True):
    """The members of a group no longer have a role at an API, except by other means."""

    subject = "api:{api_id}"
    sentence = translatable(
        "The role %(role)s at the API %(api_id)s was removed from the group %(group)s."
    )

    group: str
    api_id: str
    role: str
