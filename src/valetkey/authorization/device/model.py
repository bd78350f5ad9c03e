"""Device codes: what a device polls with, what its user enters, and the events of both."""

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.model.api import ApiGeneration
from valetkey.authorization.model.client import GrantTypeName
from valetkey.authorization.model.event.event import ActivityKind, ActivityText, ByClient, ByUser
from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.text import read_code, translatable

DEVICE_CODE = "device_code"
"""The purpose under which device codes are fingerprinted."""

DEVICE_AUTHORIZATION = "/oauth/device-authorization"
"""The path of the device authorization endpoint."""

USER_CODE = "user_code"
"""The purpose under which user codes are fingerprinted."""

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""The letters of user codes: no vowels, so no words; no digits, so none is mistaken for a letter
(RFC 8628 section 6.1)."""

LENGTH = 8
"""Number of letters in a user code: 20^8 codes, 34 bits."""


class DeviceCodeState(StrEnum):
    """The states of a device code: pending, decided, redeemed."""

    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    REDEEMED = "redeemed"


class DeviceCode(Struct, frozen=True):
    """One device authorization.

    `user_code` is the fingerprint of the user code, `address` where the device asked from.
    `payload` is what the user allowed, encoded as for an authorization code; "" until then. `scope`
    and `apis` are those of the request, as a code has them. `counted` is the rate limit of the
    network that asked, which counts the code until it is allowed.
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
    counted: str = ""

    def is_pending(self, now: Instant) -> bool:
        """Return whether the user can still decide."""
        return self.state is DeviceCodeState.PENDING and not self.has_expired(now)

    def has_expired(self, now: Instant) -> bool:
        """Return whether it has expired, or was issued in the future."""
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
    """Parse a user code in the spellings that `read_code` reads; None for anything else."""
    code = read_code(text)
    return code if len(code) == LENGTH and set(code) <= set(ALPHABET) else None


def shown_user_code(code: str) -> str:
    """Return a user code as people read it: BCDF-GHJK."""
    return f"{code[:4]}-{code[4:]}"


class DeviceCodeIssued(ByClient, frozen=True):
    """A device asked for authorization and shows a user code."""

    sentence = translatable("The app %(client_id)s requested access on a device.")

    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str


class DeviceCodeAllowed(ByUser, frozen=True):
    """A user entered the code of a device and allowed its client this scope."""

    sentence = translatable("%(uid)s allowed the app %(client_id)s access on a device.")
    unlisted = "recorded with consent.given"

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    scope: str


class DeviceCodeRedeemed(ByClient, frozen=True):
    """A device code was redeemed: the grant began and its first access token was issued."""

    sentence = translatable("The app %(client_id)s got access to the account %(uid)s on a device.")
    activity = ActivityText(
        ActivityKind.APPS, translatable("<bdi>%(name)s</bdi> got access on a device.")
    )

    issued_by: ClassVar[str] = GrantTypeName.DEVICE_CODE.value
    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


class DeviceCodeSpoiled(ByClient, frozen=True):
    """An allowed device code was redeemed after what it depends on had ended; the code is void."""

    sentence = translatable("The app %(client_id)s used a device code that is no longer valid.")

    client_id: str
    grant_id: str
    check: str


EVENTS = (DeviceCodeIssued, DeviceCodeAllowed, DeviceCodeRedeemed, DeviceCodeSpoiled)
