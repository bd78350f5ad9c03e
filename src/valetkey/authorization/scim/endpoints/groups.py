"""Groups as SCIM resources. Members change one by one, so that large groups are never rewritten."""

from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct, field

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.model.user import Group, Uid, uid_of
from valetkey.authorization.operations.groups import (
    CREATE_GROUP,
    DELETE_GROUP,
    create_group,
    delete_group,
)
from valetkey.authorization.operations.operation import call_of
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.scim.endpoints.filter import (
    Change,
    Compare,
    Filter,
    Or,
    apply,
    candidates,
    comparisons,
    matches,
    read_changes,
)
from valetkey.authorization.scim.endpoints.message import Caller, ScimRequest, View, with_meta
from valetkey.authorization.scim.endpoints.schema import (
    LeftOut,
    Resource,
    Schema,
    conflict,
    external_id,
    left_out_text,
    refuse,
    restored,
    short_text,
    still_left_out,
)
from valetkey.authorization.scim.endpoints.users import group_names, not_found
from valetkey.authorization.scim.storage import (
    ScimGroup,
    ScimGroups,
    ScimValuesIgnored,
    scim_groups,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace

MOST_MEMBERS = 1_000
"""Maximum number of members in one response, and in one request that replaces them."""


class Groups(Struct, frozen=True):
    """Groups as SCIM resources. Its methods run inside a transaction."""

    schema: Schema
    plural: str = "Groups"
    indexed: frozenset[str] = frozenset({"id", "displayName", "externalId", "members.value"})

    def one(self, tx: Transaction, caller: Caller, id: str, view: View) -> Resource | None:
        """Return a group with its members, and with what the caller's directory stored of it."""
        del view
        scim_group = _rows(tx, caller).find(id)
        return None if scim_group is None else self._shown(tx, caller, scim_group, MOST_MEMBERS)[0]

    def some(
        self, tx: Transaction, caller: Caller, view: View, ids: Sequence[str]
    ) -> Sequence[Resource]:
        """Return those of these groups that exist, with at most 1,000 members in all."""
        rows = [_rows(tx, caller).find(group_id) for group_id in ids]
        return self._all(
            tx, caller, view, [scim_group for scim_group in rows if scim_group is not None]
        )

    def page(
        self, tx: Transaction, caller: Caller, view: View, offset: int, limit: int, *, back: bool
    ) -> Sequence[Resource]:
        """Return some groups by id, with at most 1,000 members in all."""
        rows = _rows(tx, caller)
        listed_groups = rows.page(offset, limit, back=back)
        return self._all(tx, caller, view, listed_groups)

    def _all(
        self, tx: Transaction, caller: Caller, view: View, listed_groups: Sequence[ScimGroup]
    ) -> Sequence[Resource]:
        room = MOST_MEMBERS if view.shows("members") else 0
        shown: list[Resource] = []
        for scim_group in listed_groups:
            resource, used = self._shown(tx, caller, scim_group, room)
            room -= used
            shown.append(resource)
        return shown

    def count(self, tx: Transaction, caller: Caller) -> int:
        """Count all groups, up to a million, for the `totalResults` of a list without a filter."""
        return _rows(tx, caller).count()

    def candidates(self, tx: Transaction, caller: Caller, resource: Compare) -> Sequence[str]:
        """Return the ids that an index has for an equality."""
        rows, text = _rows(tx, caller), str(resource.value)
        if resource.name == "id":
            return [text]
        if resource.name == "externalId":
            ids = [rows.external(text)]
        elif resource.name == "displayName":
            group = tx.groups.find(text)
            ids = [rows.named(text), group.id if group else None]
        else:
            uid = uid_of(text)
            ids = (
                [direct_group.id for direct_group in tx.groups.direct(uid)]
                if uid is not None
                else []
            )
        return [group_id for group_id in ids if group_id is not None]

    def filtering(self, tx: Transaction, condition: Filter) -> Callable[[Resource], bool]:
        """Return whether the filter holds for a group.

        Of the members only those that it names are looked up, once for all groups.
        """
        members = [
            comparison
            for comparison in comparisons(condition)
            if comparison.path[0].name == "members"
        ]
        if any(
            comparison.operator != "eq" or comparison.name != "members.value"
            for comparison in members
        ):
            refuse("invalidFilter", "members are compared with eq alone")
        of = {
            text: {group.id for group in tx.groups.direct(uid)}
            for text in {str(comparison.value) for comparison in members}
            if (uid := uid_of(text)) is not None
        }

        def fits(resource: Resource) -> bool:
            are = [{"value": text} for text, ids in of.items() if resource["id"] in ids]
            return matches(condition, {**resource, "members": are})

        return fits

    def creating(self, request: ScimRequest) -> Callable[[Transaction], str]:
        """Read the request; return the work that creates the group and returns the id.

        Both raise Refused.
        """
        unread = LeftOut()
        resource = self._read(request.body, unread)
        adds = _uids(resource.get("members"), unread)
        return lambda tx: self._create(
            tx, request.caller, resource, _Members(adds=set(adds)), unread
        )

    def replacing(self, request: ScimRequest) -> Callable[[Transaction, str], None]:
        """Read the request; return the work that replaces the group (section 3.5.1)."""
        unread = LeftOut()
        resource = self._read(request.body, unread)
        adds = _uids(resource.get("members"), unread)

        def replace_group(tx: Transaction, id: str) -> None:
            members, left = _Members(exact=True, adds=set(adds)), set(unread)
            before = _rows(tx, request.caller).find(id)
            renames = before is not None and _shown_name(before) != resource.get("displayName")
            scim_group = self._held(tx, request, id, members, renames=renames)
            after = restored(resource, _described(scim_group), left)
            group = self._rename(tx, request.caller, scim_group, after, held=renames)
            members.write(tx, request.caller, group, left)
            self._name(tx, request.caller, replace(scim_group, group=group), after, left)

        return replace_group

    def patching(self, request: ScimRequest) -> Callable[[Transaction, str], None]:
        """Read the request; return the work that applies its operations (section 3.5.2)."""
        unread, noted = LeftOut(), _Members()
        others: list[Change] = []
        touched: set[str] = set()
        for change in read_changes(request.body, self.schema, unread):
            touched.add(change.path.attribute.name)
            if change.path.attribute.name == "members":
                noted.add(change, unread)
            else:
                others.append(change)
        renames = "displayName" in touched

        def patch_group(tx: Transaction, id: str) -> None:
            members, left = noted.copy(), set(unread)
            scim_group = self._held(tx, request, id, members, renames=renames)
            before, group = _described(scim_group), scim_group.group
            after = apply(before, others, left)
            stays = still_left_out(scim_group.left_out, touched)
            if after != before:
                group = self._rename(tx, request.caller, scim_group, after, held=renames)
            members.write(tx, request.caller, group, left)
            if after != before or left or stays != scim_group.left_out:
                self._name(tx, request.caller, replace(scim_group, group=group), after, left, stays)

        return patch_group

    def delete(self, tx: Transaction, request: ScimRequest, id: str) -> None:
        """Delete the group, as the console does. Raises Refused: conflict if it has groups."""
        tx.clients.touch()
        caller, group = request.caller, self._held(tx, request, id, _Members()).group
        call = call_of(caller.services, DELETE_GROUP, caller.actor, caller.now)
        delete_group(tx, replace(call, arguments={"group": group.name}))

    def _read(self, body: object, left: LeftOut) -> Resource:
        resource = self.schema.read(body, left)
        short_text(resource, "displayName")
        return resource

    def _create(
        self,
        tx: Transaction,
        caller: Caller,
        resource: Resource,
        members: "_Members",
        unread: LeftOut,
    ) -> str:
        require(tx, caller.actor, Permission.USERS)
        members.hold(tx, None)
        left, display = set(unread), short_text(resource, "displayName")
        _require_free(tx, caller, display)
        group = _create(tx, caller, display)
        members.write(tx, caller, group, left)
        self._name(tx, caller, ScimGroup(group, "", ""), resource, left)
        return group.id

    def _held(
        self,
        tx: Transaction,
        request: ScimRequest,
        id: str,
        members: "_Members",
        *,
        renames: bool = False,
    ) -> ScimGroup:
        """Return the group, locked until the commit with the users whose membership changes."""
        caller = request.caller
        if renames:
            # First: apps are judged by the group's name.
            tx.clients.hold_all()
        require(tx, caller.actor, Permission.USERS)
        scim_group = _rows(tx, caller).find(id)
        if scim_group is None:
            raise not_found()
        members.hold(tx, scim_group.group)
        scim_group = _rows(tx, caller).find(id) if tx.groups.hold(scim_group.group) else None
        if scim_group is None:
            raise not_found()
        if request.preconditions.match is not None or request.preconditions.none_match is not None:
            meta = cast("Resource", self._shown(tx, caller, scim_group, MOST_MEMBERS)[0]["meta"])
            request.preconditions.check(str(meta["version"]))
        return scim_group

    def _rename(
        self,
        tx: Transaction,
        caller: Caller,
        scim_group: ScimGroup,
        resource: Resource,
        *,
        held: bool,
    ) -> Group:
        """Give the group the name of a changed displayName. `held` is whether its lock is taken."""
        display = short_text(resource, "displayName")
        if display == _shown_name(scim_group):
            return scim_group.group
        if not held:
            conflict("the group was changed meanwhile; send the request again")
        _require_free(tx, caller, display, but=scim_group.group)
        for name in group_names(display):
            after = replace(scim_group.group, name=name)
            changed = groups.change(tx, scim_group.group, after, caller.now, channel="scim")
            if isinstance(changed, Group):
                return changed
        return conflict(f"no name is free for the group {display}")

    def _name(
        self,
        tx: Transaction,
        caller: Caller,
        scim_group: ScimGroup,
        resource: Resource,
        left: LeftOut,
        stays: str = "",
    ) -> None:
        """Store the directory's names of the group, and the names of what was left out."""
        rows, group = _rows(tx, caller), scim_group.group
        name, external = (
            short_text(resource, "displayName"),
            external_id(resource, scim_group, left),
        )

        def write(external: str) -> bool:
            return rows.name(group.id, name, external, left_out=left_out_text(left, stays))

        if not write(external):
            is_new = not scim_group.display_name
            left.add(("externalId",))
            if is_new or not write(scim_group.external_id):
                conflict("another group has this displayName or externalId")
        text = left_out_text(left, stays)
        if left and text != scim_group.left_out:
            names = tuple(text.split(", "))
            event = ScimValuesIgnored(caller.actor.credential_id, names, group=group.name)
            tx.events.add(event, caller.now)

    def _shown(
        self, tx: Transaction, caller: Caller, scim_group: ScimGroup, room: int
    ) -> tuple[Resource, int]:
        """Return the group, with its members if they are at most `room`, and how many."""
        group = scim_group.group
        resource: Resource = {
            "schemas": [self.schema.urn],
            "id": group.id,
            **_described(scim_group),
        }
        size = tx.groups.size(group, room + 1)
        listed = tx.groups.members(group, 0, room) if 0 < size <= room else ()
        if listed:
            resource["members"] = [
                {
                    "value": str(member.uid),
                    "$ref": f"{caller.base}/Users/{member.uid}",
                    "type": "User",
                }
                for member in listed
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

    def copy(self) -> "_Members":
        """Return a copy for one run of the transaction."""
        return _Members(self.exact, set(self.adds), set(self.removes))

    def add(self, change: Change, left: LeftOut) -> None:
        """Add an operation of a PATCH request. Raises Refused."""
        path = change.path
        if path.part is not None or (path.selection is not None and change.operator != "remove"):
            # Members are added by their value, and have nothing else.
            left.add(("members",))
            return
        if path.selection is not None:
            selected = _selected(path.selection)
        else:
            selected = _uids(change.value, left)
        if change.operator == "add":
            self.adds.update(selected)
            self.removes.difference_update(selected)
        elif change.operator == "remove" and (selected or path.selection is not None):
            self.removes.update(selected)
            self.adds.difference_update(selected)
        else:
            self.exact, self.adds, self.removes = True, set(selected), set()
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
            self.removes = {Uid(member.uid) for member in listed} - self.adds
        for uid in sorted(self.adds | self.removes):
            tx.users.hold_alone(uid)

    def write(self, tx: Transaction, caller: Caller, group: Group, left: LeftOut) -> None:
        """Add and remove the locked users, without those who are unknown or have a role.

        Raises Refused if users with a role are all that it concerns.
        """
        removes = {uid for uid in self.removes if tx.groups.has_member(group, uid)}
        adds = {uid for uid in self.adds if not tx.groups.has_member(group, uid)}
        protected, changes = None, 0
        for uid in sorted(adds | removes):
            user = tx.users.find_to_change(uid)
            if user is None or tx.account_removals.is_done(uid):
                if uid in adds:
                    left.add(("members",))
                continue
            try:
                require(tx, caller.actor, Permission.USERS, user)
            except Refused as refused:
                left.add(("members",))
                protected = refused
                continue
            changes += 1
            if uid in removes:
                groups.remove_member(tx, user, group, caller.now)
            else:
                groups.add_member(tx, user, group, caller.now)
        if protected is not None and not changes:
            raise protected


def _require_free(tx: Transaction, caller: Caller, display: str, but: Group | None = None) -> None:
    """Raise Refused (uniqueness) if the directory sees another group of this display name."""
    rows, same = _rows(tx, caller), tx.groups.find(display)
    ids = {rows.named(display)}
    if same is not None and (shown := rows.find(same.id)) and not shown.display_name:
        ids.add(same.id)
    if ids - {None, but.id if but is not None else None}:
        conflict(f"there is a group {display} already")


def _create(tx: Transaction, caller: Caller, display: str) -> Group:
    for name in group_names(display):
        call = call_of(
            caller.services, CREATE_GROUP, caller.actor, caller.now, body=GroupWanted(name)
        )
        is_free = tx.groups.find(name) is None and not isinstance(create_group(tx, call), tuple)
        if is_free and (group := tx.groups.find(name)) is not None:
            return group
    return conflict(f"no name is free for the group {display}")


def _rows(tx: Transaction, caller: Caller) -> ScimGroups:
    return scim_groups(tx, caller.actor.credential_id)


def _described(scim_group: ScimGroup) -> Resource:
    resource: Resource = {"displayName": _shown_name(scim_group)}
    return (
        {**resource, "externalId": scim_group.external_id} if scim_group.external_id else resource
    )


def _shown_name(scim_group: ScimGroup) -> str:
    return scim_group.display_name or scim_group.group.name


def _uids(members: object, left: LeftOut) -> Sequence[Uid]:
    """Return the members that are users."""
    uids: list[Uid] = []
    for member in cast("list[Resource]", members or []):
        uid = uid_of(str(member.get("value", "")))
        if uid is None or str(member.get("type", "User")).lower() != "user":
            left.add(("members",))
        else:
            uids.append(uid)
    return uids


def _selected(selection: Filter) -> Sequence[Uid]:
    """Return the users that the filter of a path selects, such as `value eq "7"`."""
    if isinstance(selection, Or):
        return [uid for part in selection.parts for uid in _selected(part)]
    equalities = candidates(selection, frozenset({"value"}))
    if equalities is None:
        refuse("invalidFilter", 'members are selected by their value: members[value eq "…"]')
    named = [{"value": str(equality.value), "type": "User"} for equality in equalities]
    selected = [member["value"] for member in named if matches(selection, cast("Resource", member))]
    return [uid for uid in map(uid_of, selected) if uid is not None]
