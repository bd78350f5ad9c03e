"""Account removal: schedule it, cancel it by signing in, and carry it out when it is due."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.issued import end_issued
from valetkey.authorization.actions.admin.roles import leave_an_owner
from valetkey.authorization.actions.bulk_revocation import empty_account
from valetkey.authorization.actions.teams import sole_owned
from valetkey.authorization.actions.users import end_everything
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.email import Email, EmailKind, MailKind
from valetkey.authorization.model.event.accounts import RemovalPlanned, UserRemoved
from valetkey.authorization.model.user import Role, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, later

_AT_ONCE = 5
"""Accounts removed in one transaction of the sweep: each ends sessions and grants."""

_BECAUSE = "user_removed"
_DAY = 86_400


class Removal(Struct, frozen=True):
    """Removes accounts. Its methods run inside a transaction."""

    issuer: str
    outbox: MailOutbox
    grace: Lifetime

    def apps_without_other_owner(self, tx: Transaction, user: User) -> Sequence[Client]:
        """Return the apps without another owner: they must be transferred or deleted first."""
        return sole_owned(tx, user.uid)

    def is_last_owner(self, tx: Transaction, user: User) -> bool:
        """Return whether the user is the only owner of this server."""
        return user.role is Role.OWNER and not tx.user_directory.has_owner(but=user.uid)

    def plan(self, tx: Transaction, user: User, now: Instant) -> Instant | None:
        """Schedule the removal of the account. Return its time; None if an app lacks an owner.

        Signing in before that time cancels it. Sessions and grants end at once. Raises Refused
        (conflict) for the last owner of this server.
        """
        leave_an_owner(tx, user)
        if self.apps_without_other_owner(tx, user):
            return None
        due_at = later(now, self.grace)
        if not tx.account_removals.plan(user.uid, due_at, now):
            return tx.account_removals.due_at(user.uid)
        tx.events.add(RemovalPlanned(user.uid, due_at), now)
        end_everything(tx, user, now, "removal_planned")
        end_issued(tx, user.uid, now)
        self._email_user(tx, EmailKind.REMOVAL_PLANNED, user, now)
        return due_at

    def remove(self, tx: Transaction, user: User, now: Instant) -> bool:
        """Remove the account now, scheduled or not. False if it is already removed.

        Apps without another owner remain, without an owner. Raises Refused (conflict) for the last
        owner of this server.
        """
        tx.users.hold_alone(user.uid)
        leave_an_owner(tx, user)
        tx.account_removals.cancel(user.uid)
        tx.account_removals.plan(user.uid, now, now)
        return self._carry_out(tx, user, now)

    def sweep(self, tx: Transaction, now: Instant) -> int:
        """Remove some of the accounts whose removal is due. Return how many."""
        gone = 0
        for uid in tx.account_removals.due(now, _AT_ONCE):
            user = tx.users.find_to_change(uid)
            gone += user is not None and self._carry_out(tx, user, now)
        return gone

    def _carry_out(self, tx: Transaction, user: User, now: Instant) -> bool:
        if not tx.account_removals.finish(user.uid, now):
            return False
        end_everything(tx, user, now, _BECAUSE)
        end_issued(tx, user.uid, now)
        # First, because it may be told to others by the address that the account had.
        tx.events.add(UserRemoved(user.uid), now)
        empty_account(tx, user.uid, now, _BECAUSE)
        # Last, because queued emails are deleted with the account, and this one must stay.
        self._email_user(tx, EmailKind.REMOVED, user, now)
        return True

    def _email_user(self, tx: Transaction, kind: MailKind, user: User, now: Instant) -> None:
        if not user.email:
            return
        days = max(1, self.grace // _DAY)
        sign_in = f"{self.issuer}{SIGN_IN}"
        values = {"username": user.username, "days": str(days), "sign_in": sign_in}
        language = user.claims.locale or "en"
        self.outbox.enqueue(tx, Email(kind, user.email, language, values), now)
