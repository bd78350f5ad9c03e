"""Sessions: a browser in which someone is signed in."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Session:
    """One signed-in browser; `id` is public (`sid`), of its cookie only a fingerprint is kept.

    `methods` is how its person signed in at `auth_time`. `proved_by` is how they last proved who
    they are, at `proved_at`: then, or since, before something that matters. `device_id` names the
    remembered device that spared them the second factor, "" for none.
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
