"""Deliveries: what an app must be told, at least once, until it says that it heard."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant, seconds

LEASE = seconds(15)
"""So long one process has a delivery to itself: three times what an attempt may take."""


class DeliveryKind(StrEnum):
    """What is told."""

    LOGOUT = "logout"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One app to be told that one session has ended.

    `id` is the same at every attempt, `attempts` how many were begun. After `expires_at` nobody
    tries again.
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
