"""Email messages to users, and their queue."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.user import Uid
from valetkey.kernel.moment import Instant, days, minutes
from valetkey.kernel.text import translatable

LEASE = minutes(2)
"""How long one process may hold a message: longer than the longest attempt to send it."""

LIFETIME = days(1)
"""How long delivery of a message is tried."""


class MailKind(StrEnum):
    """A kind of messages; a feature has an enumeration of its own, in its model."""

    label: str
    """The name that people read, marked for translation."""

    template: str
    """The file with its text: in email/templates, or in the folder of its feature."""

    def __new__(cls, code: str, label: str, folder: str = "") -> Self:
        """Return the member that is stored as `code`. Raises ValueError if there is one."""
        if code in _KINDS:
            raise ValueError(f"there are two kinds of email called {code}")
        member = str.__new__(cls, code)
        member._value_ = code
        member.label = label
        member.template = f"{folder}{code}.txt"
        _KINDS[code] = member
        return member


_KINDS: dict[str, MailKind] = {}


class EmailKind(MailKind):
    """The messages of the core."""

    SIGN_UP = "sign_up", translatable("Sign-up confirmation")
    SIGN_UP_TAKEN = "sign_up_taken", translatable("Sign-up with a registered address")
    INVITATION = "invitation", translatable("Invitation to create an account")
    VERIFY_EMAIL = "verify_email", translatable("Email verification")
    PASSWORD_RESET = "password_reset", translatable("Password reset")
    ACCOUNT_CREATED = "account_created", translatable("Account created by an administrator")
    ACCOUNT_SECURED = "account_secured", translatable("Account secured by an administrator")
    PASSWORD_CHANGED = "password_changed", translatable("Password changed")
    EMAIL_CHANGE = "email_change", translatable("New email address to confirm")
    EMAIL_CHANGED = "email_changed", translatable("Email address changed")
    EMAIL_VERIFIED = "email_verified", translatable("Email address marked as verified")
    NEW_DEVICE = "new_device", translatable("Sign-in from a new browser")
    RECOVERY_CODE_USED = "recovery_code_used", translatable("Recovery code used")
    WAY_IN_ADDED = "way_in_added", translatable("Sign-in method added")
    ROLE_CHANGED = "role_changed", translatable("Role changed")
    FACTORS_RESET = "factors_reset", translatable("Second factors removed")
    REMOVAL_PLANNED = "removal_planned", translatable("Account deletion scheduled")
    REMOVED = "removed", translatable("Account deleted")
    TEAM_INVITATION = "team_invitation", translatable("Invitation to a team")
    APP_CHANGED = "app_changed", translatable("App changed by an administrator")
    TEST = "test", translatable("Test email")


def every_kind() -> tuple[MailKind, ...]:
    """Return the kinds of the core and of all features that were imported."""
    return tuple(_KINDS.values())


def kind_of(code: str) -> MailKind | None:
    """Return a stored kind; None if its feature was taken out."""
    return _KINDS.get(code)


def label_of(code: str) -> str:
    """Return the name of a stored kind, marked for translation; "" if unknown."""
    kind = kind_of(code)
    return "" if kind is None else kind.label


class Email(Struct, frozen=True):
    """A message to one address: `language` is a BCP 47 tag, `values` are those of its template.

    No value is used in a subject or an address line. Line breaks in values become spaces.
    """

    kind: MailKind
    to: str
    language: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    uid: Uid | None = None
    #: When its content becomes useless, such as an expired link; it is not sent after that.
    good_until: Instant | None = None

    def encode(self) -> bytes:
        """Encode for sealing and storage."""
        content = {"to": self.to, "language": self.language, "values": dict(self.values)}
        return msgspec.json.encode(content)

    @staticmethod
    def decode(kind: MailKind, uid: Uid | None, data: bytes) -> "Email":
        """Decode what `encode` returned."""
        content = msgspec.json.decode(data, type=_Content)
        return Email(kind, content.to, content.language, content.values, uid)


class _Content(msgspec.Struct, frozen=True):
    to: str
    language: str
    values: dict[str, str]


class QueuedEmail(Struct, frozen=True):
    """A sealed message in the outbox.

    `attempts` counts those begun; there are none after `expires_at`. One without `due_at` is not
    sent: it is kept for the mailbox page.
    """

    id: str
    kind: str
    uid: Uid | None
    sealed: str
    attempts: int
    due_at: Instant | None
    created_at: Instant
    expires_at: Instant
