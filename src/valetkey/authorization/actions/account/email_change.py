"""Email address of an account: verification, change and undo, each by an emailed link.

An address changes only after the new one is verified. The old address is notified and can undo the
change for a week.
"""

from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.account.passwords import issue_reset
from valetkey.authorization.actions.account.sign_up import already_there
from valetkey.authorization.actions.admin.roles import end_issued
from valetkey.authorization.actions.users import end_everything
from valetkey.authorization.authentication.factors import forget_devices
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.email.notices import (
    EMAIL_CONFIRM,
    EMAIL_VERIFY,
    LIFETIMES,
    UNDO_LIFETIME,
    Links,
    MailOutbox,
    Notices,
    ValidLink,
    email_to,
)
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.accounts import (
    AuthenticatorRemoved,
    EmailRestored,
    PasskeyRemoved,
    RemovalCancelled,
    UserChanged,
)
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.model.user import Uid, User, ascii_email, fold, is_mailable
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, days, hours, later
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret

LIFETIME = LIFETIMES[VoucherKind.EMAIL_CHANGE]
"""How long the link to an address works."""

BEFORE_THE_CHANGE = days(1)
"""Undoing a change of address also removes sign-in methods added this long before the change."""

FROM_ONE_ACCOUNT = Limit(10, hours(1))
"""Maximum rate of emails requested by one account."""


def remove_sign_in_methods(
    tx: Transaction, uid: Uid, since: Instant, because: str, now: Instant
) -> None:
    """Remove passkeys, authenticators and linked accounts that were added at `since` or later.

    Older ones stay: otherwise an attacker who reads old emails could remove them. Remembered
    devices, admin API tokens and open invitations are removed regardless of their age.
    """
    for passkey in tx.credentials.passkeys_of(uid):
        if passkey.created_at >= since and tx.credentials.remove_passkey(uid, passkey.id):
            tx.events.add(PasskeyRemoved(uid, passkey.id), now)
    app = tx.credentials.authenticator_of(uid)
    if app is not None and app.created_at >= since and tx.credentials.remove_authenticator(uid):
        tx.events.add(AuthenticatorRemoved(uid), now)
    made_at = tx.credentials.recovery_codes_of(uid).made_at
    if not tx.users.has_second_factor(uid) or (made_at is not None and made_at >= since):
        tx.credentials.remove_recovery_codes(uid)
    for methods in tx.hooks.sign_in_methods:
        methods.remove_added(tx, uid, since, because, now)
    forget_devices(tx, uid, now)
    end_issued(tx, uid, now)


class EmailFault(StrEnum):
    """The reasons why an address is rejected."""

    WRONG = "wrong"  # email cannot be sent to this address
    SAME = "same"  # the account has this address
    HELD = "held"  # the address was changed days ago, and the previous one may still undo it


class AddressChange(Struct, frozen=True):
    """The effect of an unused link: which account gets which address. Valid until `until`."""

    user: User
    email: str
    until: Instant


