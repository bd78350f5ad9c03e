"""Grants: what a user allowed a client; every token belongs to one and ends with it."""

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


class Consent(Struct, frozen=True):
    """The scopes and single `claims` that a user allowed, and the client's appearance then."""

    uid: Uid
    client_id: str
    scope: Scope
    appearance: str
    given_at: Instant
    claims: frozenset[str] = frozenset()
    id: str = ""
    """A new one when consent is given again after it had ended."""


class Grant(Struct, frozen=True):
    """One authorization. Its refresh tokens are one family, stored in this row.

    `session_id` is empty unless the grant ends with the session it was given in; `sid` names that
    session in any case, and `methods` how the user had signed in. `claims` is what the request's
    `claims` parameter requested from userinfo, "" for nothing. It has ended if its client or its
    user has another generation. `audience` are the identifiers of its APIs, separated by spaces;
    `scope` names theirs as `Api.qualified` says.
    """

    id: str
    client_id: str
    uid: Uid
    session_id: str
    scope: Scope
    audience: str
    grant_type: str
    auth_time: Instant
    created_at: Instant
    last_used_at: Instant
    expires_at: Instant
    refresh_print: str | None = None
    refresh_expires_at: Instant | None = None
    generation: int = 0
    revoked_at: Instant | None = None
    revoked_because: str | None = None
    sid: str = ""
    methods: tuple[str, ...] = ()
    claims: str = ""
    client_generation: int = 0
    user_generation: int = 0


class Liveness(Struct, frozen=True):
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
