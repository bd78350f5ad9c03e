"""Operations on groups of users."""

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.account.group import MOST_OF_USER, NAME, Group
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.groups import (
    GroupCreated,
    GroupDeleted,
    GroupMemberAdded,
    GroupMemberRemoved,
)
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    PAGING,
    Button,
    Call,
    Field,
    Operation,
    Parameter,
    Result,
    limit_of,
    on_user,
    reads,
    writes,
)
from valetkey.authorization.operations.records import Done
from valetkey.authorization.operations.user_records import (
    GroupList,
    GroupMembers,
    GroupMemberShown,
    GroupShown,
    GroupsOfUser,
    GroupsWanted,
    GroupWanted,
    group_shown,
)
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.words import translatable

_ONE = "/groups/{group}"
_MEMBER = f"{_ONE}/members/{{uid}}"
_LIMIT, _ = PAGING


def list_groups(tx: Transaction, call: Call) -> Result:
    """List groups by name."""
    limit = limit_of(call.query)
    after, prefix = call.query.get("after", ""), call.query.get("prefix", "")
    found = tx.groups.list(after, limit + 1, prefix)
    after = found[limit - 1].name if len(found) > limit else ""
    items = [group_shown(group) for group in found[:limit]]
    return Result(GroupList(items, after or None), next=after)


LIST_GROUPS = Operation(
    "list_groups",
    "GET",
    "/groups",
    Permission.READ,
    "Groups by name",
    reads(list_groups),
    gives=GroupList,
    query=(
        _LIMIT,
        Parameter(
            "after",
            "The cursor: `next` of the previous page.",
            {"type": "string", "pattern": f"^{NAME}$"},
        ),
        Parameter(
            "prefix",
            "Only groups whose names begin with this text.",
            {"type": "string", "pattern": f"^{NAME}$"},
        ),
    ),
    lists=True,
)