class EmailAddresses(Struct, frozen=True):
    """Changes, verifies and restores the email addresses of accounts."""

    store: Store
    links: Links
    outbox: MailOutbox

    async def request_change(
        self, signed_in: SignedIn, email: str, now: Instant
    ) -> EmailFault | int:
        """Send a verification link to the new address.

        Return the seconds to wait, or 0 if it was sent.

        An address that belongs to another account gets the same answer; its owner is notified. The
        account's own address ends a change that was requested before.
        """
        asking = signed_in.user
        email = ascii_email(email)
        if not is_mailable(email):
            return EmailFault.WRONG
        link, uid = self.links.fresh(), asking.uid
        if fold(email) == fold(asking.email):
            await self.store.write(
                lambda tx: self.links.cancel(tx, VoucherKind.EMAIL_CHANGE, str(uid)),
                done_by=USUAL_ACTOR,
            )
            return EmailFault.SAME

        def queue_confirmation(tx: Transaction) -> EmailFault | int:
            if _is_held(tx, uid, now):
                return EmailFault.HELD
            if wait := self._throttle(tx, uid, now):
                return wait
            until = later(now, LIFETIME)
            says = {
                "uid": str(uid),
                "email": email,
                "before": fold(asking.email),
                "session": signed_in.session.id,
            }
            self.links.issue(tx, VoucherKind.EMAIL_CHANGE, link, says, until, str(uid))
            owner = tx.users.find_by_name(email)
            if owner is None:
                values = {
                    "username": asking.username,
                    "link": self.links.address(EMAIL_CONFIRM, link),
                }
                message = replace(email_to(asking, EmailKind.EMAIL_CHANGE, values, until), to=email)
            else:
                message = already_there(owner, self.links)
            self.outbox.enqueue(tx, message, now)
            return 0

        return await self.store.write(queue_confirmation, done_by=USUAL_ACTOR)

    async def request_verification(self, user: User, now: Instant) -> int:
        """Send a link to the current address. Return the seconds to wait, 0 if it was sent."""
        link = self.links.fresh()

        def queue_verification(tx: Transaction) -> int:
            if wait := self._throttle(tx, user.uid, now):
                return wait
            until = later(now, LIFETIME)
            says = {"uid": str(user.uid), "email": user.email}
            values = {"username": user.username, "link": self.links.address(EMAIL_VERIFY, link)}
            if self.outbox.enqueue(tx, email_to(user, EmailKind.VERIFY_EMAIL, values, until), now):
                self.links.issue(tx, VoucherKind.EMAIL_VERIFY, link, says, until, says["uid"])
            return 0

        return await self.store.write(queue_verification, done_by=USUAL_ACTOR)

    async def find_link(self, kind: VoucherKind, text: str, now: Instant) -> AddressChange | None:
        """Return the effect of a link of this kind; None if the link is invalid."""
        linked_change = await self.store.read(lambda tx: self._find(tx, kind, text, now))
        return None if linked_change is None else linked_change[1]

    async def confirm(self, text: str, now: Instant) -> AddressChange | None:
        """Set and verify the new address, and notify the old one.

        Return None for an invalid link.
        """

        def change_address(tx: Transaction) -> AddressChange | None:
            change = self._take(tx, VoucherKind.EMAIL_CHANGE, text, now)
            if change is None:
                return None
            before = change.user
            after = replace(before, email=change.email, email_verified_at=now, changed_at=now)
            if not tx.users.change(after):
                return None
            tx.events.add(UserChanged(before.uid, ("email", "email_verified_at")), now)
            Notices(self.links.issuer, self.outbox).email_changed(tx, before, after, now)
            return replace(change, user=after)

        return await self.store.write(change_address, done_by=USUAL_ACTOR)

    async def verify(self, text: str, now: Instant) -> AddressChange | None:
        """Verify the current address of the account. None for an invalid link."""

        def mark_verified(tx: Transaction) -> AddressChange | None:
            change = self._take(tx, VoucherKind.EMAIL_VERIFY, text, now)
            if change is None:
                return None
            after = replace(change.user, email_verified_at=now, changed_at=now)
            tx.users.change(after)
            tx.events.add(UserChanged(after.uid, ("email_verified_at",)), now)
            return replace(change, user=after)

        return await self.store.write(mark_verified, done_by=USUAL_ACTOR)

    async def undo(self, text: str, now: Instant) -> Secret | None:
        """Restore the old address and sign the user out everywhere.

        The password is disabled, and everything that was added to the account with the change or in
        the day before it is removed. The returned link lets the reader of the old address choose a
        new password. Returns None for an invalid link.
        """
        reset = self.links.fresh()

        def restore_address(tx: Transaction) -> bool:
            change = self._take(tx, VoucherKind.EMAIL_UNDO, text, now)
            if change is None:
                return False
            after = replace(change.user, email=change.email, email_verified_at=now, changed_at=now)
            if not tx.users.change(after):
                return False
            tx.users.release_email(after.uid)
            tx.users.drop_password(after.uid)
            tx.events.add(EmailRestored(after.uid), now)
            changed_at = change.until - UNDO_LIFETIME
            since = Instant(changed_at - BEFORE_THE_CHANGE)
            remove_sign_in_methods(tx, after.uid, since, "email_restored", now)
            end_everything(tx, after, now, "email_restored")
            # Reverting the change proves that the owner wants the account: cancel its removal.
            if tx.account_removals.cancel(after.uid):
                tx.events.add(RemovalCancelled(after.uid), now)
            # Read again: signing out began a new generation, to which the link must belong.
            issue_reset(tx, self.links, reset, tx.users.find(after.uid), now)
            return True

        return reset if await self.store.write(restore_address, done_by=USUAL_ACTOR) else None

    def _take(
        self, tx: Transaction, kind: VoucherKind, text: str, now: Instant
    ) -> AddressChange | None:
        """Redeem the link; only the first caller gets its effect."""
        seen = self._find(tx, kind, text, now)
        if seen is None:
            return None
        # Locked: of two parallel changes, the second sees the result of the first.
        tx.users.find_to_change(seen[1].user.uid)
        linked_change = self._find(tx, kind, text, now)
        if linked_change is None or not self.links.redeem(tx, linked_change[0], now):
            return None
        return linked_change[1]

    def _find(
        self, tx: Transaction, kind: VoucherKind, text: str, now: Instant
    ) -> tuple[ValidLink, AddressChange] | None:
        link = self.links.find(tx, kind, text, now)
        if link is None:
            return None
        user, email = tx.users.find(Uid(int(link.data["uid"]))), link.data["email"]
        if user is None or tx.account_removals.is_done(user.uid):
            return None
        # A disabled account gets its address back as well: it must not be taken over meanwhile.
        if user.disabled_at is not None and kind is not VoucherKind.EMAIL_UNDO:
            return None
        if kind is VoucherKind.EMAIL_UNDO and not _is_held(tx, user.uid, now):
            return None
        if kind is VoucherKind.EMAIL_VERIFY and fold(user.email) != fold(email):
            return None
        if kind is VoucherKind.EMAIL_CHANGE:
            session = tx.sessions.find_by_id(link.data["session"])
            # Signing out rejects the change. While the previous address may undo a change, no other
            # change is accepted.
            if session is None or session.ended_at is not None or _is_held(tx, user.uid, now):
                return None
            # An address that was set meanwhile, by an administrator or a directory, is newer.
            if link.data.get("before", fold(user.email)) != fold(user.email):
                return None
        return link, AddressChange(user, email, link.voucher.expires_at)

    def _throttle(self, tx: Transaction, uid: Uid, now: Instant) -> int:
        return tx.throttles.take(f"mail_of:{uid}", FROM_ONE_ACCOUNT, now)


def _is_held(tx: Transaction, uid: Uid, now: Instant) -> bool:
    until = tx.users.email_held_until(uid)
    return until is not None and until > now
