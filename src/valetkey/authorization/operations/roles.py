"""Operations on roles: of administrators, of developers, and at APIs."""

from collections.abc import Callable, Sequence

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.groups import (
    assign,
    assign_group,
    require_role,
    withdraw,
    withdraw_group,
)
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.event.accounts import (
    ApiRoleAssigned,
    ApiRoleWithdrawn,
    GroupApiRoleAssigned,
    GroupApiRoleWithdrawn,
    RoleChanged,
)
from valetkey.authorization.model.user import Group, Role, User
from valetkey.authorization.operations.operation import (
    PAGING,
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    Operation,
    Option,
    QueryParameter,
    Result,
    Run,
    limit_of,
    on,
    on_user,
    reads,
    unchecked_write,
)
from valetkey.authorization.operations.user_records import (
    Holders,
    RoleHolderShown,
    RoleWanted,
    UserState,
    shown,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable

NO_ROLE = "none"
"""The value that forms and commands use for "no role"."""


ROLE_WORDS = {
    Role.OWNER: translatable("Owner"),
    Role.ADMINISTRATOR: translatable("Administrator"),
    Role.SUPPORT: translatable("Support"),
    Role.AUDITOR: translatable("Auditor"),
}
"""The names of the roles, translatable."""

ROLE_ALLOWS = {
    Role.OWNER: translatable("full access, including roles"),
    Role.ADMINISTRATOR: translatable("manages users, apps, keys and settings"),
    Role.SUPPORT: translatable("views everything and helps users recover their accounts"),
    Role.AUDITOR: translatable("views everything, changes nothing"),
}
"""What each role allows, translatable."""


_ONE = "/users/{uid}"


_ROLES: Sequence[tuple[str, str]] = (
    (NO_ROLE, translatable("No role")),
    *((role.value, ROLE_WORDS[role]) for role in Role),
)


def give_role(tx: Transaction, call: Call, user: User) -> bool:
    """Replace the user's role, or remove it. Refused (conflict) for the last owner."""
    return call.services.roles.give(tx, user, call.input(RoleWanted).role, call.now)


GIVE_ROLE = Operation(
    "set_user_role",
    "PUT",
    f"{_ONE}/role",
    Permission.ROLES,
    "Assign a role to a user, or remove it",
    on_user(give_role),
    description="The last owner keeps the role: 409.",
    input=RoleWanted,
    output=Done,
    error_statuses=(409,),
    event=RoleChanged,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "role",
            translatable("Change role"),
            translatable("The user is notified by email."),
            translatable("The role is changed, and the user was notified."),
            shown_for=on(UserState),
            fields=(
                ButtonField(
                    "role",
                    translatable("Role"),
                    _ROLES,
                    {role.value: allowed for role, allowed in ROLE_ALLOWS.items()},
                ),
            ),
        ),
    ),
    commands=(
        Command(
            "user role",
            help="`none` removes the role. An owner may do everything; an administrator everything "
            "but roles; support reads, and helps users recover their accounts; an auditor reads.",
            example="administrator",
            options=(Option("role", argument=True),),
            done="The role of {username} is changed.",
        ),
    ),
)


def list_roles(tx: Transaction, call: Call) -> Holders:
    """List the users with a role."""
    holders = call.services.roles.holders(tx)
    return Holders([RoleHolderShown(shown(holder.user), holder.protected) for holder in holders])


ROLES = (
    GIVE_ROLE,
    Operation(
        "list_roles",
        "GET",
        "/roles",
        Permission.READ,
        "List users with a role",
        reads(list_roles),
        output=Holders,
        commands=(
            Command(
                "user roles",
                columns=(
                    ("ROLE", "role"),
                    ("UID", "uid"),
                    ("USERNAME", "username"),
                    ("SECOND FACTOR", "protected"),
                    ("DISABLED", "disabled_at"),
                ),
                empty="No roles assigned yet. Next: valetkey owner",
            ),
        ),
    ),
)


_ROLE = "/apis/{api_id}/roles/{role}"
_MOST_GROUPS = 1_000


class RoleHolder(msgspec.Struct, frozen=True):
    """A user who has a role, not by a group."""

    uid: int
    username: str


class RoleHolders(msgspec.Struct, frozen=True):
    """Users with a role by uid; `groups` are the first 1,000 groups with it by name."""

    items: list[RoleHolder]
    groups: list[str]
    next: str | None


