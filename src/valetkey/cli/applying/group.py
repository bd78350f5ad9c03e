"""Apply one group of the file, and one list of the users and groups with a role at an API.

Members and roles are only added: only pruning takes them away.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.api_roles import assign, assign_group
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    Step,
    changed_or_kept,
    invalid_entry,
)
from valetkey.authorization.model.account.group import Group
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.storage.register.applied import (
    AppliedKind,
    member_part,
    role_part,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.url import canonical

_CHANGES = ("name", "description", "parent")


def apply_group(tx: Transaction, wanted: DeclaredEntry, fresh_id: str, now: Instant) -> Step:
    """Create or change the group, and add members. Raises InvalidEntry if a rule forbids it."""
    name, parent = wanted.text("name"), wanted.text("parent")
    given = {"name": name, "description": wanted.text("description"), "parent": parent}
    try:
        said = msgspec.convert(given, GroupWanted)
    except msgspec.ValidationError as error:
        raise invalid_entry(wanted, faults_of(error, given, GroupWanted)) from None
    there = _there(tx, wanted)
    group = Group(fresh_id, said.name, said.description, said.parent, now)
    if there is None:
        made = groups.create(tx, group, now)
    else:
        after = replace(
            there,
            name=name,
            description=said.description if "description" in wanted.given else there.description,
            parent=parent if "parent" in wanted.given else there.parent,
        )
        made = groups.change(tx, there, after, now, channel="cli")
    if not isinstance(made, Group):
        raise invalid_entry(wanted, made)
    members = _users(tx, wanted, "members")
    joined = {user.uid: groups.add_member(tx, user, made, now) for user in members}
    owned = (
        Declared(AppliedKind.GROUP, made.id, is_new=there is None),
        *(
            Declared(AppliedKind.MEMBER, made.id, member_part(uid), is_new=is_new)
            for uid, is_new in joined.items()
        ),
    )
    if there is None:
        return Step(Action.CREATE, "group", name, declares=owned)
    changed = [key for key in _CHANGES if getattr(made, key) != getattr(there, key)]
    if added := sum(joined.values()):
        changed.append(f"members ({added} added)")
    return changed_or_kept("group", name, changed, *owned)


def _there(tx: Transaction, wanted: DeclaredEntry) -> Group | None:
    """Return the group of this name, or of its previous name; None if there is neither."""
    name, earlier = wanted.text("name"), wanted.text("renamed_from")
    there = tx.groups.find_to_change(name)
    before = tx.groups.find_to_change(earlier) if earlier else None
    if there is not None and before is not None:
        right = f"a group that does not exist; both {earlier} and {name} do"
        raise invalid_entry(wanted, [MetadataError("renamed_from", right)])
    return there or before


def assign_roles(tx: Transaction, wanted: DeclaredEntry, now: Instant) -> Step:
    """Assign the role to users and groups. Raises InvalidEntry for those that do not exist."""
    api, role = _api(tx, wanted), wanted.text("role")
    given = {
        role_part(role, user.uid): assign(tx, user, api, role, now)
        for user in _users(tx, wanted, "users")
    }
    for name in cast("Sequence[str]", wanted.given.get("groups", ())):
        group = tx.groups.find_to_change(name)
        if group is None:
            raise invalid_entry(
                wanted, [MetadataError("groups", f"groups; there is no {name[:80]!a}")]
            )
        given[role_part(role, group.id)] = assign_group(tx, group, api, role, now)
    added = sum(given.values())
    owned = (
        Declared(AppliedKind.ROLE, api.id, part, is_new=is_new) for part, is_new in given.items()
    )
    shown = [f"{added} added"] if added else []
    return changed_or_kept("role", f"{role} at {api.identifier}", shown, *owned)


def _api(tx: Transaction, wanted: DeclaredEntry) -> Api:
    api = tx.apis.find_by_key(canonical(wanted.text("api")))
    if api is None:
        raise invalid_entry(wanted, [MetadataError("api", "the identifier of a declared API")])
    if wanted.text("role") not in api.roles:
        known = ", ".join(api.roles) or "none"
        raise invalid_entry(
            wanted, [MetadataError("role", f"a role that the API declares: {known}")]
        )
    return api


def _users(tx: Transaction, wanted: DeclaredEntry, key: str) -> Sequence[User]:
    """Return the users that the file names, locked in the order of their uids."""
    found: dict[int, User] = {}
    for name in cast("Sequence[str]", wanted.given.get(key, ())):
        user = tx.users.find_by_username(name)
        if user is None:
            raise invalid_entry(
                wanted, [MetadataError(key, f"usernames; there is no {name[:80]!a}")]
            )
        found[user.uid] = user
    held = [tx.users.find_to_change(user.uid) for _, user in sorted(found.items())]
    return [user for user in held if user is not None]
