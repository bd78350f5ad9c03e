"""Signing keys and their life: next (published), current, retiring, gone."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.kernel.moment import Instant


class KeyState(StrEnum):
    """Where a key stands in its life."""

    NEXT = "next"
    CURRENT = "current"
    RETIRING = "retiring"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class SigningKeyRecord:
    """A key as it is stored: its public half in clear, its private half sealed."""

    kid: str
    purpose: str
    algorithm: str
    period: int
    public_jwk: str
    sealed: str
    created_at: Instant
    activates_at: Instant
    retires_at: Instant | None
    removed_at: Instant | None

    def state(self, now: Instant) -> KeyState:
        """Published first, then signing, then only verifying, then gone."""
        if self.removed_at is not None and self.removed_at <= now:
            return KeyState.GONE
        if self.activates_at > now:
            return KeyState.NEXT
        if self.retires_at is None or self.retires_at > now:
            return KeyState.CURRENT
        return KeyState.RETIRING