def list_holders(tx: Transaction, call: Call) -> Result:
    """List who has a role at an API."""
    api, role, limit = _api(tx, call), call.named("role"), limit_of(call.query)
    require_role(api, role)
    after = int(call.query.get("cursor", "0"))
    holders = tx.api_roles.users(api.id, role, after, limit + 1)
    more = str(holders[limit - 1][0]) if len(holders) > limit else ""
    items = [RoleHolder(uid, username) for uid, username in holders[:limit]]
    groups = list(tx.api_roles.groups(api.id, role, _MOST_GROUPS))
    return Result(RoleHolders(items, groups, more or None), next=more)


def _user_role(change: Callable[[Transaction, User, Api, str, Instant], bool]) -> Run:
    def run(tx: Transaction, call: Call, user: User) -> bool:
        return change(tx, user, _api(tx, call), call.named("role"), call.now)

    return on_user(run)


def _group_role(change: Callable[[Transaction, Group, Api, str, Instant], bool]) -> Run:
    def run(tx: Transaction, call: Call) -> bool:
        tx.clients.touch()
        require(tx, call.actor, call.operation.permission)
        group = tx.groups.find_to_change(call.named("group"))
        if group is None:
            raise Refused.because(ErrorCode.NOT_FOUND, "this group does not exist", "group.unknown")
        return change(tx, group, _api(tx, call), call.named("role"), call.now)

    return unchecked_write(run)


def _api(tx: Transaction, call: Call) -> Api:
    api = tx.apis.find(call.named("api_id"))
    if api is None:
        raise Refused.because(ErrorCode.NOT_FOUND, "this API does not exist", "admin.api")
    return api


ASSIGN_ROLE = Operation(
    "add_user_api_role",
    "PUT",
    f"{_ROLE}/users/{{uid}}",
    Permission.USERS,
    "Give a user a role at an API",
    _user_role(assign),
    output=Done,
    event=ApiRoleAssigned,
    commands=(
        Command(
            "api add-role",
            done="{username} is {role}.",
            unchanged="{username} was {role} before; nothing changed.",
        ),
    ),
)
WITHDRAW_ROLE = Operation(
    "remove_user_api_role",
    "DELETE",
    f"{_ROLE}/users/{{uid}}",
    Permission.USERS,
    "Remove a user's role at an API",
    _user_role(withdraw),
    output=Done,
    event=ApiRoleWithdrawn,
    commands=(
        Command(
            "api remove-role",
            done="{username} no longer has the role {role}, unless by a group.",
            unchanged="{username} was not {role}; nothing changed.",
        ),
    ),
)
ASSIGN_GROUP_ROLE = Operation(
    "add_group_api_role",
    "PUT",
    f"{_ROLE}/groups/{{group}}",
    Permission.USERS,
    "Give the members of a group a role at an API",
    _group_role(assign_group),
    output=Done,
    event=GroupApiRoleAssigned,
    commands=(
        Command(
            "api add-group-role",
            done="Members of {group} are {role}.",
            unchanged="Members of {group} were {role} before; nothing changed.",
        ),
    ),
)
WITHDRAW_GROUP_ROLE = Operation(
    "remove_group_api_role",
    "DELETE",
    f"{_ROLE}/groups/{{group}}",
    Permission.USERS,
    "Remove the role at an API of a group's members",
    _group_role(withdraw_group),
    output=Done,
    event=GroupApiRoleWithdrawn,
    commands=(
        Command(
            "api remove-group-role",
            done="Members of {group} no longer have the role {role}.",
            unchanged="Members of {group} were not {role}; nothing changed.",
        ),
    ),
)
API_ROLES = (
    Operation(
        "list_api_role_users",
        "GET",
        _ROLE,
        Permission.READ,
        "List users and groups with a role at an API",
        reads(list_holders),
        output=RoleHolders,
        query=(
            PAGING[0],
            QueryParameter(
                "cursor",
                "`next` of the previous page.",
                {"type": "string", "pattern": "^[1-9][0-9]{0,15}$"},
            ),
        ),
        returns_list=True,
        commands=(Command("api role-users", empty="No user has this role except by a group."),),
    ),
    ASSIGN_ROLE,
    WITHDRAW_ROLE,
    ASSIGN_GROUP_ROLE,
    WITHDRAW_GROUP_ROLE,
)
