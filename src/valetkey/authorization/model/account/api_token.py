"""API tokens: with each of them a program does a part of what its maker may do."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class ApiToken:
    """One of them, without the token itself.

    `permissions` are what its maker gave it; what it may do is never more than its maker may do
    at that moment.
    """

    id: str
    uid: Uid
    name: str
    permissions: frozenset[str]
    created_at: Instant
    expires_at: Instant
    last_used_at: Instant | None = None
    ended_at: Instant | None = None

    def is_live(self, now: Instant) -> bool:
        """Whether it was neither ended nor is too old."""
        return self.ended_at is None and self.expires_at > now
