"""Groups as SCIM resources. Members change one by one, so that large groups are never rewritten."""

import re
import unicodedata
from collections.abc import Sequence
from typing import cast

from msgspec import Struct, field

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import uid_of
from valetkey.authorization.endpoints.scim.filter import (
    Compare,
    Filter,
    candidates,
    comparisons,
    matches,
)
from valetkey.authorization.endpoints.scim.message import Caller, ScimRequest, View, with_meta
from valetkey.authorization.endpoints.scim.patch import Change, apply, read_changes
from valetkey.authorization.endpoints.scim.schema import (
    Resource,
    Schema,
    conflict,
    refuse,
    short_text,
)
from valetkey.authorization.endpoints.scim.users import not_found
from valetkey.authorization.model.account.scim import Group, ScimGroup
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.operations.groups.groups import (
    CREATE_GROUP,
    DELETE_GROUP,
    create_group,
    delete_group,
)
from valetkey.authorization.operations.operation import call_of
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.storage.administration.scim import ScimGroups
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace

MOST_MEMBERS = 1_000
"""Maximum number of members in one response, and in one request that replaces them."""

_LONGEST_NAME = 80
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


class Groups(Struct, frozen=True):
    """Groups as SCIM resources. Its methods run inside a transaction."""

    schema: Schema
    plural: str = "Groups"
    indexed: frozenset[str] = frozenset({"id", "displayName", "externalId", "members.value"})

    def one(self, tx: Transaction, caller: Caller, id: str, view: View) -> Resource | None:
        """Return the group with this id."""
        del view
        found = _rows(tx, caller).find(id)
        return None if found is None else self._shown(tx, caller, found, MOST_MEMBERS)[0]

    def some(
        self, tx: Transaction, caller: Caller, view: View, ids: Sequence[str]
    ) -> Sequence[Resource]:
        """Return those of these groups that exist, with at most 1,000 members in all."""
        rows = [_rows(tx, caller).find(each) for each in ids]
        return self._all(tx, caller, view, [each for each in rows if each is not None])

    def page(
        self, tx: Transaction, caller: Caller, view: View, offset: int, limit: int, *, back: bool
    ) -> Sequence[Resource]:
        """Return some groups by id, with at most 1,000 members in all."""
        rows = _rows(tx, caller)
        found = rows.page(offset, limit, back=back)
        return self._all(tx, caller, view, found)

    def _all(
        self, tx: Transaction, caller: Caller, view: View, found: Sequence[ScimGroup]
    ) -> Sequence[Resource]:
        room = MOST_MEMBERS if view.shows("members") else 0
        shown: list[Resource] = []
        for each in found:
            resource, used = self._shown(tx, caller, each, room)
            room -= used
            shown.append(resource)
        return shown

    def count(self, tx: Transaction, caller: Caller) -> int:
        """Count the groups."""
        return _rows(tx, caller).count()

    def candidates(self, tx: Transaction, caller: Caller, wanted: Compare) -> Sequence[str]:
        """Return the ids that an index has for an equality."""
        rows, text = _rows(tx, caller), str(wanted.value)
        if wanted.name == "id":
            return [text]
        if wanted.name == "externalId":
            found = [rows.external(text)]
        elif wanted.name == "displayName":
            group = tx.groups.find(text)
            found = [rows.named(text), group.id if group else None]
        else:
            uid = uid_of(text)
            found = [each.id for each in tx.groups.direct(uid)] if uid is not None else []
        return [each for each in found if each is not None]

    def fits(self, tx: Transaction, caller: Caller, resource: Resource, wanted: Filter) -> bool:
        """Return whether a filter holds; of the members only those it names are looked up."""
        members = [each for each in comparisons(wanted) if each.path[0].name == "members"]
        if any(each.operator != "eq" or each.name != "members.value" for each in members):
            refuse("invalidFilter", "members are compared with eq alone")
        found = _rows(tx, caller).find(str(resource["id"]))
        named = {str(each.value) for each in members}
        are = [
            {"value": text}
            for text in named
            if found is not None
            and (uid := uid_of(text)) is not None
            and tx.groups.has(found.group, uid)
        ]
        return matches(wanted, {**resource, "members": are})

    def create(self, tx: Transaction, asked: ScimRequest) -> str:
        """Create the group; return the id. Raises Refused."""
        caller = asked.caller
        require(tx, caller.actor, Permission.USERS)
        wanted = self.schema.read(asked.body)
        members = _Members(adds=set(_uids(wanted.get("members"))))
        members.hold(tx, None)
        display = short_text(wanted, "displayName", required=True)
        name = _name_of(display)
        if tx.groups.find(name) is not None or _rows(tx, caller).named(display) is not None:
            conflict(f"there is a group {name} already")
        call = call_of(
            caller.services, CREATE_GROUP, caller.actor, caller.now, body=GroupWanted(name)
        )
        if isinstance(create_group(tx, call), tuple):
            conflict(f"there is a group {name} already")
        group = tx.groups.find(name)
        if group is None:
            raise not_found()
        self._name(tx, caller, group, wanted)
        members.write(tx, caller, group)
        return group.id

    def replace(self, tx: Transaction, asked: ScimRequest, id: str) -> None:
        """Replace the group and its members (section 3.5.1). Raises Refused."""
        wanted = self.schema.read(asked.body)
        members = _Members(exact=True, adds=set(_uids(wanted.get("members"))))
        before = _rows(tx, asked.caller).find(id)
        renames = before is not None and _shown_name(before) != wanted.get("displayName")
        found = self._held(tx, asked, id, members, renames=renames)
        group = self._rename(tx, asked.caller, found, wanted, held=renames)
        self._name(tx, asked.caller, group, wanted)
        members.write(tx, asked.caller, group)

    def patch(self, tx: Transaction, asked: ScimRequest, id: str) -> None:
        """Apply a PATCH request (section 3.5.2). Raises Refused."""
        changes = read_changes(asked.body, self.schema)
        members = _Members()
        others: list[Change] = []
        for change in changes:
            if change.path.attribute.name == "members":
                members.note(change)
            else:
                others.append(change)
        renames = any(each.path.attribute.name == "displayName" for each in others)
        found = self._held(tx, asked, id, members, renames=renames)
        before, group = _described(found), found.group
        after = apply(before, others)
        if after != before:
            group = self._rename(tx, asked.caller, found, after, held=renames)
            self._name(tx, asked.caller, group, after)
        members.write(tx, asked.caller, group)

    def delete(self, tx: Transaction, asked: ScimRequest, id: str) -> None:
        """Delete the group, as the console does. Raises Refused: conflict if it has groups."""
        tx.clients.touch()
        caller, group = asked.caller, self._held(tx, asked, id, _Members()).group
        call = call_of(caller.services, DELETE_GROUP, caller.actor, caller.now)
        delete_group(tx, replace(call, arguments={"group": group.name}))

    def _held(
        self,
        tx: Transaction,
        asked: ScimRequest,
        id: str,
        members: "_Members",
        *,
        renames: bool = False,
    ) -> ScimGroup:
        """Return the group, locked until the commit with the users whose membership changes."""
        caller = asked.caller
        if renames:
            # First: apps are judged by the group's name.
            tx.clients.hold_all()
        require(tx, caller.actor, Permission.USERS)
        found = _rows(tx, caller).find(id)
        if found is None:
            raise not_found()
        members.hold(tx, found.group)
        found = _rows(tx, caller).find(id) if tx.groups.hold(found.group) else None
        if found is None:
            raise not_found()
        if asked.preconditions.match is not None or asked.preconditions.none_match is not None:
            meta = cast("Resource", self._shown(tx, caller, found, MOST_MEMBERS)[0]["meta"])
            asked.preconditions.check(str(meta["version"]))
        return found

    def _rename(
        self, tx: Transaction, caller: Caller, found: ScimGroup, wanted: Resource, *, held: bool
    ) -> Group:
        """Give the group the name of a changed displayName. `held` is whether its lock is taken."""
        display = short_text(wanted, "displayName", required=True)
        if display == _shown_name(found):
            return found.group
        if not held:
            conflict("the group was changed meanwhile; send the request again")
        after = replace(found.group, name=_name_of(display))
        changed = groups.change(tx, found.group, after, caller.now, channel="scim")
        if not isinstance(changed, Group):
            conflict(f"there is a group {after.name} already")
        return changed

    def _name(self, tx: Transaction, caller: Caller, group: Group, wanted: Resource) -> None:
        external = short_text(wanted, "externalId")
        name = short_text(wanted, "displayName", required=True)
        if not _rows(tx, caller).name(group.id, name, external):
            conflict("another group has this displayName or externalId")

    def _shown(
        self, tx: Transaction, caller: Caller, found: ScimGroup, room: int
    ) -> tuple[Resource, int]:
        """Return the group, with its members if they are at most `room`, and how many."""
        group = found.group
        resource: Resource = {"schemas": [self.schema.urn], "id": group.id, **_described(found)}
        size = tx.groups.size(group, room + 1)
        listed = tx.groups.members(group, 0, room) if 0 < size <= room else ()
        if listed:
            resource["members"] = [
                {
                    "value": str(each.uid),
                    "$ref": f"{caller.base}/Users/{each.uid}",
                    "type": "User",
                }
                for each in listed
            ]
        location = f"{caller.base}/Groups/{group.id}"
        shown = with_meta(resource, "Group", location, group.created_at, None)
        if size > room and room < MOST_MEMBERS:
            # Its version counts members that are not listed here.
            del cast("Resource", shown["meta"])["version"]
        return shown, len(listed)


