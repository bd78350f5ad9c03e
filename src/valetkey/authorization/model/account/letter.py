"""Letters: what this server writes to people, and the post that carries them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant, days, minutes

LEASE = minutes(2)
"""So long one process has a letter to itself: longer than an attempt to send it may take."""

LIFETIME = days(1)
"""A letter that could not be sent for so long is given up."""


class LetterKind(StrEnum):
    """What a letter is about; its words are in pages/mail/{asked,notices}/<kind>.txt."""

    SIGN_UP = "sign_up"
    SIGN_UP_TAKEN = "sign_up_taken"
    INVITATION = "invitation"
    VERIFY_EMAIL = "verify_email"
    PASSWORD_RESET = "password_reset"
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
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter to one address: `language` is a tag (BCP 47), `values` are what its template says.

    No value is ever a heading or an address line, and none may be longer than a line: line breaks
    in values become spaces.
    """

    kind: LetterKind
    to: str
    language: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    uid: Uid | None = None
    #: When what it says is worth nothing any more, such as its link; it is not sent after that.
    good_until: Instant | None = None

    def encode(self) -> bytes:
        """What is sealed and stored."""
        content = {"to": self.to, "language": self.language, "values": dict(self.values)}
        return msgspec.json.encode(content)

    @staticmethod
    def decode(kind: LetterKind, uid: Uid | None, data: bytes) -> "Letter":
        """What `encode` made."""
        content = msgspec.json.decode(data, type=_Content)
        return Letter(kind, content.to, content.language, content.values, uid)


class _Content(msgspec.Struct, frozen=True):
    to: str
    language: str
    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class Mail:
    """A letter in the outbox, sealed.

    `attempts` is how many were begun; after `expires_at` nobody tries again. One without `due_at`
    is not sent: it is kept for the mailbox page.
    """

    id: str
    kind: LetterKind
    uid: Uid | None
    sealed: str
    attempts: int
    due_at: Instant | None
    created_at: Instant
    expires_at: Instant
