"""Assign and remove roles, and end what users issued to others in a role that ends."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import (
    Actor,
    Permission,
    hold_in_order,
    permissions_of,
)
from valetkey.authorization.actions.admin.tokens import end_all_of
from valetkey.authorization.actions.registrations import withdraw
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.model.event.accounts import RoleChanged
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.event.grants import TeamInvitationEnded
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable


def end_issued(tx: Transaction, uid: Uid, now: Instant) -> None:
    """End every open invitation and every API token that this account issued."""
    tx = _acting(tx, uid)
    end_issued_in_role(tx, uid, now)
    for client_id, invitation_id in tx.team_invitations.end_all_by(uid):
        tx.events.add(TeamInvitationEnded(client_id, invitation_id, "inviter_left"), now)


def end_issued_in_role(tx: Transaction, uid: Uid, now: Instant) -> None:
    """End the API tokens and registration tokens that this account issued in a role."""
    tx = _acting(tx, uid)
    end_all_of(tx, uid, now)
    for invitation_id in tx.invitations.made_by(uid, now):
        withdraw(tx, invitation_id, now)


def end_issued_in_team(tx: Transaction, client_id: str, uid: Uid, now: Instant) -> None:
    """End the open invitations of this account into the team of one app."""
    tx = _acting(tx, uid)
    for invitation_id in tx.team_invitations.end_by(uid, client_id):
        tx.events.add(TeamInvitationEnded(client_id, invitation_id, "inviter_left"), now)


def _acting(tx: Transaction, uid: Uid) -> Transaction:
    """Return the transaction with an actor; without one, the user who confirmed by a link."""
    return tx if tx.done_by is not None else tx.acting(by_user(uid))


def holders_of(tx: Transaction, permission: Permission, limit: int) -> Sequence[User]:
    """Return those of the first `limit` users with a role who have this permission."""
    users = [tx.users.find(uid) for uid in tx.user_directory.with_roles(limit)]
    return [
        user
        for user in users
        if user is not None
        and user.disabled_at is None
        and permissions_of(user.role).allow(permission)
    ]


MOST = 500
"""Maximum number of users with a role that are listed."""


def leave_an_owner(tx: Transaction, user: User) -> None:
    """Allow `user` to lose the role owner, or to be removed, if another owner remains.

    If two requests do this for the last two owners at once, the second is refused. Call it before
    anything is written. Raises Refused (conflict).
    """
    if user.role is not Role.OWNER:
        return
    tx.user_directory.take_turn()
    now = tx.users.find(user.uid)
    if now is None or now.role is not Role.OWNER or now.disabled_at is not None:
        return
    if not tx.user_directory.has_owner(but=user.uid):
        raise Refused.because(
            ErrorCode.CONFLICT,
            translatable("this is the last owner; make another user an owner first"),
            "admin.last_owner",
        )


class UserWithRole(Struct, frozen=True):
    """A user with a role; `protected` says whether a second factor or passkey is set up."""

    user: User
    protected: bool


class Roles(Struct, frozen=True):
    """Role assignments. Methods run inside a transaction."""

    notices: Notices

    def holders(self, tx: Transaction) -> Sequence[UserWithRole]:
        """Return the users with a role, the highest roles first."""
        users = [tx.users.find(uid) for uid in tx.user_directory.with_roles(MOST)]
        people = [user for user in users if user is not None and user.role is not None]
        order = list(Role)
        people.sort(key=lambda user: (order.index(user.role or Role.AUDITOR), user.username))
        return [UserWithRole(user, tx.users.has_second_factor(user.uid)) for user in people]

    def give(self, tx: Transaction, user: User, role: Role | None, now: Instant) -> bool:
        """Assign the role, None to remove it, and notify the user by email.

        `user` is locked, and the actor's permission checked. Returns False if nothing changed.
        Raises Refused (conflict) for the last owner.
        """
        tx.user_directory.take_turn()
        if user.role is role:
            return False
        leave_an_owner(tx, user)
        set_role(tx, user, role, self.notices, now)
        return True


def user_to_change(tx: Transaction, uid: Uid, actor: Actor) -> User:
    """Return the user, locked until the commit.

    Raises Refused (not found).
    """
    hold_in_order(tx, actor, uid)
    user = tx.users.find_to_change(uid)
    if user is None:
        raise Refused.because(ErrorCode.NOT_FOUND, "this user does not exist", "admin.user")
    return user


def set_role(
    tx: Transaction, user: User, role: Role | None, notices: Notices | None, now: Instant
) -> None:
    """Store the role and notify the user. The caller has checked the permission.

    A role with fewer permissions ends the tokens and invitations issued under the previous one.
    """
    tx.user_directory.set_role(user.uid, role, now)
    if permissions_of(user.role).permissions - permissions_of(role).permissions:
        end_issued_in_role(tx, user.uid, now)
    before, after = (user_role.value if user_role else "" for user_role in (user.role, role))
    tx.events.add(RoleChanged(user.uid, before, after), now)
    if notices is not None:
        notices.role_changed(tx, user, after, now)
