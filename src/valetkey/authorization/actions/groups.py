"""Groups of users: create, change, join and leave them; roles of users and groups at APIs."""

from valetkey.authorization.actions.clients import changed_values
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.event.accounts import (
    ApiRoleAssigned,
    ApiRoleWithdrawn,
    GroupApiRoleAssigned,
    GroupApiRoleWithdrawn,
    GroupChanged,
    GroupCreated,
    GroupDeleted,
    GroupMemberAdded,
    GroupMemberRemoved,
)
from valetkey.authorization.model.event.grants import ApiChanged, ClientChanged
from valetkey.authorization.model.user import MOST_OF_USER, Group, User
from valetkey.authorization.protocol.register.faults import MetadataError, fault, input_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import FilledText, translatable
from valetkey.kernel.url import canonical

CONTAINS_GROUPS = translatable("this group contains groups; delete or move them first")
MOST_RENAMED = 1_000
"""A group that more apps than this require cannot be renamed: all are changed at once."""

_REQUIRED = ("required_groups",)
_TAKEN = input_fault("name", "name.taken")

Faults = tuple[MetadataError, ...]


def create(tx: Transaction, group: Group, now: Instant) -> Group | Faults:
    """Create the group. Return it, or every error."""
    parent = _parent(tx, group.parent)
    if isinstance(parent, MetadataError):
        return (parent,)
    if not tx.groups.create(group, parent):
        return (_TAKEN,)
    tx.events.add(GroupCreated(group.name, group.parent, group.id), now)
    return group


def change(
    tx: Transaction, group: Group, new: Group, now: Instant, *, channel: str
) -> Group | Faults:
    """Give a group, found to be changed, the name, description and parent of `wanted`.

    Apps and APIs that require it are changed to require its new name. Call `tx.clients.hold_all`
    first: no app is judged by the old name meanwhile. Return the group as it is now, or what is
    wrong. Raises Refused (conflict) where too many apps or APIs require it.
    """
    if new == group:
        return group
    moves = new.parent != group.parent
    parent = _parent(tx, new.parent) if moves else ""
    if parent == group.id:
        parent = fault("parent", "group.self")
    elif parent and tx.groups.has_groups(group):
        parent = fault("parent", "group.contains")
    if isinstance(parent, MetadataError):
        return (parent,)
    if new.name != group.name:
        if not tx.groups.rename(group, new.name):
            return (_TAKEN,)
        _rename_in_clients(tx, group.name, new.name, now, channel)
        _rename_in_apis(tx, group.name, new.name, now)
    if moves:
        tx.groups.move(group, parent)
    if new.description != group.description:
        tx.groups.describe(group, new.description)
    tx.events.add(GroupChanged(new.name, group.name, new.parent, group.id), now)
    return new


def _parent(tx: Transaction, name: str) -> str | MetadataError:
    """Return the id of the parent group, which is locked until the commit; "" for none."""
    if not name:
        return ""
    parent = tx.groups.find_to_change(name)
    if parent is None:
        return unknown_group(tx, name, input_fault("parent", "group.unknown"))
    if parent.parent:
        return fault("parent", "group.nested", parent=parent.parent)
    return parent.id


def unknown_group(tx: Transaction, name: str, error: MetadataError) -> MetadataError:
    """Return the error about a name that no group has: it suggests one that differs in case."""
    similar = tx.groups.find_similar(name)
    return error if similar is None else fault(error.field, "group.similar", name=similar.name)


def _rename_in_clients(
    tx: Transaction, before: str, after: str, now: Instant, channel: str
) -> None:
    clients = tx.clients.requiring_group(before, MOST_RENAMED + 1)
    if len(clients) > MOST_RENAMED:
        raise Refused.because(
            ErrorCode.CONFLICT,
            FilledText(
                translatable(
                    "more than %(most)s apps require this group; create another group instead"
                ),
                most=MOST_RENAMED,
            ),
            "group.required",
        )
    for client in clients:
        required = client.openid.required_groups
        names = [after if name == before else name for name in required]
        # The apps may have required the new name as well, without a group of that name.
        openid = replace(client.openid, required_groups=tuple(dict.fromkeys(names)))
        changed = replace(client, openid=openid, changed_at=now)
        tx.clients.change(changed)
        values = changed_values(client, changed, _REQUIRED)
        tx.events.add(ClientChanged(client.id, channel, _REQUIRED, *values), now)


