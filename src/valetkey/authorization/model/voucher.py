"""Vouchers: single-use token records that expire.

Authorization codes, replay marks, nonces and finished interactions are all vouchers; they differ
only in `kind` and payload.
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.api import ApiGeneration
from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint


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
