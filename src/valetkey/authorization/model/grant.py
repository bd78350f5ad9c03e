"""Grants, and liveness: nothing works once its client, user, grant or session has ended.

Authorization codes, replay marks, nonces and finished interactions are all vouchers; they differ
only in `kind` and payload.
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.model.api import ApiGeneration
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Uid, User
from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint


class Consent(Struct, frozen=True):
    """The scopes and single `claims` that a user allowed, and the client's appearance then."""

    uid: Uid
    client_id: str
    scope: Scope
    appearance: str
    given_at: Instant
    claims: frozenset[str] = frozenset()
    id: str = ""
    """A new one when consent is given again after it had ended."""


class Grant(Struct, frozen=True):
    """One authorization. Its refresh tokens are one family, stored in this row.

    `session_id` is empty unless the grant ends with the session it was given in; `sid` names that
    session in any case, and `methods` how the user had signed in. `claims` is what the request's
    `claims` parameter requested from userinfo, "" for nothing. It has ended if its client or its
    user has another generation. `audience` are the identifiers of its APIs, separated by spaces;
    `scope` names theirs as `Api.qualified` says.
    """

    id: str
    client_id: str
    uid: Uid
    session_id: str
    scope: Scope
    audience: str
    grant_type: str
    auth_time: Instant
    created_at: Instant
    last_used_at: Instant
    expires_at: Instant
    refresh_print: str | None = None
    refresh_expires_at: Instant | None = None
    generation: int = 0
    revoked_at: Instant | None = None
    revoked_because: str | None = None
    sid: str = ""
    methods: tuple[str, ...] = ()
    claims: str = ""
    client_generation: int = 0
    user_generation: int = 0


class Liveness(Struct, frozen=True):
    """The liveness of what a token depends on; the defaults mean that nothing ended.

    `grant_ends_at` is None if there is no grant, `session_ends_at` if no session matters.
    """

    client_disabled: bool = False
    user_disabled: bool = False
    grant_revoked: bool = False
    grant_ends_at: Instant | None = None
    session_ended: bool = False
    session_ends_at: Instant | None = None
    token_revoked: bool = False

    def ended(self, now: Instant) -> str:
        """Return what ended, such as "grant.revoked"; "" while everything is live."""
        if self.client_disabled:
            return "client.disabled"
        if self.user_disabled:
            return "user.disabled"
        if self.grant_revoked:
            return "grant.revoked"
        if self.grant_ends_at is not None and self.grant_ends_at <= now:
            return "grant.expired"
        if self.session_ended:
            return "session.ended"
        if self.session_ends_at is not None and self.session_ends_at <= now:
            return "session.expired"
        return "token.revoked" if self.token_revoked else ""


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
    """What a voucher, a secret that is redeemed once, is for."""

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


def require_live(liveness: Liveness, now: Instant) -> Refusal | None:
    """Return None if everything behind a code, grant or token is live, otherwise the refusal.

    Every path that issues, exchanges, introspects or answers calls this.
    """
    ended = liveness.ended(now)
    if not ended:
        return None
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the authorization has ended: it expired, was revoked, or its account or app is closed",
        f"live.{ended}",
        "everything behind it to be live",
        ended,
    )


def liveness_of(client: Client, user: User | None = None) -> Liveness:
    """Return the liveness of a client and a user that have no grant yet."""
    return Liveness(
        client_disabled=client.disabled_at is not None,
        user_disabled=user is not None and user.disabled_at is not None,
    )
