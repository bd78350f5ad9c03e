"""Linked accounts: the user's identity at an upstream provider."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


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
