"""Operations on the members of groups."""

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.groups import add_member, remove_member
from valetkey.authorization.model.event.accounts import GroupMemberAdded, GroupMemberRemoved
from valetkey.authorization.model.user import MOST_OF_USER, Group, User
from valetkey.authorization.operations.command import Command
from valetkey.authorization.operations.groups.groups import LIMIT, ONE, named_group
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Operation,
    QueryParameter,
    Result,
    limit_of,
    on,
    on_user,
    reads,
)
from valetkey.authorization.operations.records import Done
from valetkey.authorization.operations.user_records import (
    GroupMembers,
    GroupMemberShown,
    GroupsOfUser,
    GroupsWanted,
    UserState,
)
from valetkey.authorization.protocol.register.faults import MetadataError, input_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

_MEMBER = f"{ONE}/members/{{uid}}"


def list_group_members(tx: Transaction, call: Call) -> Result:
    """List the direct members of a group by uid."""
    limit = limit_of(call.query)
    group = named_group(tx, call.named("group"))
    found = tx.groups.members(group, int(call.query.get("cursor", "0")), limit + 1)
    after = str(found[limit - 1].uid) if len(found) > limit else ""
    items = [GroupMemberShown(m.uid, m.username, m.name, m.since) for m in found[:limit]]
    return Result(GroupMembers(items, after or None), next=after)


LIST_GROUP_MEMBERS = Operation(
    "list_group_members",
    "GET",
    f"{ONE}/members",
    Permission.READ,
    "List direct members of a group, by user ID",
    reads(list_group_members),
    output=GroupMembers,
    query=(
        LIMIT,
        QueryParameter(
            "cursor",
            "`next` of the previous page.",
            {"type": "string", "pattern": "^[1-9][0-9]{0,15}$"},
        ),
    ),
    returns_list=True,
    commands=(Command("group members", empty="The group has no members."),),
)


def add_group_member(tx: Transaction, call: Call, user: User) -> bool:
    """Make the user a direct member. False if they are one. Refused: not found, too many groups."""
    return add_member(tx, user, named_group(tx, call.named("group")), call.now)


ADD_GROUP_MEMBER = Operation(
    "add_group_member",
    "PUT",
    _MEMBER,
    Permission.USERS,
    "Add a user to a group",
    on_user(add_group_member),
    output=Done,
    error_statuses=(409,),
    event=GroupMemberAdded,
    commands=(
        Command(
            "group add",
            done="{username} is in {group}.",
            unchanged="{username} was in {group} before; nothing changed.",
        ),
    ),
)


def remove_group_member(tx: Transaction, call: Call, user: User) -> bool:
    """End the user's direct membership. False if there is none."""
    return remove_member(tx, user, named_group(tx, call.named("group")), call.now)


REMOVE_GROUP_MEMBER = Operation(
    "remove_group_member",
    "DELETE",
    _MEMBER,
    Permission.USERS,
    "Remove a user from a group",
    on_user(remove_group_member),
    output=Done,
    event=GroupMemberRemoved,
    buttons=(
        Button(
            "remove",
            translatable("Remove from group"),
            translatable("Apps see the change in the next token."),
            translatable("The user is no longer in the group."),
            danger=True,
            carries=("uid", "uid"),
        ),
    ),
    commands=(
        Command(
            "group remove",
            confirms=False,
            done="{username} is no longer in {group}.",
            unchanged="{username} was not in {group}; nothing changed.",
        ),
    ),
)


def list_user_groups(tx: Transaction, call: Call, user: User) -> GroupsOfUser:
    """List the groups of a user."""
    direct = list(tx.groups.direct_names(user.uid))
    return GroupsOfUser(direct, list(tx.groups.names_of(user.uid)))


def set_user_groups(tx: Transaction, call: Call, user: User) -> bool | tuple[MetadataError, ...]:
    """Make the user a direct member of exactly these groups. False if they were."""
    found = _groups_in(tx, call.input(GroupsWanted).groups)
    if isinstance(found, MetadataError):
        return (found,)
    before = {group.name: group for group in tx.groups.direct(user.uid)}
    changed = [
        remove_member(tx, user, before[name], call.now)
        for name in sorted(before.keys() - found.keys())
    ]
    added = {name: group for name, group in found.items() if name not in before}
    changed += [add_member(tx, user, group, call.now) for group in added.values()]
    return any(changed)


def join_groups(tx: Transaction, user: User, names: str, now: Instant) -> tuple[MetadataError, ...]:
    """Make a new user a direct member of these groups, separated by spaces; return what is wrong.

    Raises Refused (conflict) where a group is in too many others.
    """
    found = _groups_in(tx, names)
    if isinstance(found, MetadataError):
        return (found,)
    for group in found.values():
        add_member(tx, user, group, now)
    return ()


def _groups_in(tx: Transaction, text: str) -> dict[str, Group] | MetadataError:
    """Return the groups of these names, in order."""
    names = sorted(set(text.split()))
    if len(names) > MOST_OF_USER:
        return input_fault("groups", "number.most", most=MOST_OF_USER)
    found = {name: group for name in names if (group := tx.groups.find(name)) is not None}
    if unknown := [name for name in names if name not in found]:
        return MetadataError("groups", f"groups that exist; there is no {unknown[0][:80]}")
    return found


SET_USER_GROUPS = Operation(
    "set_user_groups",
    "PUT",
    "/users/{uid}/groups",
    Permission.USERS,
    "Make a user a direct member of exactly these groups",
    on_user(set_user_groups),
    input=GroupsWanted,
    output=Done,
    error_statuses=(409,),
    event=GroupMemberAdded,
    commands=(Command("user set-groups", example='--groups "staff engineering"'),),
    buttons=(
        Button(
            "groups",
            translatable("Change groups"),
            translatable(
                "Group names, separated by spaces. Apps see the change in the next token."
            ),
            translatable("The groups are changed."),
            shown_for=on(UserState),
            fields=(ButtonField("groups", translatable("Groups")),),
        ),
    ),
)


MEMBERS = (
    LIST_GROUP_MEMBERS,
    ADD_GROUP_MEMBER,
    REMOVE_GROUP_MEMBER,
    Operation(
        "list_user_groups",
        "GET",
        "/users/{uid}/groups",
        Permission.READ,
        "List the groups of a user",
        on_user(list_user_groups),
        output=GroupsOfUser,
        commands=(Command("user groups"),),
    ),
    SET_USER_GROUPS,
)
