"""Security notices: emails about changes of an account, and who made them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.email.links import EMAIL_UNDO, FORGOTTEN, LIFETIMES, Links
from valetkey.authorization.email.outbox import MailOutbox
from valetkey.authorization.layout.addresses import ADDRESSES, DEVELOPER, SECURITY, SESSIONS
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.email import Email, EmailKind, MailKind
from valetkey.authorization.model.event.event import is_directory
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.model.voucher import VoucherKind
from valetkey.authorization.storage.records import RequestOrigin
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later

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
        said = {
            "app": app.name or app.id,
            "change": change.value,
            "fields": _FIELD_SEPARATOR.join(fields),
            "user": "" if user is None else user.name or user.username,
            "time": _time(now),
        }
        for uid in sorted(owners):
            owner = tx.users.find(uid)
            if owner is None or owner.disabled_at is not None or owner.email_verified_at is None:
                continue
            has_page = tx.members.find(app.id, uid) is not None
            place = f"{DEVELOPER}/apps/{quote(app.id, safe='')}" if has_page else DEVELOPER
            values = {
                **said,
                "username": owner.username,
                "page": "yes" if has_page else "",
                "link": f"{self.issuer}{place}",
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
        said = {**values, **(actor_values(tx, user) or origin_values(tx.origin, now))}
        self.outbox.enqueue(tx, email_to(user, kind, said), now)


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
        "time": _time(now),
    }


def _time(now: Instant) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"


def email_to(
    user: User, kind: MailKind, values: Mapping[str, str], until: Instant | None = None
) -> Email:
    """Address an email to a user, in the language of their account, else in English."""
    return Email(kind, user.email, user.claims.locale or "en", values, user.uid, until)
