"""The first owner: the single-use link of `valetkey owner`, valid for fifteen minutes."""

from collections.abc import Callable

from msgspec import Struct

from valetkey.authorization.actions.admin.roles import set_role
from valetkey.authorization.actions.users import Accounts, Faults, UserRecord
from valetkey.authorization.authentication.session import find_still_signed_in
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.model.event.accounts import OwnerLinkIssued, OwnerLinkRedeemed
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Role, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import FingerprintKey, Prefix, Secret, fresh_secret, well_formed
from valetkey.kernel.text import translatable

OWNER_LINK_LIFETIME = minutes(15)
"""How long the link can be used."""

PURPOSE = "owner link"
"""The purpose under which links are fingerprinted."""

_BREAK_GLASS = "break_glass"


class OwnerLink(Struct, frozen=True):
    """A link that can still be used."""

    voucher: Voucher

    @property
    def break_glass(self) -> bool:
        """Return whether the link makes its bearer an owner even though the server has one."""
        return self.voucher.payload == _BREAK_GLASS


def fresh_link(random: Callable[[int], bytes]) -> Secret:
    """Generate the secret part of a link."""
    return fresh_secret(Prefix.LINK, random)


def issue_link(
    tx: Transaction, link: Secret, key: FingerprintKey, now: Instant, *, break_glass: bool = False
) -> None:
    """Issue a link that makes its bearer an owner; older ones are void.

    Raises Refused (conflict) if there is an owner already and `break_glass` is not set.
    """
    if tx.user_directory.has_owner() and not break_glass:
        raise Refused.because(
            ErrorCode.CONFLICT,
            "this server has an owner, who can make others one; if no owner can sign in any "
            "more, use --break-glass",
            "owner.exists",
        )
    voucher = Voucher(
        kind=VoucherKind.OWNER,
        fingerprint=key.fingerprint(PURPOSE, link.reveal()),
        client_id="",
        grant_id="",
        payload=_BREAK_GLASS if break_glass else "",
        expires_at=later(now, OWNER_LINK_LIFETIME),
        subject=key.fingerprint(PURPOSE, "subject"),
    )
    tx.vouchers.replace(voucher)
    tx.events.add(OwnerLinkIssued(break_glass), now)


def find_link(tx: Transaction, link: str, key: FingerprintKey, now: Instant) -> OwnerLink | None:
    """Return the link if it can still make an owner, otherwise None."""
    if not well_formed(Prefix.LINK, link):
        return None
    voucher = tx.vouchers.find(VoucherKind.OWNER, key.fingerprint(PURPOSE, link))
    if voucher is None or not voucher.is_live(OWNER_LINK_LIFETIME, now):
        return None
    owner_link = OwnerLink(voucher)
    return None if tx.user_directory.has_owner() and not owner_link.break_glass else owner_link


def register_bearer(
    tx: Transaction,
    link: OwnerLink,
    accounts: Accounts,
    record: UserRecord,
    password_hash: str,
    now: Instant,
) -> User | Faults:
    """Create an account for a visitor with the link. It has no role before `become_owner`.

    Their address counts as proved: who holds the link runs the server. Raises Refused (conflict)
    if the link is used up.
    """
    if _still(tx, link, now) is None:
        raise _over()
    return accounts.register(tx, record, now, password_hash=password_hash)


def become_owner(
    tx: Transaction,
    link: OwnerLink,
    session_id: str,
    sessions: SessionSettings,
    now: Instant,
    notices: Notices | None = None,
) -> User:
    """Redeem the link and make the user of this session an owner.

    Exactly one of several concurrent callers succeeds; the others are refused (conflict). Users
    without a second factor or passkey are refused (forbidden).
    """
    signed_in = find_still_signed_in(tx, session_id, sessions, now)
    user = None if signed_in is None else tx.users.find_to_change(signed_in.user.uid)
    # Locked: of two links that are redeemed at once, only the first makes an owner.
    tx.user_directory.take_turn()
    if user is None or _still(tx, link, now) is None:
        raise _over()
    if not tx.users.has_second_factor(user.uid):
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            "an owner needs a passkey or an authenticator app besides the password",
            "owner.factor",
        )
    if not tx.vouchers.redeem(link.voucher, now):
        raise _over()
    tx.events.add(OwnerLinkRedeemed(user.uid, link.break_glass), now)
    if user.role is not Role.OWNER:
        set_role(tx, user, Role.OWNER, notices, now)
    return user


def _still(tx: Transaction, link: OwnerLink, now: Instant) -> Voucher | None:
    voucher = tx.vouchers.find(VoucherKind.OWNER, link.voucher.fingerprint)
    if voucher is None or not voucher.is_live(OWNER_LINK_LIFETIME, now):
        return None
    return None if tx.user_directory.has_owner() and not link.break_glass else voucher


def _over() -> Refused:
    return Refused.because(
        ErrorCode.CONFLICT,
        translatable("this link was already used or has expired; ask the operator for a new one"),
        "owner.link",
    )
