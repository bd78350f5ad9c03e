"""Sessions: a signed-in user in one browser, and the notices to apps when one ends."""

from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant, is_live, seconds


class Session(Struct, frozen=True):
    """A signed-in browser; `id` is public (`sid`), the cookie is stored as a fingerprint.

    `methods` is how the user signed in at `auth_time`. `proved_by` is the last authentication, at
    `proved_at`: the sign-in, or a later one before a sensitive action. `device_id` names the
    remembered device that replaced the second factor, "" for none. The IP addresses of the latest
    sign-in and of the latest use are "" if they are unknown, not recorded or erased.
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
    signed_in_from: str = ""
    last_seen_from: str = ""

    def is_live(self, now: Instant) -> bool:
        """Return whether the session has neither ended nor expired nor begun in the future.

        Signing in again extends it: its life is counted from the latest sign-in.
        """
        return self.ended_at is None and is_live(self.auth_time, self.expires_at, now)


LEASE = seconds(15)
"""How long one process may hold a delivery: three times the longest attempt."""


class DeliveryKind(StrEnum):
    """The kinds of notifications to apps."""

    LOGOUT = "logout"


class Delivery(Struct, frozen=True):
    """A notification to one app that one session has ended.

    `id` is the same at every attempt; `attempts` counts those begun. There are no attempts after
    `expires_at`.
    """

    id: str
    kind: DeliveryKind
    client_id: str
    session_id: str
    uid: Uid
    attempts: int
    due_at: Instant
    created_at: Instant
    expires_at: Instant
