"""Passwords: changed by a signed-in user, or chosen by a link that works once.

A reset link is emailed and expires after 20 minutes; that of a new account without a password is
emailed or shown to its administrator, and expires after 7 days.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, hold_both, permissions_of
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.authentication.password import (
    SHORTEST,
    PasswordSignIn,
    hash_prepared,
    is_well_known,
    prepare,
)
from valetkey.authorization.authentication.session import (
    NewSession,
    SignedIn,
    find_still_signed_in,
    record_authentication,
)
from valetkey.authorization.email.notices import (
    LIFETIMES,
    RESET,
    Links,
    MailOutbox,
    ValidLink,
    email_to,
)
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.accounts import PasswordResetRequested
from valetkey.authorization.model.event.event import USUAL_ACTOR, DoneBy
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.model.user import Uid, User, fold
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant, hours, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.secret import Secret, same
from valetkey.web.client_address import network_of

_SALT = 16


class NewPasswordFault(StrEnum):
    """The reason why a new password is rejected."""

    SHORT = "short"
    IMPOSSIBLE = "impossible"  # too long, or with control characters
    NAME = "name"  # it is the username or the email address
    COMMON = "common"  # among the most used passwords
    SAME = "same"  # it is the current password
    DIFFERENT = "different"  # the two fields differ


@dataclass(frozen=True, slots=True, repr=False)
class NewPassword:
    """The submitted form. Never printed."""

    current: str
    new: str
    again: str

    def fault(self, user: User) -> NewPasswordFault | None:
        """Return why the new password is rejected for this user; None if it is acceptable."""
        password_fault = new_password_fault(self.new, self.new, (user.username, user.email))
        if password_fault is None and self.new == self.current:
            return NewPasswordFault.SAME
        return password_fault or new_password_fault(self.new, self.again, ())


def new_password_fault(new: str, again: str, names: Iterable[str]) -> NewPasswordFault | None:
    """Return why the password is rejected for a user of these names; None if it is acceptable.

    Length and common passwords are checked (NIST SP 800-63B); there are no composition rules.
    """
    if len(new) < SHORTEST:
        return NewPasswordFault.SHORT
    if prepare(new) is None:
        return NewPasswordFault.IMPOSSIBLE
    if fold(new) in {part for name in names for part in _parts(name)}:
        return NewPasswordFault.NAME
    if is_well_known(new):
        return NewPasswordFault.COMMON
    return NewPasswordFault.DIFFERENT if new != again else None


def _parts(name: str) -> tuple[str, str]:
    whole = fold(name)
    return whole, whole.partition("@")[0]


class PasswordChange(Struct, frozen=True):
    """Change the password of a signed-in user, with the rate limits of the sign-in page."""

    passwords: PasswordSignIn
    accounts: Accounts
    sessions: SessionSettings
    random: Callable[[int], bytes]

    async def change(
        self,
        signed_in: SignedIn,
        typed: NewPassword,
        cookie: str,
        new: NewSession,
        address: str,
        now: Instant,
    ) -> NewPasswordFault | Refusal | None:
        """Change the password and end every other session and every grant. Return None if done.

        The current session continues under the cookie of `new`. A Refusal says that the current
        password was wrong (`invalid_grant`) or that there were too many attempts (`slow_down`).
        """
        user = signed_in.user
        if fault := typed.fault(user):
            return fault
        stored: list[str | None] = []
        checked_user = await self.passwords.authenticate(
            user.username,
            typed.current,
            address,
            now,
            lambda tx, user: stored.append(tx.users.password_hash(user.uid)),
        )
        if isinstance(checked_user, Refusal):
            return checked_user
        prepared = prepare(typed.new)
        if prepared is None:
            return NewPasswordFault.IMPOSSIBLE
        offload, salt = self.passwords.offload, self.random(_SALT)
        data = await offload.run(hash_prepared, prepared, self.passwords.passwords, salt)

        def replace_password(tx: Transaction) -> bool:
            # Locked: of two parallel changes, the second finds another password than it verified.
            user = tx.users.find_to_change(checked_user.uid)
            asking = find_still_signed_in(tx, signed_in.session.id, self.sessions, now)
            if user is None or asking is None or asking.user.uid != checked_user.uid:
                return False
            if tx.users.password_hash(user.uid) != stored[-1]:
                return False
            self.accounts.set_password(tx, user, data, now, keep=asking.session.id)
            key = self.passwords.key
            record_authentication(tx, cookie, new, asking, key, now, methods=(Amr.PASSWORD,))
            return True

        if await self.passwords.store.write(replace_password, done_by=USUAL_ACTOR):
            return None
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "the password or the session has changed",
            "password.overtaken",
        )


LIFETIME = LIFETIMES[VoucherKind.PASSWORD_RESET]
"""How long a reset link works."""

FIRST_LIFETIME = LIFETIMES[VoucherKind.FIRST_PASSWORD]
"""How long the link of a new account works."""

_KINDS = (VoucherKind.PASSWORD_RESET, VoucherKind.FIRST_PASSWORD)

WINDOW = hours(1)
"""Time in which the requests of one network are counted."""

_LONGEST_NAME = 320


class PasswordReset(Struct, frozen=True):
    """Reset a forgotten password with a link sent to the account's verified address."""

    links: Links
    outbox: MailOutbox
    accounts: Accounts
    passwords: PasswordSignIn

    async def request_reset(self, name: str, address: str, language: str, now: Instant) -> int:
        """Email a reset link if an account of this name has this verified address.

        The answer and the work are the same if there is none. Returns the seconds to wait, 0 if
        done.
        """
        link, key, store = self.links.fresh(), self.passwords.key, self.passwords.store
        bucket = f"reset_from:{key.fingerprint('throttle', network_of(address))}"
        limit = Limit(self.passwords.limits.unopened_links_per_address, WINDOW)
        # An impossible name is looked up, too, as one without a user: the time must not tell.
        possible = "" if len(name) > _LONGEST_NAME or "\0" in name else name.strip()
        identifier = possible if _is_text(possible) else ""

        # In a transaction of its own: the use of a link locks the link first and the counter last.
        if wait := await store.write(
            lambda tx: tx.throttles.begin(bucket, limit, now), done_by=USUAL_ACTOR
        ):
            return wait

        def queue_reset_link(tx: Transaction) -> None:
            user = tx.users.find_by_name(identifier)
            values = {
                "username": "" if user is None else user.username,
                "minutes": str(LIFETIME // minutes(1)),
                "link": self.links.address(RESET, link),
            }
            kind = EmailKind.PASSWORD_RESET
            if user is None or user.disabled_at is not None or user.email_verified_at is None:
                self.outbox.enqueue_decoy(tx, Email(kind, identifier, language, values), now)
                user = None
            elif self.outbox.enqueue(tx, email_to(user, kind, values, later(now, LIFETIME)), now):
                tx.events.add(PasswordResetRequested(user.uid), now)
            else:
                user = None
            # Only an email that is sent ends the link of the one before.
            issue_reset(tx, self.links, link, user, now, counted=bucket)

        await store.write(queue_reset_link, done_by=USUAL_ACTOR)
        return 0

    async def find_user(self, text: str, now: Instant) -> tuple[User, bool] | None:
        """Return the user whose password the link can set, and whether it is their first one.

        None if the link is invalid.
        """
        linked_user = await self.passwords.store.read(lambda tx: self._find(tx, text, now))
        if linked_user is None:
            return None
        link, user = linked_user
        return user, link.voucher.kind is VoucherKind.FIRST_PASSWORD

    async def choose(
        self, text: str, new: str, again: str, now: Instant
    ) -> User | NewPasswordFault | None:
        """Set the new password and sign the user out everywhere.

        Returns None for an invalid link. Raises Busy.
        """
        link_owner = await self.find_user(text, now)
        if link_owner is None:
            return None
        user, _ = link_owner
        if fault := new_password_fault(new, again, (user.username, user.email)):
            return fault
        prepared = prepare(new)
        if prepared is None:
            return NewPasswordFault.IMPOSSIBLE
        salt = self.links.random(_SALT)
        data = await self.passwords.offload.run(
            hash_prepared, prepared, self.passwords.passwords, salt
        )

        def set_password(tx: Transaction) -> User | None:
            # Locked: password and email stay as they are between the look-up and the change.
            sent = self._link(tx, text, now)
            hold_both(tx, None if sent is None else _sender(sent.data)[0], user.uid)
            tx.users.find_to_change(user.uid)
            linked_user = self._find(tx, text, now)
            if linked_user is None or not self.links.redeem(tx, linked_user[0], now):
                return None
            link, owner = linked_user
            if link.data.get("emailed") and owner.email_verified_at is None:
                owner = self.accounts.confirm_email(tx, owner, now)
            self.accounts.set_password(tx, owner, data, now)
            if counted := link.data.get("counted"):
                begun_at = Instant(link.voucher.expires_at - LIFETIME)
                tx.throttles.finish(counted, begun_at, WINDOW, now)
            return owner

        return await self.passwords.store.write(set_password, done_by=USUAL_ACTOR)

    def _link(self, tx: Transaction, text: str, now: Instant) -> ValidLink | None:
        candidates = (self.links.find(tx, kind, text, now) for kind in _KINDS)
        return next((link for link in candidates if link is not None), None)

    def _find(self, tx: Transaction, text: str, now: Instant) -> tuple[ValidLink, User] | None:
        link = self._link(tx, text, now)
        if link is None:
            return None
        user = tx.users.find(Uid(int(link.data["uid"])))
        if user is None or user.disabled_at is not None:
            return None
        if link.voucher.kind is VoucherKind.FIRST_PASSWORD and has_sign_in_method(tx, user.uid):
            return None
        says = _bound_to(tx, self.links, user)
        unchanged = all(same(text, link.data.get(name, "")) for name, text in says.items())
        return (link, user) if unchanged and _may_still_send(tx, link.data, user, now) else None


def issue_reset(
    tx: Transaction,
    links: Links,
    link: Secret,
    user: User | None,
    now: Instant,
    by: DoneBy | None = None,
    *,
    counted: str = "",
) -> Instant:
    """Activate a password reset link for the user. Return when it expires.

    `counted` is the rate limit that counts the request until the link is used, "" for none. Without
    a user it is valid for none. The link is void once the account's password or address
    changes, or the role or API token of the administrator `by` who sent it ends.
    """
    until = later(now, LIFETIME)
    says = {**_bound_to(tx, links, user), "by": str(by or ""), "counted": counted}
    subject = None if user is None else str(user.uid)
    links.issue(tx, VoucherKind.PASSWORD_RESET, link, says, until, subject)
    return until


def has_sign_in_method(tx: Transaction, uid: Uid) -> bool:
    """Return whether someone can sign in to the account: a first password would take it over."""
    return bool(tx.user_directory.factors_of(uid)) or tx.has_other_sign_in_method(uid)


def issue_first_password(
    tx: Transaction,
    links: Links,
    link: Secret,
    user: User,
    now: Instant,
    by: DoneBy,
    *,
    emailed: bool,
) -> Instant:
    """Activate a link with which the user of a new account chooses a password.

    It is void under the same conditions as a reset link, and once the account has a sign-in method.
    If it was `emailed`, its use verifies the address. Returns when it expires.
    """
    until = later(now, FIRST_LIFETIME)
    says = {**_bound_to(tx, links, user), "by": str(by), "emailed": "yes" if emailed else ""}
    links.issue(tx, VoucherKind.FIRST_PASSWORD, link, says, until, str(user.uid))
    return until


def _sender(says: Mapping[str, str]) -> tuple[Uid | None, str]:
    """Return the administrator who sent the link (None for none) and their API token's id or ""."""
    kind, _, rest = says.get("by", "").partition(" ")
    uid, _, token_id = rest.partition(" token ")
    return (Uid(int(uid)), token_id) if kind == "user" else (None, "")


def _may_still_send(tx: Transaction, says: Mapping[str, str], user: User, now: Instant) -> bool:
    uid, token_id = _sender(says)
    if uid is None:
        return True
    tx.users.hold(uid)
    sender = tx.users.find(uid)
    if sender is None or sender.disabled_at is not None:
        return False
    if token_id:
        token = tx.api_tokens.find(token_id)
        if token is None or not token.is_live(now):
            return False
    return permissions_of(sender.role).allow(Permission.RESET, user)


def _bound_to(tx: Transaction, links: Links, user: User | None) -> Mapping[str, str]:
    uid = Uid(0) if user is None else user.uid
    stored = tx.users.password_hash(uid) or ""
    return {
        "uid": str(uid),
        "email": "" if user is None else fold(user.email),
        "generation": "" if user is None else str(user.generation),
        "password": links.keyring.fingerprint_key.fingerprint("password at reset", stored),
    }


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
