"""The liveness of everything that a code, a grant or a token depends on, read in one query."""

from dataclasses import dataclass

from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Liveness:
    """The liveness of what a token depends on; the defaults mean that nothing ended.

    `grant_ends_at` is None if there is no grant, `session_ends_at` if no session matters.
    """

    client_disabled: bool = False
    user_disabled: bool = False
    grant_revoked: bool = False
    grant_ends_at: Instant | None = None
    session_ended: bool = False
    session_ends_at: Instant | None = None
    token_revoked: bool = False

    def ended(self, now: Instant) -> str:
        """Return what ended, such as "grant.revoked"; "" while everything is live."""
        if self.client_disabled:
            return "client.disabled"
        if self.user_disabled:
            return "user.disabled"
        if self.grant_revoked:
            return "grant.revoked"
        if self.grant_ends_at is not None and self.grant_ends_at <= now:
            return "grant.expired"
        if self.session_ended:
            return "session.ended"
        if self.session_ends_at is not None and self.session_ends_at <= now:
            return "session.expired"
        return "token.revoked" if self.token_revoked else ""