def _rename_in_apis(tx: Transaction, before: str, after: str, now: Instant) -> None:
    apis = tx.apis.requiring_group(before, MOST_RENAMED + 1)
    if len(apis) > MOST_RENAMED:
        raise Refused.because(
            ErrorCode.CONFLICT,
            FilledText(
                translatable(
                    "more than %(most)s APIs require this group; create another group instead"
                ),
                most=MOST_RENAMED,
            ),
            "group.required",
        )
    for api in apis:
        names = [after if name == before else name for name in api.required_groups]
        required = tuple(dict.fromkeys(names))
        changed = replace(api, required_groups=required, changed_at=now)
        tx.apis.change(changed, canonical(api.identifier))
        tx.events.add(ApiChanged(api.id, api.identifier, _REQUIRED), now)


def delete(tx: Transaction, group: Group, now: Instant) -> bool:
    """Delete a group. False if it is gone. Refused: it contains groups."""
    if tx.groups.has_groups(group):
        raise Refused.because(
            ErrorCode.CONFLICT,
            CONTAINS_GROUPS,
            "group.full",
        )
    if not tx.groups.delete(group, now):
        return False
    for delete_rows in tx.hooks.group_deleted:
        delete_rows(tx.db, group.id)
    tx.events.add(GroupDeleted(group.name, group.id), now)
    return True


def add_member(tx: Transaction, user: User, group: Group, now: Instant) -> bool:
    """Add a locked user as a direct member. False if they are one. Refused: too many groups."""
    # The user is locked until the commit, so that concurrent additions are counted.
    direct = tx.groups.direct(user.uid)
    if any(direct_group.id == group.id for direct_group in direct):
        return False
    if len(direct) >= MOST_OF_USER:
        raise Refused.because(
            ErrorCode.CONFLICT,
            FilledText(translatable("a user can be in at most %(most)s groups"), most=MOST_OF_USER),
            "group.too_many",
        )
    if not tx.groups.add(group, user.uid, now):
        return False
    tx.events.add(GroupMemberAdded(user.uid, group.name, group.id), now)
    return True


def remove_member(tx: Transaction, user: User, group: Group, now: Instant) -> bool:
    """End the direct membership of a locked user. False if there is none."""
    if not tx.groups.remove(group, user.uid):
        return False
    tx.events.add(GroupMemberRemoved(user.uid, group.name, group.id), now)
    return True


def assign(tx: Transaction, user: User, api: Api, role: str, now: Instant) -> bool:
    """Assign the role to a user. False if they have it.

    Raises Refused if the API does not declare it.
    """
    require_role(api, role)
    if not tx.api_roles.assign(user.uid, api.id, role):
        return False
    tx.events.add(ApiRoleAssigned(user.uid, api.id, role), now)
    return True


def withdraw(tx: Transaction, user: User, api: Api, role: str, now: Instant) -> bool:
    """Remove the role from a user, declared or not. False unless it was assigned to the user."""
    if not tx.api_roles.withdraw(user.uid, api.id, role):
        return False
    tx.events.add(ApiRoleWithdrawn(user.uid, api.id, role), now)
    return True


def assign_group(tx: Transaction, group: Group, api: Api, role: str, now: Instant) -> bool:
    """Assign the role to a group, its members and its subgroups. False if the group has it.

    Raises Refused if the API does not declare it.
    """
    require_role(api, role)
    if not tx.api_roles.assign_group(group, api.id, role):
        return False
    tx.events.add(GroupApiRoleAssigned(group.name, api.id, role), now)
    return True


def withdraw_group(tx: Transaction, group: Group, api: Api, role: str, now: Instant) -> bool:
    """Remove the role from a group. False if the group does not have it."""
    if not tx.api_roles.withdraw_group(group, api.id, role):
        return False
    tx.events.add(GroupApiRoleWithdrawn(group.name, api.id, role), now)
    return True


def require_role(api: Api, role: str) -> None:
    """Raise Refused (not found) if the API does not declare the role."""
    if role not in api.roles:
        raise Refused.because(
            ErrorCode.NOT_FOUND, "the API declares no such role", "api.role.unknown"
        )
