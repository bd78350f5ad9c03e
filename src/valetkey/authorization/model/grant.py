"""Grants: what a user let a client do; every token descends from one and dies with it."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


@dataclass(frozen=True, slots=True)
class Grant:
    """One authorization, given once, ended once. Its refresh tokens are one family: this row.

    `session_id` is empty unless the grant ends with the session it was given in; `sid` says which
    session that was in any case, and `methods` how its person had signed in. `claims` is what the
    request's `claims` parameter asked of userinfo, "" for nothing. It has ended when its client or
    its user has another generation.
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
