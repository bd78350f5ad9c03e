"""Groups of users, nested one level deep."""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from valetkey.authorization.model.user import MOST_OF_USER, Group, GroupMember, Uid
from valetkey.authorization.storage.administration import Applied, AppliedKind, member_part
from valetkey.authorization.storage.revision import change_memberships, touch
from valetkey.authorization.storage.search import MOST_LOOKED_AT, TimeCursor
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant, days

_SWEPT_AFTER = days(1)

# Names are ASCII: all of them are before this letter.
_AFTER_NAMES = "\x7f"


class Groups(Struct, frozen=True):
    """Groups and their members. Lists are bounded; a user's own groups are at most 400 names."""

    db: Connection
    random: Callable[[int], bytes]

    def find(self, name: str) -> Group | None:
        """Return the group of this name."""
        return GROUPS.find(
            self.db,
            "SELECT * FROM user_groups WHERE name = :name AND deleted_at IS NULL",
            name=name,
        )

    def find_by_id(self, group_id: str) -> Group | None:
        """Return the group of this id."""
        return GROUPS.find(
            self.db,
            "SELECT * FROM user_groups WHERE id = :id AND deleted_at IS NULL",
            id=group_id,
        )

    def find_to_change(self, name: str) -> Group | None:
        """Return the group, locked against other changes until the transaction ends."""
        held = self.db.run("UPDATE user_groups SET name = name WHERE name = :name", name=name)
        # A name that another group has taken meanwhile is not locked.
        return self.find(name) if held else None

    def hold(self, group: Group) -> bool:
        """Lock a group, under whichever name, until the transaction ends. False if it is gone."""
        held = self.db.run(
            "UPDATE user_groups SET name = name WHERE id = :id AND deleted_at IS NULL", id=group.id
        )
        return held == 1

    def list(self, after: str, limit: int, prefix: str = "", part: str = "") -> Sequence[Group]:
        """Return at most `limit` groups whose names follow `after` and begin with `prefix`.

        `part` is a part of the name or of the description, in upper or lower case.
        """
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE deleted_at IS NULL AND name > :after"
            " AND name >= :prefix AND name < :end AND (:part = ''"
            " OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(description), lower(:part), '') <> lower(description))"
            " ORDER BY name LIMIT :limit",
            after=after,
            prefix=prefix,
            part=part,
            end=f"{prefix}{_AFTER_NAMES}",
            limit=limit,
        )

    def matching(self, part: str, limit: int) -> Sequence[Group]:
        """Return at most `limit` of the first 2,000 groups by name; `part` as in `list`."""
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE id IN (SELECT id FROM user_groups"
            " WHERE deleted_at IS NULL ORDER BY name LIMIT :examined)"
            " AND (replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(description), lower(:part), '') <> lower(description))"
            " ORDER BY name LIMIT :limit",
            part=part,
            examined=MOST_LOOKED_AT,
            limit=limit,
        )

    def find_similar(self, name: str) -> Group | None:
        """Return one of the first 2,000 groups whose name differs from this one in case alone."""
        return GROUPS.find(
            self.db,
            "SELECT * FROM user_groups WHERE id IN (SELECT id FROM user_groups"
            " WHERE deleted_at IS NULL ORDER BY name LIMIT :examined)"
            " AND lower(name) = lower(:name) ORDER BY name LIMIT 1",
            name=name,
            examined=MOST_LOOKED_AT,
        )

    def list_descending(self, before: str, limit: int, part: str = "") -> Sequence[Group]:
        """Return at most `limit` groups whose names precede `before`, last first; "" for the end.

        `part` as in `list`.
        """
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE deleted_at IS NULL AND name < :before AND (:part = ''"
            " OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(description), lower(:part), '') <> lower(description))"
            " ORDER BY name DESC LIMIT :limit",
            before=before or _AFTER_NAMES,
            part=part,
            limit=limit,
        )

    def newest(self, before: TimeCursor, limit: int, part: str = "") -> Sequence[Group]:
        """Return at most `limit` groups, newest first, before a position; `part` as in `list`."""
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE deleted_at IS NULL"
            " AND (created_at < :at OR (created_at = :at AND id < :id)) AND (:part = ''"
            " OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(description), lower(:part), '') <> lower(description))"
            " ORDER BY created_at DESC, id DESC LIMIT :limit",
            at=before.at,
            id=before.id,
            part=part,
            limit=limit,
        )

    def oldest(self, after: TimeCursor, limit: int, part: str = "") -> Sequence[Group]:
        """Return at most `limit` groups, oldest first, after a position; `part` as in `list`."""
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE deleted_at IS NULL"
            " AND (created_at > :at OR (created_at = :at AND id > :id)) AND (:part = ''"
            " OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(description), lower(:part), '') <> lower(description))"
            " ORDER BY created_at, id LIMIT :limit",
            at=after.at,
            id=after.id,
            part=part,
            limit=limit,
        )

    def count(self, part: str, most: int) -> int:
        """Count the groups, up to `most`; `part` as in `list`."""
        row = self.db.row(
            "SELECT count(*) FROM (SELECT id FROM user_groups WHERE deleted_at IS NULL"
            " AND (:part = '' OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(description), lower(:part), '') <> lower(description))"
            " LIMIT :limit) AS counted",
            part=part,
            limit=most,
        )
        return 0 if row is None else int(row[0])

    def create(self, group: Group, parent_id: str) -> bool:
        """Create a group. False if the name is taken."""
        created = self.db.run(
            "INSERT INTO user_groups (id, name, description, parent_id, created_at)"
            " VALUES (:id, :name, :description, :parent_id, :created_at)"
            " ON CONFLICT (name) DO NOTHING",
            id=group.id,
            name=group.name,
            description=group.description,
            parent_id=parent_id,
            created_at=group.created_at,
        )
        return created == 1

    def rename(self, group: Group, name: str) -> bool:
        """Rename a group that is locked, after `Clients.hold_all`. False if the name is taken."""
        # An insertion waits for others of this name and does not fail: it reserves the name.
        reserved = self.db.run(
            "INSERT INTO user_groups (id, name, description, parent_id, created_at)"
            " VALUES (:id, :name, '', '', 0) ON CONFLICT (name) DO NOTHING",
            id=f"new name of {group.id}",
            name=name,
        )
        if not reserved:
            return False
        self.db.send("DELETE FROM user_groups WHERE id = :id", id=f"new name of {group.id}")
        self.db.send("UPDATE user_groups SET name = :name WHERE id = :id", id=group.id, name=name)
        touch(self.db)
        return True

    def move(self, group: Group, parent_id: str) -> None:
        """Put a group that is locked into another one, or into none for "".

        After `Clients.hold_all`.
        """
        touch(self.db)
        self.db.send(
            "UPDATE user_groups SET parent_id = :parent_id WHERE id = :id",
            id=group.id,
            parent_id=parent_id,
        )

    def describe(self, group: Group, description: str) -> None:
        """Change the description of a group that is locked."""
        self.db.send(
            "UPDATE user_groups SET description = :description WHERE id = :id",
            id=group.id,
            description=description,
        )

    def subgroups(self, group: Group, limit: int) -> Sequence[Group]:
        """Return at most `limit` groups that are in this one, by name."""
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE parent_id = :id AND parent_id <> ''"
            " ORDER BY name LIMIT :limit",
            id=group.id,
            limit=limit,
        )

    def has_groups(self, group: Group) -> bool:
        """Return whether other groups are in this one."""
        # The index has only groups that are in another one.
        row = self.db.row(
            "SELECT 1 FROM user_groups WHERE parent_id = :id AND parent_id <> '' LIMIT 1",
            id=group.id,
        )
        return row is not None

    def delete(self, group: Group, now: Instant) -> bool:
        """Delete a group, after `Clients.touch`; members are swept later. False if it is gone."""
        # With a space in it: a name that no group can have or take.
        deleted = self.db.run(
            "UPDATE user_groups SET name = :mark, parent_id = '', deleted_at = :now"
            " WHERE id = :id AND deleted_at IS NULL",
            id=group.id,
            mark=f"deleted {group.id}",
            now=now,
        )
        if deleted:
            touch(self.db)
        return deleted == 1

    def members(self, group: Group, after: int, limit: int) -> Sequence[GroupMember]:
        """Return at most `limit` direct members whose uids follow `after`, by uid."""
        return _MEMBERS.all(
            self.db,
            "SELECT * FROM group_members JOIN users ON users.uid = group_members.uid"
            " WHERE group_members.group_id = :id AND group_members.uid > :after"
            " ORDER BY group_members.uid LIMIT :limit",
            id=group.id,
            after=after,
            limit=limit,
        )

    def has_member(self, group: Group, uid: Uid) -> bool:
        """Return whether the user is a direct member."""
        row = self.db.row(
            "SELECT 1 FROM group_members WHERE uid = :uid AND group_id = :id",
            uid=uid,
            id=group.id,
        )
        return row is not None

    def size(self, group: Group, limit: int) -> int:
        """Count the direct members, up to `limit`."""
        row = self.db.row(
            "SELECT count(*) FROM (SELECT uid FROM group_members WHERE group_id = :id"
            " LIMIT :limit) AS counted",
            id=group.id,
            limit=limit,
        )
        return 0 if row is None else int(row[0])

    def add(self, group: Group, uid: Uid, now: Instant) -> bool:
        """Add a direct member. False if the user is one, or the group was deleted."""
        added = self.db.run(
            "INSERT INTO group_members (uid, group_id, since)"
            " SELECT :uid, id, :now FROM user_groups WHERE id = :id AND deleted_at IS NULL"
            " ON CONFLICT (uid, group_id) DO NOTHING",
            uid=uid,
            id=group.id,
            now=now,
        )
        if added:
            change_memberships(self.db, uid, self.random)
        return added == 1

    def remove(self, group: Group, uid: Uid) -> bool:
        """Remove a direct member. False if the user is none."""
        removed = self.db.run(
            "DELETE FROM group_members WHERE uid = :uid AND group_id = :id", uid=uid, id=group.id
        )
        if removed:
            Applied(self.db).release(AppliedKind.MEMBER, group.id, member_part(uid))
            change_memberships(self.db, uid, self.random)
        return removed == 1

    def direct(self, uid: Uid) -> Sequence[Group]:
        """Return the groups of which the user is a direct member, by name."""
        return GROUPS.all(
            self.db,
            "SELECT * FROM user_groups WHERE deleted_at IS NULL"
            " AND id IN (SELECT group_id FROM group_members WHERE uid = :uid)"
            " ORDER BY name LIMIT :limit",
            uid=uid,
            limit=MOST_OF_USER,
        )

    def direct_names(self, uid: Uid) -> Sequence[str]:
        """Return the names of the groups of which the user is a direct member, sorted."""
        return [group.name for group in self.direct(uid)]

    def names_of(self, uid: Uid) -> Sequence[str]:
        """Return the names of the user's groups and of the groups that these are in, sorted."""
        rows = self.db.rows(
            "SELECT g.name, coalesce(p.name, '') FROM group_members m"
            " JOIN user_groups g ON g.id = m.group_id AND g.deleted_at IS NULL"
            " LEFT JOIN user_groups p ON p.id = g.parent_id AND g.parent_id <> ''"
            " WHERE m.uid = :uid",
            uid=uid,
        )
        return sorted({name for row in rows for name in row if name})

    def admits(self, uid: Uid, *required: Collection[str]) -> bool:
        """Return whether the user is in one group of each of `required` that names any."""
        alternatives = [set(group_names) for group_names in required if group_names]
        if not alternatives:
            return True
        names = self.names_of(uid)
        return not any(alternative.isdisjoint(names) for alternative in alternatives)

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` members of groups deleted a day ago, then these groups."""
        before = now - _SWEPT_AFTER
        gone = self.db.run(
            "DELETE FROM group_members WHERE (uid, group_id) IN"
            " (SELECT m.uid, m.group_id FROM user_groups g"
            " JOIN group_members m ON m.group_id = g.id"
            " WHERE g.deleted_at <= :before LIMIT :limit)",
            before=before,
            limit=limit,
        )
        if gone:
            return gone
        self.db.run(
            "DELETE FROM group_roles WHERE (group_id, api_id, role) IN"
            " (SELECT r.group_id, r.api_id, r.role FROM user_groups g"
            " JOIN group_roles r ON r.group_id = g.id"
            " WHERE g.deleted_at <= :before LIMIT :limit)",
            before=before,
            limit=limit,
        )
        return self.db.run(
            "DELETE FROM user_groups WHERE id IN (SELECT g.id FROM user_groups g"
            " WHERE g.deleted_at <= :before AND NOT EXISTS"
            " (SELECT 1 FROM group_members m WHERE m.group_id = g.id) AND NOT EXISTS"
            " (SELECT 1 FROM group_roles r WHERE r.group_id = g.id) LIMIT :limit)",
            before=before,
            limit=limit,
        )


GROUPS = Record(
    Group,
    "user_groups",
    parent=Column(
        sql="coalesce((SELECT p.name FROM user_groups p WHERE p.id = user_groups.parent_id), '')"
    ),
)
_MEMBERS = Record(
    GroupMember,
    "group_members",
    username=Column(sql="users.username"),
    name=Column(sql="users.name"),
)