def create_group(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create a group. Faults: the name is taken, or the parent is unknown or in a group itself."""
    made = make_group(tx, call.input(GroupWanted), call.new_id("gr"), call.now)
    return Result(group_shown(made)) if isinstance(made, Group) else made


def make_group(
    tx: Transaction, wanted: GroupWanted, group_id: str, now: Instant
) -> Group | tuple[MetadataError, ...]:
    """Create a group, or return what is wrong with it."""
    parent = tx.groups.find_to_change(wanted.parent) if wanted.parent else None
    if wanted.parent and parent is None:
        return (MetadataError("parent", "a group that exists"),)
    if parent is not None and parent.parent:
        return (
            MetadataError("parent", f"a group that is in none; this one is in {parent.parent}"),
        )
    group = Group(group_id, wanted.name, wanted.description, wanted.parent, now)
    if not tx.groups.create(group, "" if parent is None else parent.id):
        return (MetadataError("name", "another one: this one is taken"),)
    tx.events.add(GroupCreated(group.name, group.parent), now)
    return group


CREATE_GROUP = Operation(
    "create_group",
    "POST",
    "/groups",
    Permission.PEOPLE,
    "Create a group, on its own or in another",
    writes(create_group),
    description="A group that is in another cannot contain groups.",
    takes=GroupWanted,
    gives=GroupShown,
    status=201,
    event=GroupCreated,
    commands=(
        Command(
            help="Its name is what apps receive, and never changes.",
            example="engineering --in staff",
            options=(Option("name", argument=True), Option("parent", "--in")),
            done="The group {name} exists.",
        ),
    ),
)


def delete_group(tx: Transaction, call: Call) -> bool:
    """Delete a group without groups in it. Refused: not found; conflict if it contains groups."""
    group = _group(tx, call.named("group"), to_change=True)
    if tx.groups.has_groups(group):
        raise Refused(
            Refusal(
                ErrorCode.CONFLICT, "this group contains groups; delete them first", "group.full"
            )
        )
    if not tx.groups.delete(group, call.now):
        return False
    tx.events.add(GroupDeleted(group.name), call.now)
    return True


DELETE_GROUP = Operation(
    "delete_group",
    "DELETE",
    _ONE,
    Permission.PEOPLE,
    "Delete a group; its members lose it at once",
    writes(delete_group),
    description="A group that contains groups is refused: 409.",
    gives=Done,
    refuses=(404, 409),
    event=GroupDeleted,
    buttons=(
        Button(
            "delete",
            translatable("Delete group"),
            translatable(
                "Tokens issued from now on do not contain the group. Its members can no longer "
                "use apps that require it. This cannot be undone."
            ),
            translatable("The group is deleted."),
            for_group=lambda _: True,
            ends=True,
            danger=True,
        ),
    ),
    commands=(
        Command(
            question="Delete this group? Its members lose it at once.",
            done="The group {group} is deleted.",
        ),
    ),
)


def list_group_members(tx: Transaction, call: Call) -> Result:
    """List the direct members of a group by uid."""
    limit = limit_of(call.query)
    group = _group(tx, call.named("group"))
    found = tx.groups.members(group, int(call.query.get("after", "0")), limit + 1)
    after = str(found[limit - 1].uid) if len(found) > limit else ""
    items = [GroupMemberShown(m.uid, m.username, m.name, m.since) for m in found[:limit]]
    return Result(GroupMembers(items, after or None), next=after)


LIST_GROUP_MEMBERS = Operation(
    "list_group_members",
    "GET",
    f"{_ONE}/members",
    Permission.READ,
    "Direct members of a group, by uid",
    reads(list_group_members),
    gives=GroupMembers,
    query=(
        _LIMIT,
        Parameter(
            "after",
            "The cursor: `next` of the previous page.",
            {"type": "string", "pattern": "^[1-9][0-9]{0,15}$"},
        ),
    ),
    refuses=(404,),
    lists=True,
    commands=(Command("group members", empty="The group has no members."),),
)


def add_group_member(tx: Transaction, call: Call, user: User) -> bool:
    """Make the user a direct member. False if they are one. Refused: not found, too many groups."""
    return add_member(tx, user, _group(tx, call.named("group")), call.now)


ADD_GROUP_MEMBER = Operation(
    "add_group_member",
    "PUT",
    _MEMBER,
    Permission.PEOPLE,
    "Add a user to a group",
    on_user(add_group_member),
    gives=Done,
    refuses=(404, 409),
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
    return remove_member(tx, user, _group(tx, call.named("group")), call.now)


REMOVE_GROUP_MEMBER = Operation(
    "remove_group_member",
    "DELETE",
    _MEMBER,
    Permission.PEOPLE,
    "Remove a user from a group",
    on_user(remove_group_member),
    gives=Done,
    refuses=(404,),
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
    names = set(call.input(GroupsWanted).groups.split())
    if len(names) > MOST_OF_USER:
        return (MetadataError("groups", f"at most {MOST_OF_USER}"),)
    found = {name: tx.groups.find(name) for name in sorted(names)}
    if unknown := [name for name, group in found.items() if group is None]:
        return (MetadataError("groups", f"groups that exist; there is no {unknown[0][:80]}"),)
    before = {group.name: group for group in tx.groups.direct(user.uid)}
    changed = [
        remove_member(tx, user, before[name], call.now) for name in sorted(before.keys() - names)
    ]
    added = {name: group for name, group in found.items() if group and name not in before}
    changed += [add_member(tx, user, group, call.now) for group in added.values()]
    return any(changed)


SET_USER_GROUPS = Operation(
    "set_user_groups",
    "PUT",
    "/users/{uid}/groups",
    Permission.PEOPLE,
    "Make a user a direct member of exactly these groups",
    on_user(set_user_groups),
    takes=GroupsWanted,
    gives=Done,
    refuses=(404, 409),
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
            for_user=lambda _: True,
            fields=(Field("groups", translatable("Groups")),),
        ),
    ),
)


def _group(tx: Transaction, name: str, *, to_change: bool = False) -> Group:
    group = tx.groups.find_to_change(name) if to_change else tx.groups.find(name)
    if group is None:
        raise no_such_group()
    return group


def no_such_group() -> Refused:
    """Return the refusal of a group that does not exist."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, "this group does not exist", "group.unknown"))


def add_member(tx: Transaction, user: User, group: Group, now: Instant) -> bool:
    """Make a user, who is held, a direct member. False if they are. Refused: too many groups."""
    # The user is held until the commit, so that concurrent additions are counted.
    if len(tx.groups.direct(user.uid)) >= MOST_OF_USER:
        raise Refused(
            Refusal(
                ErrorCode.CONFLICT, f"a user is in {MOST_OF_USER} groups at most", "group.too_many"
            )
        )
    if not tx.groups.add(group, user.uid, now):
        return False
    tx.events.add(GroupMemberAdded(user.uid, group.name), now)
    return True


def remove_member(tx: Transaction, user: User, group: Group, now: Instant) -> bool:
    """End the direct membership of a user, who is held. False if there is none."""
    if not tx.groups.remove(group, user.uid):
        return False
    tx.events.add(GroupMemberRemoved(user.uid, group.name), now)
    return True


GROUPS = (
    LIST_GROUPS,
    CREATE_GROUP,
    DELETE_GROUP,
    LIST_GROUP_MEMBERS,
    ADD_GROUP_MEMBER,
    REMOVE_GROUP_MEMBER,
    Operation(
        "list_user_groups",
        "GET",
        "/users/{uid}/groups",
        Permission.READ,
        "Groups of a user",
        on_user(list_user_groups),
        gives=GroupsOfUser,
        refuses=(404,),
        commands=(Command("user groups"),),
    ),
    SET_USER_GROUPS,
)
