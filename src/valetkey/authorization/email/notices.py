"""Email about an account: notices to its user, and single-use links."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.authorization.layout.addresses import ADDRESSES, DEVELOPER, SECURITY, SESSIONS
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.email import (
    LIFETIME,
    Email,
    EmailKind,
    MailKind,
    QueuedEmail,
    kind_of,
)
from valetkey.authorization.model.event.event import is_directory
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Uid, User, fold
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.records import RequestOrigin
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, Lifetime, days, hours, later, minutes
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_id, fresh_secret, well_formed
from valetkey.kernel.url import path_segment

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
        sealed = self.keyring.sealer.seal(plain, _link_place(kind, print_), self.random)
        whose = (
            None if subject is None else self.keyring.fingerprint_key.fingerprint(_SUBJECT, subject)
        )
        tx.vouchers.replace(Voucher(kind, print_, "", "", sealed, until, subject=whose))

    def cancel(self, tx: Transaction, kind: VoucherKind, subject: str) -> None:
        """End the link of this kind that the subject has, if any."""
        tx.vouchers.cancel(kind, self.keyring.fingerprint_key.fingerprint(_SUBJECT, subject))

    def find(self, tx: Transaction, kind: VoucherKind, text: str, now: Instant) -> ValidLink | None:
        """Return the record of this link; None if it is used, expired or unknown."""
        if not well_formed(Prefix.LINK, text):
            return None
        print_ = self._print(kind, text)
        voucher = tx.vouchers.find(kind, print_)
        if voucher is None or not voucher.is_live(LIFETIMES[kind], now):
            return None
        plain = self.keyring.sealer.open(voucher.payload, _link_place(kind, print_))
        if plain is None:
            return None
        return ValidLink(voucher, msgspec.json.decode(plain, type=dict[str, str]))

    def redeem(self, tx: Transaction, link: ValidLink, now: Instant) -> bool:
        """Redeem the link. Exactly one of several concurrent callers gets True."""
        return tx.vouchers.redeem(link.voucher, now)

    def _print(self, kind: VoucherKind, text: str) -> Fingerprint:
        return self.keyring.fingerprint_key.fingerprint(f"link {kind}", text)


def _link_place(kind: VoucherKind, print_: Fingerprint) -> str:
    return f"vouchers.payload:{kind}:{print_}"


ASKED_FOR = frozenset(
    {
        EmailKind.SIGN_UP,
        EmailKind.SIGN_UP_TAKEN,
        EmailKind.VERIFY_EMAIL,
        EmailKind.PASSWORD_RESET,
        EmailKind.ACCOUNT_CREATED,
        EmailKind.EMAIL_CHANGE,
        EmailKind.TEAM_INVITATION,
    }
)
"""Emails that a form can send to any address; limited, so that no mailbox is flooded."""

ASKED_LIMIT = Limit(5, hours(1))
"""Maximum rate of those emails to one address."""

NOTICE_LIMIT = Limit(30, hours(1))
"""Maximum rate of all other emails to one address; those with an undo link count separately."""


class MailOutbox(Struct, frozen=True):
    """The email queue, as its senders use it. Its methods run inside a transaction."""

    settings: MailSettings
    keyring: Keyring
    random: Callable[[int], bytes]

    @property
    def is_on(self) -> bool:
        """Return whether email is sent, or kept for the mailbox page.

        Pages must say if neither is the case.
        """
        return self.settings.is_on

    def enqueue(self, tx: Transaction, email: Email, now: Instant) -> bool:
        """Queue an email; it is sent soon after the transaction is committed.

        False if email is off or the address has reached its limit for an hour: nothing is queued.
        """
        if not self.is_on:
            return False
        is_requested = email.kind in ASKED_FOR
        print_ = self.keyring.fingerprint_key.fingerprint("mail to", fold(email.to))
        # Apart: no number of other notices may keep this one from being sent.
        template = "undo" if email.kind is EmailKind.EMAIL_CHANGED else "told"
        bucket = f"mail_{'asked' if is_requested else template}:{print_}"
        if tx.throttles.take(bucket, ASKED_LIMIT if is_requested else NOTICE_LIMIT, now):
            return False
        self._queue(tx, email, now, later(now, LIFETIME))
        return True

    def enqueue_decoy(self, tx: Transaction, email: Email, now: Instant) -> None:
        """Do as much work as `enqueue` for an email that is not sent.

        Response times must not tell whether an address belongs to an account.
        """
        if self.is_on:
            print_ = self.keyring.fingerprint_key.fingerprint("mail to", fold(email.to))
            tx.throttles.take(f"mail_asked:{print_}", ASKED_LIMIT, now)
            self._queue(tx, email, now, now, sent=False)

    def _queue(
        self, tx: Transaction, email: Email, now: Instant, until: Instant, *, sent: bool = True
    ) -> None:
        mail_id = fresh_id("ml", self.random)
        is_kept = self.settings.is_mailbox
        if email.good_until is not None and not is_kept:
            until = min(until, email.good_until)
        mail = QueuedEmail(
            id=mail_id,
            kind=email.kind.value,
            uid=email.uid,
            sealed=self.keyring.sealer.seal(email.encode(), _place(mail_id), self.random),
            attempts=0,
            due_at=now if sent and not is_kept else None,
            created_at=now,
            expires_at=until,
        )
        tx.mails.add(mail)

    def open(self, mail: QueuedEmail) -> Email | None:
        """Decrypt an email; None if no key of the keyring encrypted it, or its kind is unknown."""
        data, kind = self.keyring.sealer.open(mail.sealed, _place(mail.id)), kind_of(mail.kind)
        return None if data is None or kind is None else Email.decode(kind, mail.uid, data)


def _place(mail_id: str) -> str:
    return f"mails.sealed:{mail_id}"


UNDO_LIFETIME = LIFETIMES[VoucherKind.EMAIL_UNDO]
"""How long the previous address can undo a change."""


_FIELD_SEPARATOR = "|"


class SignInMethod(StrEnum):
    """A sign-in method that users can add to their account."""

    PASSKEY = "passkey"
    AUTHENTICATOR = "authenticator"
    ELSEWHERE = "elsewhere"


class AppChange(StrEnum):
    """The changes of an app by an administrator that its owners are notified of."""

    EDITED = "edited"
    DISABLED = "disabled"
    ENABLED = "enabled"
    DELETED = "deleted"
    SECRET_ISSUED = "secret_issued"
    SECRET_REVOKED = "secret_revoked"
    OWNER_ADDED = "owner_added"
    MEMBER_REMOVED = "member_removed"


class Notices(Struct, frozen=True):
    """Notifies users of changes of their account, at a verified address."""

    issuer: str
    outbox: MailOutbox

    def password_changed(self, tx: Transaction, user: User, now: Instant) -> None:
        """Notify the user that the password was changed."""
        forgotten = f"{self.issuer}{FORGOTTEN}"
        self.notify(tx, user, EmailKind.PASSWORD_CHANGED, {"forgotten": forgotten}, now)

    def email_changed(self, tx: Transaction, before: User, after: User, now: Instant) -> None:
        """Notify the old address, with a link that restores it for a week.

        Also if the address stays and is only no longer verified: otherwise no one would be
        notified of the next change. While such a link is valid, a further change is announced
        without one: only the first verified address can restore the account. A change by a
        directory is announced without one, too: the directory may give the address to
        another user at once.
        """
        if before.email_verified_at is None or not self.outbox.is_on:
            return
        is_same = after.email == before.email
        address = "" if is_same else after.email
        values = {"address": address, "days": str(UNDO_LIFETIME // days(1)), "link": ""}
        held_until = tx.users.email_held_until(before.uid)
        if not is_directory(tx.done_by) and (held_until is None or held_until <= now):
            links = Links(self.issuer, self.outbox.keyring, self.outbox.random)
            undo, until = links.fresh(), later(now, UNDO_LIFETIME)
            says = {"uid": str(before.uid), "email": before.email}
            links.issue(tx, VoucherKind.EMAIL_UNDO, undo, says, until, subject=says["uid"])
            tx.users.hold_email(before.uid, before.email, until)
            values["link"] = links.address(EMAIL_UNDO, undo)
        self.notify(tx, before, EmailKind.EMAIL_CHANGED, values, now)

    def email_verified(self, tx: Transaction, user: User, now: Instant) -> None:
        """Notify the address if an administrator marked it as verified."""
        if not actor_values(tx, user):
            return
        forgotten = f"{self.issuer}{FORGOTTEN}"
        self.notify(tx, user, EmailKind.EMAIL_VERIFIED, {"forgotten": forgotten}, now)

    def factors_reset(self, tx: Transaction, user: User, now: Instant) -> None:
        """Notify the user that passkeys, authenticator app and recovery codes were removed."""
        values = {"username": user.username, "security": f"{self.issuer}{SECURITY}"}
        self._write(tx, user, EmailKind.FACTORS_RESET, values, now)

    def role_changed(self, tx: Transaction, user: User, role: str, now: Instant) -> None:
        """Notify the user of their role; "" for none."""
        console = f"{self.issuer}{ADDRESSES['admin']}"
        values = {"username": user.username, "role": role, "console": console}
        self._write(tx, user, EmailKind.ROLE_CHANGED, values, now)

    def new_device(self, tx: Transaction, user: User, now: Instant) -> None:
        """Notify the user of a sign-in in a browser that was not used before."""
        values = {"sessions": f"{self.issuer}{SESSIONS}"}
        self.notify(tx, user, EmailKind.NEW_DEVICE, values, now)

    def recovery_code_used(self, tx: Transaction, user: User, left: int, now: Instant) -> None:
        """Notify the user that a recovery code was used, and how many are left."""
        values = {"left": str(left), "security": f"{self.issuer}{SECURITY}"}
        self.notify(tx, user, EmailKind.RECOVERY_CODE_USED, values, now)

    def sign_in_method_added(
        self, tx: Transaction, user: User, way: SignInMethod, now: Instant, page: str = SECURITY
    ) -> None:
        """Notify the user that a sign-in method was added, which `page` can remove."""
        values = {"way": way.value, "look": f"{self.issuer}{page}"}
        self.notify(tx, user, EmailKind.WAY_IN_ADDED, values, now)

    def app_changed(
        self,
        tx: Transaction,
        app: Client,
        change: AppChange,
        owners: Collection[Uid],
        now: Instant,
        *,
        fields: Sequence[str] = (),
        about: Uid | None = None,
    ) -> None:
        """Notify these owners of an app, at verified addresses, that an administrator changed it.

        `fields` are the labels of what was edited, `about` is the user who joined or left the team.
        """
        user = None if about is None else tx.users.find(about)
        texts = {
            "app": app.name or app.id,
            "change": change.value,
            "fields": _FIELD_SEPARATOR.join(fields),
            "user": "" if user is None else user.name or user.username,
            "time": minute_of(now),
        }
        for uid in sorted(owners):
            owner = tx.users.find(uid)
            if owner is None or owner.disabled_at is not None or owner.email_verified_at is None:
                continue
            has_page = tx.members.find(app.id, uid) is not None
            path = f"{DEVELOPER}/apps/{path_segment(app.id)}" if has_page else DEVELOPER
            values = {
                **texts,
                "username": owner.username,
                "page": "yes" if has_page else "",
                "link": f"{self.issuer}{path}",
            }
            self.outbox.enqueue(tx, email_to(owner, EmailKind.APP_CHANGED, values), now)

    def notify(
        self, tx: Transaction, user: User, kind: MailKind, values: Mapping[str, str], now: Instant
    ) -> None:
        """Notify the user at a verified address; without one, not at all."""
        if user.email_verified_at is None:
            # The address may belong to another person.
            return
        self._write(tx, user, kind, {"username": user.username, **values}, now)

    def _write(
        self, tx: Transaction, user: User, kind: MailKind, values: Mapping[str, str], now: Instant
    ) -> None:
        # Only the user's own: where an administrator works is not for the user to know.
        texts = {**values, **(actor_values(tx, user) or origin_values(tx.origin, now))}
        self.outbox.enqueue(tx, email_to(user, kind, texts), now)


def actor_values(tx: Transaction, about: User) -> Mapping[str, str]:
    """Return the values that name who made the change; none if the recipient did.

    `by` is `person`, `program` or `operator`; `by_name` is the name of the first two's user.
    """
    kind, *more = str(tx.done_by or "").split()[:3] or [""]
    if kind in {"cli", "apply"} or is_directory(tx.done_by):
        return {"by": "operator"}
    if kind != "user" or not more or (more == [str(about.uid)]):
        return {}
    actor = tx.users.find(Uid(int(more[0])))
    if actor is None:
        return {"by": "operator"}
    return {"by": "program" if len(more) > 1 else "person", "by_name": actor.name or actor.username}


def origin_values(origin: RequestOrigin, now: Instant) -> Mapping[str, str]:
    """Return the values that say where and when the recipient made the change."""
    return {
        "ip_address": origin.address,
        "browser": origin.browser,
        "system": origin.system,
        "time": minute_of(now),
    }


def minute_of(now: Instant) -> str:
    """Return a time for an email: `2026-03-01 12:00 UTC`."""
    return f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"


def email_to(
    user: User, kind: MailKind, values: Mapping[str, str], until: Instant | None = None
) -> Email:
    """Address an email to a user, in the language of their account, else in English."""
    return Email(kind, user.email, user.claims.locale or "en", values, user.uid, until)
