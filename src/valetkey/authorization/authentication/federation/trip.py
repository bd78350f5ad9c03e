"""A trip to another server and back: what is kept of it meanwhile, and who may come back."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from valetkey.authorization.authentication.federation.provider import Claimed, Journey
from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Fingerprint, FingerprintKey, to_base64url

LIFETIME = minutes(15)
"""How long a person may be away."""

_PURPOSE = "federation.state"
_TRIP = "federation.trip"
_ARRIVAL = "federation.arrival"


class Errand(StrEnum):
    """What a trip is for."""

    SIGN_IN = "sign_in"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True, repr=False)
class Trip:
    """One of them. `browser` is the print of the browser that left; nobody else comes back.

    `interaction` is the pending request of an app, sealed as it stood in the address; `to` a page
    of ours that asked for the sign-in. `session_id` is whose account is to be connected.
    """

    provider: str
    errand: Errand
    browser: str
    nonce: str
    verifier: str
    interaction: str = ""
    to: str = ""
    session_id: str = ""
    fresh: bool = False

    def journey(self, state: str, callback: str) -> Journey:
        """What it proves itself by."""
        return Journey(state, self.nonce, self.verifier, callback, self.fresh)


@dataclass(frozen=True, slots=True)
class Trips:
    """Keeps trips, sealed, under the fingerprints of their states."""

    key: FingerprintKey
    sealer: Sealer
    random: Callable[[int], bytes]

    def draw(self) -> tuple[str, str, str]:
        """A state, a nonce and a verifier: three strings nobody can guess."""
        state, nonce, verifier = (to_base64url(self.random(32)) for _ in range(3))
        return state, nonce, verifier

    def voucher(self, trip: Trip, state: str, now: Instant) -> Voucher:
        """What to issue before the person leaves."""
        sealed = self.sealer.seal(msgspec.json.encode(trip), _TRIP, self.random)
        print_ = self.key.of(_PURPOSE, state)
        return Voucher(VoucherKind.FEDERATION, print_, "", "", sealed, later(now, LIFETIME))

    def take(
        self, tx: Transaction, state: str, browser: Fingerprint | None, now: Instant
    ) -> Trip | None:
        """The trip that this state began in this browser, once; None for every other."""
        if browser is None:
            return None
        voucher = tx.vouchers.find(VoucherKind.FEDERATION, self.key.of(_PURPOSE, state))
        plain = None if voucher is None else self.sealer.open(voucher.payload, _TRIP)
        if voucher is None or plain is None:
            return None
        trip = msgspec.json.decode(plain, type=Trip)
        # Whoever was sent a link to somebody else's return must not spend it either.
        if trip.browser != browser or not tx.vouchers.redeem(voucher, now):
            return None
        return trip


@dataclass(frozen=True, slots=True)
class Arrival:
    """Who came back and has no account here yet; it travels sealed in a cookie."""

    provider: str
    claimed: Claimed
    browser: str
    at: Instant

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """As the cookie says it."""
        return sealer.seal(msgspec.json.encode(self), _ARRIVAL, random)

    @staticmethod
    def open(
        sealed: str, sealer: Sealer, browser: Fingerprint | None, now: Instant
    ) -> "Arrival | None":
        """What `seal` gave, in the same browser and soon enough; None for anything else."""
        plain = sealer.open(sealed, _ARRIVAL) if sealed else None
        if plain is None:
            return None
        try:
            found = msgspec.json.decode(plain, type=Arrival)
        except msgspec.MsgspecError:
            # Sealed by us all the same: by a version that wrote it otherwise.
            return None
        fits = found.browser == browser and found.at <= now < later(found.at, LIFETIME)
        return found if fits else None
