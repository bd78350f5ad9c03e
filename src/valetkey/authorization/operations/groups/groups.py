"""Operations on groups of users: list, create, change and delete them."""

from msgspec.structs import asdict

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.admin.permissions import CommandLine, Permission, require
from valetkey.authorization.model.event.accounts import GroupChanged, GroupCreated, GroupDeleted
from valetkey.authorization.model.user import NAME, Group
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    PAGING,
    SORT,
    Button,
    Call,
    Operation,
    QueryParameter,
    Result,
    cursor,
    limit_of,
    on,
    place_in,
    reads,
    unchecked_write,
    writes,
)
from valetkey.authorization.operations.records import Done, changes_in, tag_of
from valetkey.authorization.operations.user_records import (
    GroupChange,
    GroupList,
    GroupShown,
    GroupWanted,
    group_shown,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.search import BEGINNING, ListOrder, TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable

ONE = "/groups/{group}"
LIMIT, _ = PAGING
_PARENT = Option("parent", "--in", 'The group that contains it; "" for none.')


def list_groups(tx: Transaction, call: Call) -> Result:
    """List groups by name, or in another order."""
    limit, after = limit_of(call.query), call.query.get("cursor", "")
    order, part = ListOrder(call.query.get("sort", "name")), call.query.get("q", "")
    match order:
        case ListOrder.NAME:
            found = tx.groups.list(after, limit + 1, call.query.get("prefix", ""), part)
        case ListOrder.NAME_DESCENDING:
            found = tx.groups.list_descending(after, limit + 1, part)
        case ListOrder.NEWEST:
            found = tx.groups.newest(place_in(after or None), limit + 1, part)
        case _:
            found = tx.groups.oldest(place_in(after or None, BEGINNING), limit + 1, part)
    last = found[limit - 1] if len(found) > limit else None
    is_by_name = order in {ListOrder.NAME, ListOrder.NAME_DESCENDING}
    after = ""
    if last is not None:
        after = last.name if is_by_name else cursor(TimeCursor(last.created_at, last.id))
    items = [group_shown(group) for group in found[:limit]]
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
    wanted = asdict(call.input(GroupWanted))
    group = Group(id=call.new_id("gr"), created_at=call.now, **wanted)
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
