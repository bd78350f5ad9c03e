"""Upstream sign-ins until the user returns, and linked accounts: sign in, link, unlink.

An email address never identifies an account, not even a verified one: its holder may change. Only a
signed-in user can link an identity, and only one that is not linked to another user.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.account.export import moment
from valetkey.authorization.actions.account.usernames import is_choosable, is_reserved
from valetkey.authorization.actions.users import Accounts, Faults, UserRecord
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.providers.model import Identity, IdentityLinked, IdentityUnlinked
from valetkey.authorization.providers.rules.connection import ClaimedIdentity, UpstreamState
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, FingerprintKey, to_base64url


def user_of_identity(tx: Transaction, claimed: ClaimedIdentity, now: Instant) -> User | None:
    """Return the user of a linked account, disabled or not, and record its use."""
    identity = Identities.of(tx).find(claimed.issuer, claimed.subject)
    if identity is None:
        return None
    # Before the write: every transaction takes the lock of a user before it changes rows.
    tx.users.hold_alone(identity.uid)
    if not Identities.of(tx).touch(identity, now):
        return None
    if claimed.kept is not None or identity.claims:
        Identities.of(tx).keep_claims(replace(identity, claims=_encoded(claimed)))
    return tx.users.find(identity.uid)


def connect(tx: Transaction, user: User, claimed: ClaimedIdentity, now: Instant) -> bool:
    """Link the identity to `user`.

    False if it is already linked to an account, including this one.
    """
    shown = claimed.email or claimed.username or claimed.name or claimed.subject
    identity = Identity(claimed.issuer, claimed.subject, user.uid, shown, now, now)
    if claimed.kept is not None:
        # Before the row, as everywhere; the user's claims change below.
        tx.users.hold_alone(user.uid)
    if not Identities.of(tx).link(identity):
        return False
    if claimed.kept is not None:
        Identities.of(tx).keep_claims(replace(identity, claims=_encoded(claimed)))
    tx.events.add(IdentityLinked(user.uid, claimed.issuer), now)
    return True


def disconnect(
    tx: Transaction,
    user: User,
    issuer: str,
    subject: str,
    now: Instant,
    usable: Collection[str],
) -> bool:
    """Unlink an account. False if it is not linked, or the only way to sign in.

    `usable` are the issuers of the current providers.
    """
    # Locked: of two parallel removals, the second sees that its link is the last one.
    held = tx.users.find_to_change(user.uid)
    if held is None or not has_other_sign_in_method(tx, user.uid, issuer, subject, usable):
        return False
    if not Identities.of(tx).unlink(user.uid, issuer, subject):
        return False
    tx.events.add(IdentityUnlinked(user.uid, issuer, "disconnected"), now)
    return True


def has_other_sign_in_method(
    tx: Transaction, uid: Uid, issuer: str, subject: str, usable: Collection[str]
) -> bool:
    """Return whether the user can sign in without this identity.

    An identity counts if its issuer is among `usable`, those of the current providers.
    """
    if tx.users.password_hash(uid) is not None or tx.credentials.passkeys_of(uid):
        return True
    return any(
        each.issuer in usable and (each.issuer, each.subject) != (issuer, subject)
        for each in Identities.of(tx).of_user(uid)
    )


def remove_added(tx: Transaction, uid: Uid, since: Instant, because: str, now: Instant) -> None:
    """Unlink the accounts that were linked at `since` or later."""
    for identity in Identities.of(tx).of_user(uid):
        if identity.linked_at >= since:
            Identities.of(tx).unlink(uid, identity.issuer, identity.subject)
            tx.events.add(IdentityUnlinked(uid, identity.issuer, because), now)


def exported(tx: Transaction, uid: Uid) -> Mapping[str, object]:
    """Return the linked accounts for the export of an account."""
    return {
        "accounts_elsewhere": [
            {
                "issuer": identity.issuer,
                "shown_as": identity.shown,
                "linked_at": moment(identity.linked_at),
                "last_used_at": moment(identity.last_used_at),
                "kept_claims": msgspec.json.decode(identity.claims or "{}"),
            }
            for identity in Identities.of(tx).of_user(uid)
        ]
    }


def _encoded(claimed: ClaimedIdentity) -> str:
    return msgspec.json.encode(claimed.kept).decode() if claimed.kept else ""


class FederatedAccounts(Struct, frozen=True):
    """Creates accounts for users who sign in through an upstream provider."""

    accounts: Accounts
    brand_name: str

    def register(
        self, tx: Transaction, claimed: ClaimedIdentity, username: str, name: str, now: Instant
    ) -> User | Faults | None:
        """Create an account for the identity. Return the account, or the errors.

        Returns None if the provider did not verify an email address, or if the address or the
        identity already has an account. Raises AlreadyLinked if another request linked the identity
        first.
        """
        email = claimed.proven_email
        if not email or tx.users.find_by_name(email) is not None:
            return None
        if Identities.of(tx).find(claimed.issuer, claimed.subject) is not None:
            return None
        if not is_choosable(username) or is_reserved(username, (self.brand_name,)):
            return (MetadataError("username", "letters and digits, and not a reserved name"),)
        record = UserRecord(username, email, name, email_verified=True)
        made = self.accounts.register(tx, record, now)
        if isinstance(made, User) and not connect(tx, made, claimed, now):
            # Another request linked the identity: roll back the new account.
            raise AlreadyLinked
        return made


class AlreadyLinked(Exception):
    """The identity was linked by another request while the account was being created."""


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
        pending = self._look_up(tx, state, browser)
        # Checked before redeeming: a victim of a forwarded return link must not use it up.
        if pending is None or not pending[0].is_live(LIFETIME, now):
            return None
        return pending[1] if tx.vouchers.redeem(pending[0], now) else None

    def find(
        self, tx: Transaction, state: str, browser: Fingerprint | None
    ) -> UpstreamSignIn | None:
        """Return the sign-in of this state and browser, also if it was used or has expired."""
        pending = self._look_up(tx, state, browser)
        return None if pending is None else pending[1]

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
            unlinked = msgspec.json.decode(plain, type=UnlinkedIdentity)
        except msgspec.MsgspecError:
            # Encrypted by this server, but by a version with another format.
            return None
        fits = unlinked.browser == browser and unlinked.at <= now < later(unlinked.at, LIFETIME)
        return unlinked if fits else None
