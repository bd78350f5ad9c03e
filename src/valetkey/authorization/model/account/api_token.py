"""Admin API tokens: each gives a program part of its creator's permissions."""

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant, is_live


class ApiToken(Struct, frozen=True):
    """An admin API token, without the token itself.

    `permissions` are those it was issued with; it can never do more than its owner may do at that
    moment. `made_with` is the id of the token that made it, or "".
    """

    id: str
    uid: Uid
    name: str
    permissions: frozenset[str]
    created_at: Instant
    expires_at: Instant
    last_used_at: Instant | None = None
    ended_at: Instant | None = None
    made_with: str = ""

    def is_live(self, now: Instant) -> bool:
        """Whether it was neither revoked nor has expired nor was issued in the future."""
        return self.ended_at is None and is_live(self.created_at, self.expires_at, now)
