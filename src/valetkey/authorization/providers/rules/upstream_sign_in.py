"""Pending upstream sign-ins: the state kept until the user returns."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.authentication.federation.provider import ClaimedIdentity, UpstreamState
from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Fingerprint, FingerprintKey, to_base64url

LIFETIME = minutes(15)
"""How long the user has to return."""

_PURPOSE = "federation.state"
_TRIP = "federation.upstream_sign_in"
_ARRIVAL = "federation.arrival"
_KEPT = "federation.kept_claims"


class UpstreamPurpose(StrEnum):
    """The purpose of an upstream sign-in."""

    SIGN_IN = "sign_in"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True, repr=False)
class UpstreamSignIn:
    """A pending upstream sign-in, bound to the browser (by fingerprint) that started it.

    `interaction` is the pending request of an app, encrypted as in the URL; `to` is the page of
    this server that required the sign-in. `session_id` is the session whose account is to be
    linked. `counted` is the rate limit that counts the sign-in until it succeeds.
    """

    provider: str
    errand: UpstreamPurpose
    browser: str
    nonce: str
    verifier: str
    interaction: str = ""
    to: str = ""
    session_id: str = ""
    departed_at: Instant = Instant(0)
    fresh: bool = False
    counted: str = ""

    def upstream_state(self, state: str, callback: str) -> UpstreamState:
        """Return the values that prove its response."""
        return UpstreamState(
            state, self.nonce, self.verifier, callback, self.departed_at, self.fresh
        )


class UpstreamSignIns(Struct, frozen=True):
    """Store pending sign-ins, encrypted, under the fingerprints of their states."""

    key: FingerprintKey
    sealer: Sealer
    random: Callable[[int], bytes]

    def draw(self) -> tuple[str, str, str]:
        """Generate a random state, nonce and verifier."""
        state, nonce, verifier = (to_base64url(self.random(32)) for _ in range(3))
        return state, nonce, verifier

    def voucher(self, pending_sign_in: UpstreamSignIn, state: str, now: Instant) -> Voucher:
        """Return the voucher to issue before the redirect."""
        sealed = self.sealer.seal(msgspec.json.encode(pending_sign_in), _TRIP, self.random)
        print_ = self.key.of(_PURPOSE, state)
        return Voucher(VoucherKind.FEDERATION, print_, "", "", sealed, later(now, LIFETIME))

    def take(
        self, tx: Transaction, state: str, browser: Fingerprint | None, now: Instant
    ) -> UpstreamSignIn | None:
        """Return the pending sign-in of this state and browser, once; None for any other."""
        found = self._look_up(tx, state, browser)
        # Checked before redeeming: a victim of a forwarded return link must not use it up.
        if found is None or not found[0].is_live(LIFETIME, now):
            return None
        return found[1] if tx.vouchers.redeem(found[0], now) else None

    def find(
        self, tx: Transaction, state: str, browser: Fingerprint | None
    ) -> UpstreamSignIn | None:
        """Return the sign-in of this state and browser, also if it was used or has expired."""
        found = self._look_up(tx, state, browser)
        return None if found is None else found[1]

    def _look_up(
        self, tx: Transaction, state: str, browser: Fingerprint | None
    ) -> tuple[Voucher, UpstreamSignIn] | None:
        if browser is None:
            return None
        voucher = tx.vouchers.find(VoucherKind.FEDERATION, self.key.of(_PURPOSE, state))
        plain = None if voucher is None else self.sealer.open(voucher.payload, _TRIP)
        if voucher is None or plain is None:
            return None
        pending_sign_in = msgspec.json.decode(plain, type=UpstreamSignIn)
        return (voucher, pending_sign_in) if pending_sign_in.browser == browser else None

    def keep_claims(
        self, tx: Transaction, claimed: ClaimedIdentity, state: str, now: Instant
    ) -> ClaimedIdentity:
        """Store the kept claims of an unlinked identity, which are too large for its cookie.

        Return the identity without them.
        """
        if claimed.kept is None:
            return claimed
        sealed = self.sealer.seal(msgspec.json.encode(claimed.kept), _KEPT, self.random)
        print_ = self.key.of(_KEPT, state)
        tx.vouchers.issue(
            Voucher(VoucherKind.FEDERATION, print_, "", "", sealed, later(now, LIFETIME))
        )
        return replace(claimed, kept=None)

    def with_claims(
        self, tx: Transaction, unlinked: "UnlinkedIdentity", now: Instant
    ) -> ClaimedIdentity:
        """Return the identity with its kept claims, while its cookie is valid."""
        print_ = self.key.of(_KEPT, unlinked.state)
        voucher = tx.vouchers.find(VoucherKind.FEDERATION, print_) if unlinked.state else None
        if voucher is None or not voucher.is_live(LIFETIME, now):
            return unlinked.claimed
        plain = self.sealer.open(voucher.payload, _KEPT)
        if plain is None:
            return unlinked.claimed
        return replace(unlinked.claimed, kept=msgspec.json.decode(plain, type=dict[str, object]))


class UnlinkedIdentity(Struct, frozen=True):
    """A user who returned without an account here; encrypted in a cookie.

    `state` finds the kept claims; "" if there are none.
    """

    provider: str
    claimed: ClaimedIdentity
    browser: str
    at: Instant
    state: str = ""

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Return the cookie's value."""
        return sealer.seal(msgspec.json.encode(self), _ARRIVAL, random)

    @staticmethod
    def open(
        sealed: str, sealer: Sealer, browser: Fingerprint | None, now: Instant
    ) -> "UnlinkedIdentity | None":
        """Decrypt the cookie in its browser before it expires; None for anything else."""
        plain = sealer.open(sealed, _ARRIVAL) if sealed else None
        if plain is None:
            return None
        try:
            found = msgspec.json.decode(plain, type=UnlinkedIdentity)
        except msgspec.MsgspecError:
            # Encrypted by this server, but by a version with another format.
            return None
        fits = found.browser == browser and found.at <= now < later(found.at, LIFETIME)
        return found if fits else None
