"""Vouchers: single-use token records that expire.

Authorization codes, replay marks, nonces and finished interactions are all vouchers; they differ
only in `kind` and payload.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.api import ApiGeneration
from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.typed_code import read_code


class CodePayload(Struct, frozen=True):
    """The content of an authorization code, until the client redeems it.

    `redirect_uri` is where the code was sent; `redirect_uri_given` says whether the request named
    it, because then the token request must name the same (RFC 6749 section 4.1.3). `methods` are
    the user's authentication methods, `claims` the encoded `claims` parameter of the request.
    `apis` are the requested APIs, in the order of the request; empty for the default API alone.
    """

    uid: Uid
    scope: str
    redirect_uri: str
    redirect_uri_given: bool
    code_challenge: str
    nonce: str
    session_id: str
    auth_time: Instant
    methods: tuple[str, ...] = ()
    claims: str = ""
    client_generation: int = 0
    user_generation: int = 0
    consent_id: str = ""
    apis: tuple[ApiGeneration, ...] = ()

    @property
    def granted(self) -> Scope:
        """The scope that the user allowed, as `Api.qualified` names it."""
        return Scope(tuple(self.scope.split(" ")) if self.scope else ())

    def encode(self) -> str:
        """Encode for the voucher."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "CodePayload":
        """Decode what `encode` returned."""
        return msgspec.json.decode(text, type=CodePayload)


class VoucherKind(StrEnum):
    """The kinds of vouchers."""

    CODE = "code"
    ASSERTION = "assertion"
    NONCE = "nonce"
    INTERACTION = "interaction"
    SIGN_UP = "sign_up"
    INVITATION = "invitation"
    PASSWORD_RESET = "password_reset"
    FIRST_PASSWORD = "first_password"
    EMAIL_VERIFY = "email_verify"
    EMAIL_CHANGE = "email_change"
    EMAIL_UNDO = "email_undo"
    CHALLENGE = "challenge"
    OWNER = "owner"
    FEDERATION = "federation"


class Voucher(Struct, frozen=True):
    """One single-use record.

    `subject` is whose link it is, as a fingerprint: of each kind, the subject has only the newest.
    None where any number may be valid at once.
    """

    kind: VoucherKind
    fingerprint: Fingerprint
    client_id: str
    grant_id: str
    payload: str
    expires_at: Instant
    redeemed_at: Instant | None = None
    subject: Fingerprint | None = None

    def has_expired(self, lifetime: Lifetime, now: Instant) -> bool:
        """Return whether it has expired, or was issued in the future, for `lifetime`."""
        return not is_live(Instant(self.expires_at - lifetime), self.expires_at, now)

    def is_live(self, lifetime: Lifetime, now: Instant) -> bool:
        """Return whether it can be redeemed."""
        return self.redeemed_at is None and not self.has_expired(lifetime, now)


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
