"""People in the hands of those who look after them: each deed asks what its actor may do."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.connected_apps import end_app
from valetkey.authorization.deeds.account.password_reset import LIFETIME, issue_reset
from valetkey.authorization.deeds.account.removal import Removal
from valetkey.authorization.deeds.admin.permissions import Actor, Permission, require
from valetkey.authorization.deeds.admin.roles import person
from valetkey.authorization.deeds.users import AccountKeeper, sign_out_everywhere
from valetkey.authorization.email.links import RESET, Links
from valetkey.authorization.email.notices import email_to, said_by
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.people import PasswordResetRequested
from valetkey.authorization.model.event.roles import DeveloperAdmitted, DeveloperDismissed
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret


@dataclass(frozen=True, slots=True)
class PeopleDesk:
    """Changes what people have. Its methods run inside a transaction and raise Refused.

    Forbidden for who may not do this, or not to this person; not found where there is nobody;
    conflict about oneself and about the last owner. Write them with `done_by=actor.done_by`.
    """

    accounts: AccountKeeper
    removal: Removal
    links: Links

    def disable(self, tx: Transaction, actor: Actor, uid: Uid, now: Instant) -> bool:
        """Switch the account off: sessions and grants end. False if it was off."""
        user = self._other(tx, actor, uid, Permission.PEOPLE)
        return self.accounts.disable(tx, user, now)

    def enable(self, tx: Transaction, actor: Actor, uid: Uid, now: Instant) -> bool:
        """Switch it on again; nothing that ended comes back. False if it was on."""
        user = self._one(tx, actor, uid, Permission.PEOPLE)
        return self.accounts.enable(tx, user, now)

    def sign_out(self, tx: Transaction, actor: Actor, uid: Uid, now: Instant) -> int:
        """End every session, and the access that was to end with it; how many there were."""
        user = self._one(tx, actor, uid, Permission.RESET)
        return sign_out_everywhere(tx, user, now)

    def reset_factors(self, tx: Transaction, actor: Actor, uid: Uid, now: Instant) -> bool:
        """Take everything but the password from the account, sign them out, and tell them by mail.

        False if there was nothing to take.
        """
        user = self._one(tx, actor, uid, Permission.RESET)
        return self.accounts.reset_factors(tx, user, now)

    def send_reset(
        self, tx: Transaction, actor: Actor, uid: Uid, link: Secret, now: Instant
    ) -> None:
        """Send them a link by which they choose another password; `link` was drawn before.

        Refused (conflict) where mail is off or was sent too often, for an address that is not known
        to be theirs, and while the account is off.
        """
        user = self._one(tx, actor, uid, Permission.RESET)
        if user.disabled_at is not None or user.email_verified_at is None:
            raise _conflict("their e-mail address must be verified, and their account be on")
        until = issue_reset(tx, self.links, link, user, now, actor.done_by)
        values = {
            "username": user.username,
            "minutes": str(LIFETIME // minutes(1)),
            "link": self.links.address(RESET, link),
            **said_by(tx, user),
        }
        message = email_to(user, EmailKind.PASSWORD_RESET, values, until)
        if not self.removal.outbox.enqueue(tx, message, now):
            raise _conflict("no letter was sent: mail is off, or they got enough for an hour")
        tx.events.add(PasswordResetRequested(user.uid), now)

    def end_app(
        self, tx: Transaction, actor: Actor, uid: Uid, client_id: str, now: Instant
    ) -> bool:
        """End what one app may do for them; it must ask again. False if it could do nothing."""
        user = self._one(tx, actor, uid, Permission.PEOPLE)
        return end_app(tx, user.uid, client_id, now)

    def verify_email(self, tx: Transaction, actor: Actor, uid: Uid, now: Instant) -> bool:
        """Take it that their address is theirs. False if that was known."""
        user = self._one(tx, actor, uid, Permission.PEOPLE)
        return self.accounts.verify_email(tx, user, now)

    def let_register(
        self, tx: Transaction, actor: Actor, uid: Uid, now: Instant, *, on: bool
    ) -> bool:
        """Let them register apps, or not any more. False if it was so."""
        user = self._one(tx, actor, uid, Permission.PEOPLE)
        changed = tx.members.mark(user.uid, now) if on else tx.members.unmark(user.uid)
        if changed:
            tx.events.add((DeveloperAdmitted if on else DeveloperDismissed)(user.uid), now)
        return changed

    def delete(self, tx: Transaction, actor: Actor, uid: Uid, now: Instant) -> bool:
        """Take the account away at once, with all that is known of its person but the number.

        Apps that only they looked after stay, without an owner. False if it is gone.
        """
        user = self._other(tx, actor, uid, Permission.PEOPLE)
        return self.removal.remove(tx, user, now)

    def _one(self, tx: Transaction, actor: Actor, uid: Uid, permission: Permission) -> User:
        user = person(tx, uid, actor)
        require(tx, actor, permission, user)
        return user

    def _other(self, tx: Transaction, actor: Actor, uid: Uid, permission: Permission) -> User:
        user = self._one(tx, actor, uid, permission)
        # A program of theirs is theirs as well; the command line is nobody's.
        if getattr(actor, "uid", None) == user.uid:
            raise Refused(
                Refusal(
                    ErrorCode.CONFLICT,
                    "this is your own account; ask somebody else with your role, or look under "
                    "your account",
                    "admin.self",
                )
            )
        return user


def _conflict(description: str) -> Refused:
    return Refused(Refusal(ErrorCode.CONFLICT, description, "admin.reset"))
