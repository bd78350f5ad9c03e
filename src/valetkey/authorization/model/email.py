"""Email messages to users, and their queue."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant, days, minutes

LEASE = minutes(2)
"""How long one process may hold a message: longer than the longest attempt to send it."""

LIFETIME = days(1)
"""How long delivery of a message is tried."""


class EmailKind(StrEnum):
    """The kinds of messages; their texts are in email/templates/<kind>.txt."""

    SIGN_UP = "sign_up"
    SIGN_UP_TAKEN = "sign_up_taken"
    INVITATION = "invitation"
    VERIFY_EMAIL = "verify_email"
    PASSWORD_RESET = "password_reset"
    ACCOUNT_CREATED = "account_created"
    PASSWORD_CHANGED = "password_changed"
    EMAIL_CHANGE = "email_change"
    EMAIL_CHANGED = "email_changed"
    EMAIL_VERIFIED = "email_verified"
    NEW_DEVICE = "new_device"
    RECOVERY_CODE_USED = "recovery_code_used"
    WAY_IN_ADDED = "way_in_added"
    ROLE_CHANGED = "role_changed"
    FACTORS_RESET = "factors_reset"
    REMOVAL_PLANNED = "removal_planned"
    REMOVED = "removed"
    TEAM_INVITATION = "team_invitation"
    WEBHOOK_DISABLED = "webhook_disabled"
    APP_CHANGED = "app_changed"
    TEST = "test"


class Email(Struct, frozen=True):
    """A message to one address: `language` is a BCP 47 tag, `values` are those of its template.

    No value is used in a subject or an address line. Line breaks in values become spaces.
    """

    kind: EmailKind
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
    def decode(kind: EmailKind, uid: Uid | None, data: bytes) -> "Email":
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
    kind: EmailKind
    uid: Uid | None
    sealed: str
    attempts: int
    due_at: Instant | None
    created_at: Instant
    expires_at: Instant
