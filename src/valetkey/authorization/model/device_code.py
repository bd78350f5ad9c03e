"""Device authorizations: a device code that is polled and a user code that is typed (RFC 8628)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.model.register.api import ApiGeneration
from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""The letters of user codes: no vowels, so no words; no digits, so none is mistaken for a letter
(RFC 8628 section 6.1)."""

LENGTH = 8
"""Letters of a user code: 20^8 codes, 34 bits."""

_SEPARATORS = str.maketrans("", "", "- ")


class DeviceCodeState(StrEnum):
    """The states of a device code: pending, decided, redeemed."""

    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    REDEEMED = "redeemed"


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """One device authorization.

    `user_code` is the fingerprint of the user code, `address` where the device asked from.
    `payload` is what the user allowed, encoded as for an authorization code; "" until then. `scope`
    and `apis` are those of the request, as a code has them.
    """

    fingerprint: Fingerprint
    user_code: Fingerprint
    client_id: str
    client_generation: int
    scope: Scope
    address: str
    grant_id: str
    created_at: Instant
    expires_at: Instant
    poll_interval: Lifetime
    polled_at: Instant = Instant(0)
    state: DeviceCodeState = DeviceCodeState.PENDING
    payload: str = ""
    apis: tuple[ApiGeneration, ...] = ()

    def is_pending(self, now: Instant) -> bool:
        """Whether the user can still decide."""
        return self.state is DeviceCodeState.PENDING and not self.has_expired(now)

    def has_expired(self, now: Instant) -> bool:
        """Whether it has expired, or was issued in the future."""
        return not is_live(self.created_at, self.expires_at, now)


def fresh_user_code(random: Callable[[int], bytes]) -> str:
    """Return a new user code, as it is stored: eight letters."""
    # 64 random bits modulo 20^8: the bias is below 2^-29.
    number = int.from_bytes(random(8), "big")
    letters: list[str] = []
    for _ in range(LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


def read_user_code(text: str) -> str | None:
    """Parse an entered user code, in any case, with or without hyphens and spaces.

    None for anything else.
    """
    letters = text.translate(_SEPARATORS)
    # ASCII first: upper() turns other letters into these.
    if not letters.isascii() or len(letters) != LENGTH:
        return None
    code = letters.upper()
    return code if set(code) <= set(ALPHABET) else None


def shown_user_code(code: str) -> str:
    """Return a user code as people read it: BCDF-GHJK."""
    return f"{code[:4]}-{code[4:]}"
