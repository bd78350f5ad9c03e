"""Vouchers: single-use token records that expire.

Authorization codes, replay marks, nonces and finished interactions are all vouchers; they differ
only in `kind` and payload.
"""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.secret import Fingerprint


class VoucherKind(StrEnum):
    """The kinds of vouchers."""

    CODE = "code"
    ASSERTION = "assertion"
    NONCE = "nonce"
    INTERACTION = "interaction"
    SIGN_UP = "sign_up"
    INVITATION = "invitation"
    PASSWORD_RESET = "password_reset"
    EMAIL_VERIFY = "email_verify"
    EMAIL_CHANGE = "email_change"
    EMAIL_UNDO = "email_undo"
    CHALLENGE = "challenge"
    OWNER = "owner"
    FEDERATION = "federation"


@dataclass(frozen=True, slots=True)
class Voucher:
    """One single-use record."""

    kind: VoucherKind
    fingerprint: Fingerprint
    client_id: str
    grant_id: str
    payload: str
    expires_at: Instant
    redeemed_at: Instant | None = None

    def has_expired(self, lifetime: Lifetime, now: Instant) -> bool:
        """Whether it has expired, or was issued in the future, for `lifetime`."""
        return not is_live(Instant(self.expires_at - lifetime), self.expires_at, now)

    def is_live(self, lifetime: Lifetime, now: Instant) -> bool:
        """Whether it can be redeemed."""
        return self.redeemed_at is None and not self.has_expired(lifetime, now)
