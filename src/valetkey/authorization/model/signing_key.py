"""Signing keys and their states: next (published), current, retiring, gone."""

from enum import StrEnum

from msgspec import Struct

from valetkey.kernel.moment import Instant


class KeyState(StrEnum):
    """The state of a key."""

    NEXT = "next"
    CURRENT = "current"
    RETIRING = "retiring"
    GONE = "gone"


class SigningKeyRecord(Struct, frozen=True):
    """A stored key: public half in clear, private half sealed."""

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
        """Return the state of the key: published, then signing, then only verifying, then gone."""
        if self.removed_at is not None and self.removed_at <= now:
            return KeyState.GONE
        if self.activates_at > now:
            return KeyState.NEXT
        if self.retires_at is None or self.retires_at > now:
            return KeyState.CURRENT
        return KeyState.RETIRING
