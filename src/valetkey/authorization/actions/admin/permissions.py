"""Roles and permissions: one table, checked inside the transaction that acts."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from valetkey.authorization.model.event.event import CLI, DoneBy, by_user
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable


class Permission(StrEnum):
    """A permission of a role; each page, operation and admin API call requires one."""

    READ = "read"
    RESET = "reset"
    USERS = "people"
    CLIENTS = "clients"
    KEYS = "keys"
    SETTINGS = "settings"
    ROLES = "roles"


PERMISSIONS: Mapping[Permission, str] = MappingProxyType(
    {
        Permission.READ: "view users, apps, keys, events, settings and the overview",
        Permission.RESET: "help users recover their accounts: sign them out, remove lost factors",
        Permission.USERS: "disable, enable and delete users, revoke the access of apps",
        Permission.CLIENTS: "change, disable and verify apps; manage app registration",
        Permission.KEYS: "rotate keys, create admin API tokens",
        Permission.SETTINGS: "change name, logo and color, send test emails",
        Permission.ROLES: "assign and remove roles",
    }
)
"""The description of each permission."""

MAY: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.OWNER: frozenset(Permission),
        Role.ADMINISTRATOR: frozenset(Permission) - {Permission.ROLES},
        Role.SUPPORT: frozenset({Permission.READ, Permission.RESET}),
        Role.AUDITOR: frozenset({Permission.READ}),
    }
)
"""The permissions of each role."""

_RANK: Mapping[Role | None, int] = MappingProxyType(
    {Role.OWNER: 4, Role.ADMINISTRATOR: 3, Role.SUPPORT: 2, Role.AUDITOR: 1, None: 0}
)


class ActorPermissions(Struct, frozen=True):
    """The permissions of an actor at this moment. No actor can act on a user of a higher role."""

    role: Role | None
    permissions: frozenset[Permission]

    def allow(self, permission: Permission, about: User | None = None) -> bool:
        """Return whether the permission is present and covers this user."""
        if permission not in self.permissions:
            return False
        return about is None or _RANK[about.role] <= self._rank

    @property
    def _rank(self) -> int:
        """Return the rank of the highest role all of whose permissions are present.

        A token can have fewer than its creator: one with `people` alone must not change the email
        address of an owner.
        """
        held = (role for role in Role if permissions_of(role).permissions <= self.permissions)
        return max((_RANK[role] for role in held), default=_RANK[None])


NOTHING = ActorPermissions(None, frozenset())
"""The permissions of users without a role: none."""


class Actor(Protocol):
    """The user with a role, CLI or admin API token that performs an operation."""

    @property
    def done_by(self) -> DoneBy:
        """Return how events name this actor."""
        ...

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        """Return the permissions as this transaction sees them."""
        ...


class UserActor(Struct, frozen=True):
    """A signed-in user. Role and session are read in the transaction that acts."""

    uid: Uid
    session_id: str

    @property
    def done_by(self) -> DoneBy:
        """Return how events name the user: `user 17`."""
        return by_user(self.uid)

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        """Return the permissions of the user's role; none if disabled or signed out."""
        # Locked: the role must not end between this check and the operation.
        tx.users.hold(self.uid)
        user = tx.users.find(self.uid)
        session = tx.sessions.find_by_id(self.session_id)
        if user is None or user.disabled_at is not None or user.role is None:
            return NOTHING
        if session is None or session.ended_at is not None or session.uid != user.uid:
            return NOTHING
        return permissions_of(user.role)


class CommandLine(Struct, frozen=True):
    """The command line. Its user can read keyring and database, so it has every permission."""

    done_by: DoneBy = CLI

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        """Return all permissions."""
        del tx
        return permissions_of(Role.OWNER)


def permissions_of(role: Role | None) -> ActorPermissions:
    """Return what a user with this role may do: nothing without a role."""
    return NOTHING if role is None else ActorPermissions(role, MAY[role])


def require_to_issue(tx: Transaction, actor: Actor, permission: Permission) -> ActorPermissions:
    """Check the permission as `require` does, and lock the actor's account until the commit.

    For invitations and tokens that end with the role of their creator: a concurrent change of the
    role waits, and then ends them too.
    """
    uid = getattr(actor, "uid", None)
    if uid is not None:
        tx.users.find_to_change(uid)
    return require(tx, actor, permission)


def hold_in_order(tx: Transaction, actor: Actor, uid: Uid) -> None:
    """Lock the accounts of the actor and of the user who is about to be changed."""
    hold_both(tx, getattr(actor, "uid", None), uid)


def hold_both(tx: Transaction, judged: Uid | None, changed: Uid) -> None:
    """Lock the account that is judged and the one that is to be changed, the lower uid first.

    Two administrators who act on each other would deadlock without an order.
    """
    if judged is not None and judged < changed:
        tx.users.hold(judged)
    tx.users.hold_alone(changed)
    if judged is not None and judged > changed:
        tx.users.hold(judged)


def require(
    tx: Transaction, actor: Actor, permission: Permission, about: User | None = None
) -> ActorPermissions:
    """Return the actor's permissions. Raises Refused (forbidden) without this one about this user.

    Call it in the transaction that acts: a role that was removed a moment ago has no effect.
    """
    powers = actor.permissions_in(tx)
    if powers.allow(permission, about):
        return powers
    if permission in powers.permissions:
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            translatable("this user has a higher role than yours"),
            "admin.rank",
            "the same role or a lower one",
        )
    raise Refused.because(
        ErrorCode.FORBIDDEN,
        translatable("your role does not allow this"),
        "admin.permission",
        permission.value,
        powers.role.value if powers.role else "no role",
    )