class _Members(Struct):
    """A change of a group's members; with `exact`, members that are not added are removed."""

    exact: bool = False
    adds: set[Uid] = field(default_factory=set[Uid])
    removes: set[Uid] = field(default_factory=set[Uid])

    def note(self, change: Change) -> None:
        """Add an operation of a PATCH request. Raises Refused."""
        path = change.path
        if path.part is not None:
            refuse("mutability", "parts of members cannot be changed")
        if path.selection is not None:
            if change.operator != "remove":
                refuse("noTarget", "members are added by their value")
            said = _selected(path.selection)
        else:
            said = _uids(change.value)
        if change.operator == "add":
            self.adds.update(said)
            self.removes.difference_update(said)
        elif change.operator == "remove" and (said or path.selection is not None):
            self.removes.update(said)
            self.adds.difference_update(said)
        else:
            self.exact, self.adds, self.removes = True, set(said), set()
        if len(self.adds) + len(self.removes) > MOST_MEMBERS:
            refuse("invalidValue", f"one request changes at most {MOST_MEMBERS} members")

    def hold(self, tx: Transaction, group: Group | None) -> None:
        """Lock the users concerned, the lower uid first, before anything is written."""
        if self.exact and group is not None:
            if tx.groups.size(group, MOST_MEMBERS + 1) > MOST_MEMBERS:
                refuse(
                    "tooMany",
                    f"a group with more than {MOST_MEMBERS} members is changed by adding and"
                    " removing members",
                )
            listed = tx.groups.members(group, 0, MOST_MEMBERS)
            self.removes = {Uid(each.uid) for each in listed} - self.adds
        for uid in sorted(self.adds | self.removes):
            tx.users.hold_alone(uid)

    def write(self, tx: Transaction, caller: Caller, group: Group) -> None:
        """Add and remove the locked users. Raises Refused."""
        removes = {uid for uid in self.removes if tx.groups.has(group, uid)}
        adds = {uid for uid in self.adds if not tx.groups.has(group, uid)}
        for uid in sorted(adds | removes):
            user = tx.users.find_to_change(uid)
            if user is None or tx.account_removals.is_done(uid):
                if uid in adds:
                    refuse("invalidValue", f"there is no user {uid}")
                continue
            require(tx, caller.actor, Permission.USERS, user)
            if uid in removes:
                groups.remove_member(tx, user, group, caller.now)
            else:
                groups.add_member(tx, user, group, caller.now)


