"""Users: people with an account, and the record that speaks for them."""

import unicodedata
from dataclasses import dataclass
from typing import NewType

from valetkey.authorization.model.account.claims import StandardClaims
from valetkey.authorization.model.account.role import Role
from valetkey.kernel.moment import Instant

Uid = NewType("Uid", int)
"""Identifies a person: positive, below 2^53, never given twice, not guessable in order."""

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
    """Has an app, or was let register some: read with the account, kept elsewhere."""
    generation: int = 0
    """What was issued to them in an earlier one has ended."""

    @property
    def subject(self) -> str:
        """The `sub` of this person's tokens."""
        return str(self.uid)


def fold(text: str) -> str:
    """One key for all spellings of a username or an e-mail address.

    Computed once, here, because databases fold differently from Python and from each other.
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text.strip()).casefold())
