"""Grants: what a user allowed a client; every token belongs to one and ends with it."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


@dataclass(frozen=True, slots=True)
class Grant:
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
