"""Vouchers: random strings we hand out that can be redeemed once, before they expire.

Authorization codes, replay marks, nonces and finished interactions are all vouchers;
they differ in `kind` and payload only.
"""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class VoucherKind(StrEnum):
    """What a voucher is good for."""

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
    """One string that counts once."""

    kind: VoucherKind
    fingerprint: Fingerprint
    client_id: str
    grant_id: str
    payload: str
    expires_at: Instant
    redeemed_at: Instant | None = None
