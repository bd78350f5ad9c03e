"""Sessions: a browser in which a user is signed in."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in browser; `id` is public (`sid`), the cookie is stored as a fingerprint.

    `methods` is how the user signed in at `auth_time`. `proved_by` is the last authentication, at
    `proved_at`: the sign-in, or a later one before a sensitive action. `device_id` names the
    remembered device that replaced the second factor, "" for none.
    """

    id: str
    uid: Uid
    auth_time: Instant
    methods: tuple[str, ...]
    user_agent: str
    created_at: Instant
    last_seen_at: Instant
    expires_at: Instant
    ended_at: Instant | None
    proved_at: Instant = Instant(0)
    proved_by: tuple[str, ...] = ()
    device_id: str = ""
