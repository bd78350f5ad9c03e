"""Sessions: a browser in which someone is signed in."""

from dataclasses import dataclass

from valetkey.authorization.model.user import Uid
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Session:
    """One signed-in browser; `id` is the public `sid`, its cookie's secret is only a fingerprint."""

    id: str
    uid: Uid
    auth_time: Instant
    methods: tuple[str, ...]
    user_agent: str
    created_at: Instant
    last_seen_at: Instant
    expires_at: Instant
    ended_at: Instant | None
