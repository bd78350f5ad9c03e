"""Users and their records."""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from valetkey.authorization.model.account.attribute import UserAttributes
from valetkey.authorization.model.account.claims import StandardClaims
from valetkey.kernel.moment import Instant


class Role(StrEnum):
    """A role; users have none by default."""

    OWNER = "owner"  # everything, including roles
    ADMINISTRATOR = "administrator"  # everything except roles
    SUPPORT = "support"  # read, and help users regain access
    AUDITOR = "auditor"  # read


Uid = NewType("Uid", int)
"""Identifies a user: positive, below 2^53, never reused, not sequential."""

LARGEST_UID = (1 << 53) - 1


@dataclass(frozen=True, slots=True)
class User:
    """One account."""

    uid: Uid
    username: str
    email: str
    email_verified_at: Instant | None
    name: str
    created_at: Instant
    changed_at: Instant
    disabled_at: Instant | None
    claims: StandardClaims = StandardClaims.NOTHING
    role: Role | None = None
    develops: bool = False
    """Whether the user has an app or may register one: read with the account, stored elsewhere."""
    generation: int = 0
    """What was issued in an earlier generation has ended."""
    attributes: UserAttributes = UserAttributes.NOTHING
    disabled_by: str = ""
    """The SCIM credential whose directory disabled the account; "" for an administrator."""

    @property
    def subject(self) -> str:
        """The public `sub` of this user."""
        return str(self.uid)


def fold(text: str) -> str:
    """Return one key for all spellings of a username or an email address.

    Computed here only, because databases fold case differently from Python and each other.
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text.strip()).casefold())


@dataclass(frozen=True, slots=True)
class Identity:
    """One account at an issuer, linked to one account here.

    `shown` is displayed to the user: an address or a username at the issuer. It is never used for a
    lookup.
    """

    issuer: str
    subject: str
    uid: Uid
    shown: str
    linked_at: Instant
    last_used_at: Instant | None = None