def _rows(tx: Transaction, caller: Caller) -> ScimGroups:
    return tx.scim_groups(caller.actor.credential_id)


def _described(found: ScimGroup) -> Resource:
    said: Resource = {"displayName": _shown_name(found)}
    return {**said, "externalId": found.external_id} if found.external_id else said


def _shown_name(found: ScimGroup) -> str:
    return found.display_name or found.group.name


def _uids(members: object) -> Sequence[Uid]:
    found: list[Uid] = []
    for each in cast("list[Resource]", members or []):
        uid = uid_of(str(each.get("value", "")))
        if uid is None or str(each.get("type", "User")).lower() != "user":
            refuse("invalidValue", "members must be users, each with its id as value")
        found.append(uid)
    return found


def _selected(selection: Filter) -> Sequence[Uid]:
    found = candidates(selection, frozenset({"value"}))
    if found is None:
        refuse("invalidFilter", 'members are selected by their value: members[value eq "…"]')
    named = [str(each.value) for each in found if matches(selection, {"value": each.value})]
    return [uid for uid in map(uid_of, named) if uid is not None]


def _name_of(display: str) -> str:
    """Return the display name as a group name, without characters that group names cannot have."""
    plain = unicodedata.normalize("NFKD", display)
    bare = "".join(each for each in plain if not unicodedata.combining(each))
    name = _OTHER.sub("-", bare).strip("-._")[:_LONGEST_NAME]
    if not name:
        refuse("invalidValue", "displayName needs a letter or digit of ASCII")
    return name
