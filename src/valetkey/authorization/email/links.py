"""Single-use links sent by email: random, time-limited, void once their subject changed."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, Lifetime, days, minutes
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_secret, well_formed

SIGN_UP = "/account/new"
SIGN_UP_CONFIRM = "/account/new/confirm"
FORGOTTEN = "/account/forgotten"
RESET = "/account/reset"
EMAIL = ADDRESSES["email"]
EMAIL_CONFIRM = "/account/email/confirm"
EMAIL_VERIFY = "/account/email/verify"
EMAIL_UNDO = "/account/email/undo"

_SUBJECT = "subject of a link"

LIFETIMES: Mapping[VoucherKind, Lifetime] = MappingProxyType(
    {
        VoucherKind.SIGN_UP: days(1),
        VoucherKind.INVITATION: days(7),
        VoucherKind.PASSWORD_RESET: minutes(20),
        VoucherKind.FIRST_PASSWORD: days(7),
        VoucherKind.EMAIL_VERIFY: days(1),
        VoucherKind.EMAIL_CHANGE: days(1),
        VoucherKind.EMAIL_UNDO: days(7),
    }
)
"""How long links of each kind are valid."""


class ValidLink(Struct, frozen=True):
    """A link that is still valid, and the data that it was issued with."""

    voucher: Voucher
    data: Mapping[str, str]


class Links(Struct, frozen=True):
    """Issues and redeems links. Their data is stored encrypted, the links as fingerprints."""

    issuer: str
    keyring: Keyring
    random: Callable[[int], bytes]

    def fresh(self) -> Secret:
        """Return a random link; drawn before the transaction that may issue it."""
        return fresh_secret(Prefix.LINK, self.random)

    def address(self, path: str, link: Secret) -> str:
        """Return the URL for the email."""
        return f"{self.issuer}{path}?link={link.reveal()}"

    def issue(
        self,
        tx: Transaction,
        kind: VoucherKind,
        link: Secret,
        says: Mapping[str, str],
        until: Instant,
        subject: str | None,
    ) -> None:
        """Store a link that is valid until `until`, and end the older ones of its subject.

        `subject` is the account, the address or the visitor that the link is for: of each kind, it
        has one valid link. None for a link that reaches no one.
        """
        print_ = self._print(kind, link.reveal())
        plain = msgspec.json.encode(dict(says))
        sealed = self.keyring.sealer.seal(plain, _place(kind, print_), self.random)
        whose = None if subject is None else self.keyring.fingerprint_key.of(_SUBJECT, subject)
        tx.vouchers.replace(Voucher(kind, print_, "", "", sealed, until, subject=whose))

    def cancel(self, tx: Transaction, kind: VoucherKind, subject: str) -> None:
        """End the link of this kind that the subject has, if any."""
        tx.vouchers.cancel(kind, self.keyring.fingerprint_key.of(_SUBJECT, subject))

    def find(self, tx: Transaction, kind: VoucherKind, text: str, now: Instant) -> ValidLink | None:
        """Return the record of this link; None if it is used, expired or unknown."""
        if not well_formed(Prefix.LINK, text):
            return None
        print_ = self._print(kind, text)
        voucher = tx.vouchers.find(kind, print_)
        if voucher is None or not voucher.is_live(LIFETIMES[kind], now):
            return None
        plain = self.keyring.sealer.open(voucher.payload, _place(kind, print_))
        if plain is None:
            return None
        return ValidLink(voucher, msgspec.json.decode(plain, type=dict[str, str]))

    def redeem(self, tx: Transaction, found: ValidLink, now: Instant) -> bool:
        """Redeem the link. Exactly one of several concurrent callers gets True."""
        return tx.vouchers.redeem(found.voucher, now)

    def _print(self, kind: VoucherKind, text: str) -> Fingerprint:
        return self.keyring.fingerprint_key.of(f"link {kind}", text)


def _place(kind: VoucherKind, print_: Fingerprint) -> str:
    return f"vouchers.payload:{kind}:{print_}"
