"""Notifications to apps, delivered at least once until the app confirms."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant, seconds

LEASE = seconds(15)
"""How long one process may hold a delivery: three times the longest attempt."""


class DeliveryKind(StrEnum):
    """The kinds of notifications to apps."""

    LOGOUT = "logout"


@dataclass(frozen=True, slots=True)
class Delivery:
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
