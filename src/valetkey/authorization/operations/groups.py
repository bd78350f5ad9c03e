"""Operations on groups of users and their members."""

from msgspec.structs import asdict

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.admin.permissions import CommandLine, Permission, require
from valetkey.authorization.actions.groups import add_member, remove_member
from valetkey.authorization.model.event.accounts import (
    GroupChanged,
    GroupCreated,
    GroupDeleted,
    GroupMemberAdded,
    GroupMemberRemoved,
)
from valetkey.authorization.model.user import MOST_OF_USER, NAME, Group, User, group_names
from valetkey.authorization.operations.operation import (
    PAGING,
    SORT,
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    Operation,
    Option,
    QueryParameter,
    Result,
    changes_in,
    cursor,
    limit_of,
    on,
    on_user,
    place_in,
    reads,
    tag_of,
    unchecked_write,
    writes,
)
from valetkey.authorization.operations.user_records import (
    GroupChange,
    GroupList,
    GroupMembers,
    GroupMemberShown,
    GroupShown,
    GroupsOfUser,
    GroupsWanted,
    GroupWanted,
    UserState,
    group_shown,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault, input_fault
from valetkey.authorization.storage.search import BEGINNING, ListOrder, TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

ONE = "/groups/{group}"
LIMIT, _ = PAGING
_PARENT = Option("parent", "--in", 'The group that contains it; "" for none.')


def list_groups(tx: Transaction, call: Call) -> Result:
    """List groups by name, or in another order."""
    limit, after = limit_of(call.query), call.query.get("cursor", "")
    order, part = ListOrder(call.query.get("sort", "name")), call.query.get("q", "")
    match order:
        case ListOrder.NAME:
            page = tx.groups.list(after, limit + 1, call.query.get("prefix", ""), part)
        case ListOrder.NAME_DESCENDING:
            page = tx.groups.list_descending(after, limit + 1, part)
        case ListOrder.NEWEST:
            page = tx.groups.newest(place_in(after or None), limit + 1, part)
        case _:
            page = tx.groups.oldest(place_in(after or None, BEGINNING), limit + 1, part)
    last = page[limit - 1] if len(page) > limit else None
    is_by_name = order in {ListOrder.NAME, ListOrder.NAME_DESCENDING}
    after = ""
    if last is not None:
        after = last.name if is_by_name else cursor(TimeCursor(last.created_at, last.id))
    items = [group_shown(group) for group in page[:limit]]
    return Result(GroupList(items, after or None), next=after)


LIST_GROUPS = Operation(
    "list_groups",
    "GET",
    "/groups",
    Permission.READ,
    "List groups by name",
    reads(list_groups),
    output=GroupList,
    query=(
        LIMIT,
        QueryParameter(
            "cursor",
            "`next` of the previous page.",
            {"type": "string", "pattern": f"^{NAME}$"},
        ),
        QueryParameter(
            "prefix",
            "Only groups whose names begin with this text; only where they are sorted by name.",
            {"type": "string", "pattern": f"^{NAME}$"},
        ),
        QueryParameter(
            "q",
            "Only groups with this text in their name or description.",
            {"type": "string", "minLength": 1, "maxLength": 80},
        ),
        SORT,
    ),
    returns_list=True,
)


def create_group(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create a group. Faults: the name is taken, or the parent is unknown or in a group itself."""
    values = asdict(call.input(GroupWanted))
    group = Group(id=call.new_id("gr"), created_at=call.now, **values)
    return _shown(groups.create(tx, group, call.now))


CREATE_GROUP = Operation(
    "create_group",
    "POST",
    "/groups",
    Permission.USERS,
    "Create a group, on its own or in another",
    writes(create_group),
    description="A group that is in another cannot contain groups.",
    input=GroupWanted,
    output=GroupShown,
    status=201,
    returns_etag=True,
    event=GroupCreated,
    commands=(
        Command(
            help="Its name is what apps receive.",
            example="engineering --in staff",
            options=(Option("name", argument=True), _PARENT),
            done="The group {name} exists.",
        ),
    ),
)


def read_group(tx: Transaction, call: Call) -> object:
    """Read one group."""
    return _shown(named_group(tx, call.named("group")))


def change_group(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Rename, move or describe a group, if it is still as the caller saw it.

    Faults as at its creation, and a new parent for a group that contains groups.
    """
    # First: apps are judged by the group's name.
    tx.clients.hold_all()
    require(tx, call.actor, call.operation.permission)
    group = named_group(tx, call.named("group"), to_change=True)
    call.preconditions.check(tag_of(group_shown(group)))
    after = replace(group, **changes_in(call.input(GroupChange)))
    channel = "cli" if isinstance(call.actor, CommandLine) else "admin"
    return _shown(groups.change(tx, group, after, call.now, channel=channel))


READ_GROUP = Operation(
    "read_group",
    "GET",
    ONE,
    Permission.READ,
    "Show a group",
    reads(read_group),
    output=GroupShown,
    returns_etag=True,
)
CHANGE_GROUP = Operation(
    "change_group",
    "PATCH",
    ONE,
    Permission.USERS,
    "Rename a group, move it or change its description",
    unchecked_write(change_group),
    description="Apps that require the group require its new name; members and roles stay.",
    input=GroupChange,
    output=GroupShown,
    requires_if_match=True,
    returns_etag=True,
    error_statuses=(409,),
    event=GroupChanged,
    commands=(
        Command(
            help="Apps that require it require its new name; apps receive it in the next token.",
            example="--name platform",
            options=(_PARENT,),
            done="The group {name} is changed.",
        ),
    ),
)


def delete_group(tx: Transaction, call: Call) -> bool:
    """Delete a group without groups in it. Refused: not found; conflict if it contains groups."""
    tx.clients.touch()
    require(tx, call.actor, call.operation.permission)
    group = named_group(tx, call.named("group"), to_change=True)
    return groups.delete(tx, group, call.now)


DELETE_GROUP = Operation(
    "delete_group",
    "DELETE",
    ONE,
    Permission.USERS,
    "Delete a group and its memberships, at once",
    unchecked_write(delete_group),
    description="A group that contains groups is refused with 409.",
    output=Done,
    error_statuses=(409,),
    event=GroupDeleted,
    buttons=(
        Button(
            "delete",
            translatable("Delete group"),
            translatable(
                "New tokens do not contain the group. Its members can no longer "
                "use apps that require it. This cannot be undone."
            ),
            translatable("The group is deleted."),
            shown_for=on(Group),
            shows_impact=True,
            danger=True,
            irreversible=True,
        ),
    ),
    commands=(
        Command(
            question="Delete this group? Its members lose it at once.",
            done="The group {group} is deleted.",
        ),
    ),
)


def named_group(tx: Transaction, name: str, *, to_change: bool = False) -> Group:
    """Return the group of this name. Raises Refused (not found)."""
    group = tx.groups.find_to_change(name) if to_change else tx.groups.find(name)
    if group is None:
        raise no_such_group()
    return group


def no_such_group() -> Refused:
    """Return the refusal of a group that does not exist."""
    return Refused.because(ErrorCode.NOT_FOUND, "this group does not exist", "group.unknown")


def _shown(made: Group | groups.Faults) -> Result | groups.Faults:
    if not isinstance(made, Group):
        return made
    record = group_shown(made)
    return Result(record, etag=tag_of(record))


GROUPS = (
    LIST_GROUPS,
    CREATE_GROUP,
    READ_GROUP,
    CHANGE_GROUP,
    DELETE_GROUP,
)


_MEMBER = f"{ONE}/members/{{uid}}"


def list_group_members(tx: Transaction, call: Call) -> Result:
    """List the direct members of a group by uid."""
    limit = limit_of(call.query)
    group = named_group(tx, call.named("group"))
    members = tx.groups.members(group, int(call.query.get("cursor", "0")), limit + 1)
    after = str(members[limit - 1].uid) if len(members) > limit else ""
    items = [GroupMemberShown(m.uid, m.username, m.name, m.since) for m in members[:limit]]
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
    named_groups = _groups_in(tx, call.input(GroupsWanted).groups)
    if isinstance(named_groups, MetadataError):
        return (named_groups,)
    before = {group.name: group for group in tx.groups.direct(user.uid)}
    changed = [
        remove_member(tx, user, before[name], call.now)
        for name in sorted(before.keys() - named_groups.keys())
    ]
    added = {name: group for name, group in named_groups.items() if name not in before}
    changed += [add_member(tx, user, group, call.now) for group in added.values()]
    return any(changed)


def join_groups(tx: Transaction, user: User, names: str, now: Instant) -> tuple[MetadataError, ...]:
    """Make a new user a direct member of these groups, separated by spaces; return what is wrong.

    Raises Refused (conflict) where a group is in too many others.
    """
    named_groups = _groups_in(tx, names)
    if isinstance(named_groups, MetadataError):
        return (named_groups,)
    for group in named_groups.values():
        add_member(tx, user, group, now)
    return ()


def _groups_in(tx: Transaction, text: str) -> dict[str, Group] | MetadataError:
    """Return the groups of these names, in order."""
    names = group_names(text)
    if len(names) > MOST_OF_USER:
        return input_fault("groups", "number.most", most=MOST_OF_USER)
    named_groups = {name: group for name in names if (group := tx.groups.find(name)) is not None}
    if unknown := [name for name in names if name not in named_groups]:
        none = fault("groups", "group.none", name=unknown[0][:80])
        return groups.unknown_group(tx, unknown[0], none)
    return named_groups


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
