"""Roles at APIs, of users and of groups. Those no longer declared stay stored."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.authorization.model.account.scim import Group
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.storage.register.applied import Applied, AppliedKind, role_part
from valetkey.authorization.storage.revision import change_memberships, touch
from valetkey.database.engine import Connection


class Memberships(Struct, frozen=True):
    """The names of a user's groups, with those that contain them, and roles at one API.

    Both sorted; not only roles that the API still declares.
    """

    groups: Sequence[str]
    roles: Sequence[str]


class AssignedRole(Struct, frozen=True, order=True):
    """A role at an API; `by` is the group that gives it, "" for a role of the user's own."""

    api: str
    role: str
    by: str
    api_id: str


class ApiWithRoles(Struct, frozen=True):
    """An API and the roles that it declares."""

    id: str
    name: str
    roles: Sequence[str]


class ApiRoles(Struct, frozen=True):
    """Store the roles of users and groups at APIs, one row each."""

    db: Connection
    random: Callable[[int], bytes]

    def memberships(self, uid: Uid, api_id: str) -> Memberships:
        """Return the user's groups, and the roles at the API that they or their groups have.

        The result can be kept while `User.membership_number` and `revision` are the same.
        """
        groups: set[str] = set()
        roles: set[str] = set()
        for group, parent, role in self.db.rows(
            "SELECT g.name, coalesce(p.name, ''), r.role FROM group_members m"
            " JOIN user_groups g ON g.id = m.group_id AND g.deleted_at IS NULL"
            " LEFT JOIN user_groups p ON p.id = g.parent_id AND g.parent_id <> ''"
            " LEFT JOIN group_roles r ON r.group_id IN (g.id, g.parent_id)"
            " AND r.api_id = :api_id"
            " WHERE m.uid = :uid UNION ALL SELECT '', '', role FROM user_roles"
            " WHERE uid = :uid AND api_id = :api_id",
            uid=uid,
            api_id=api_id,
        ):
            groups |= {group, parent}
            roles.add(role)
        return Memberships(sorted(groups - {""}), sorted(roles - {None}))

    def of_user(self, uid: Uid, limit: int) -> Sequence[AssignedRole]:
        """Return at most `limit` roles that the user or the user's groups have, by API."""
        rows = self.db.rows(
            "SELECT a.name, r.role, '', a.id FROM user_roles r JOIN apis a ON a.id = r.api_id"
            " WHERE r.uid = :uid"
            " UNION SELECT a.name, r.role, g.name, a.id FROM group_members m"
            " JOIN user_groups d ON d.id = m.group_id AND d.deleted_at IS NULL"
            " JOIN user_groups g ON g.id IN (d.id, d.parent_id)"
            " JOIN group_roles r ON r.group_id = g.id JOIN apis a ON a.id = r.api_id"
            " WHERE m.uid = :uid LIMIT :limit",
            uid=uid,
            limit=limit,
        )
        return sorted(AssignedRole(*row) for row in rows)

    def of_group(self, group: Group, limit: int) -> Sequence[AssignedRole]:
        """Return at most `limit` roles of the group and of the group that it is in, by API."""
        rows = self.db.rows(
            "SELECT a.name, r.role, g.name, a.id FROM user_groups d"
            " JOIN user_groups g ON g.id IN (d.id, d.parent_id)"
            " JOIN group_roles r ON r.group_id = g.id JOIN apis a ON a.id = r.api_id"
            " WHERE d.id = :id LIMIT :limit",
            id=group.id,
            limit=limit,
        )
        return sorted(AssignedRole(*row) for row in rows)

    def group_has_any(self, group: Group) -> bool:
        """Return whether the group itself has a role at any API."""
        row = self.db.row("SELECT 1 FROM group_roles WHERE group_id = :id LIMIT 1", id=group.id)
        return row is not None

    def declared(self, limit: int) -> Sequence[ApiWithRoles]:
        """Return at most `limit` APIs that declare roles, by name. Reads every API."""
        rows = self.db.rows(
            "SELECT id, name, roles FROM apis WHERE roles <> '' ORDER BY name, id LIMIT :limit",
            limit=limit,
        )
        return [ApiWithRoles(api_id, name, roles.split()) for api_id, name, roles in rows]

    def assign(self, uid: Uid, api_id: str, role: str) -> bool:
        """Give the user the role. False if they have it."""
        added = self.db.run(
            "INSERT INTO user_roles (uid, api_id, role) VALUES (:uid, :api_id, :role)"
            " ON CONFLICT (uid, api_id, role) DO NOTHING",
            uid=uid,
            api_id=api_id,
            role=role,
        )
        if added:
            change_memberships(self.db, uid, self.random)
        return added == 1

    def withdraw(self, uid: Uid, api_id: str, role: str) -> bool:
        """Take the role from the user. False if they do not have it themselves."""
        removed = self.db.run(
            "DELETE FROM user_roles WHERE uid = :uid AND api_id = :api_id AND role = :role",
            uid=uid,
            api_id=api_id,
            role=role,
        )
        if removed:
            Applied(self.db).release(AppliedKind.ROLE, api_id, role_part(role, uid))
            change_memberships(self.db, uid, self.random)
        return removed == 1

    def assign_group(self, group: Group, api_id: str, role: str) -> bool:
        """Give the members of the group the role, after `Clients.touch`. False if they have it."""
        added = self.db.run(
            "INSERT INTO group_roles (group_id, api_id, role) VALUES (:id, :api_id, :role)"
            " ON CONFLICT (group_id, api_id, role) DO NOTHING",
            id=group.id,
            api_id=api_id,
            role=role,
        )
        if added:
            touch(self.db)
        return added == 1

    def withdraw_group(self, group: Group, api_id: str, role: str) -> bool:
        """Take the role from the group's members, after `Clients.touch`. False if it has none."""
        removed = self.db.run(
            "DELETE FROM group_roles WHERE group_id = :id AND api_id = :api_id AND role = :role",
            id=group.id,
            api_id=api_id,
            role=role,
        )
        if removed:
            Applied(self.db).release(AppliedKind.ROLE, api_id, role_part(role, group.id))
            touch(self.db)
        return removed == 1

    def users(self, api_id: str, role: str, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Return uid and username of at most `limit` users with the role themselves, by uid."""
        rows = self.db.rows(
            "SELECT users.uid, users.username FROM user_roles r JOIN users ON users.uid = r.uid"
            " WHERE r.api_id = :api_id AND r.role = :role AND r.uid > :after"
            " ORDER BY r.uid LIMIT :limit",
            api_id=api_id,
            role=role,
            after=after,
            limit=limit,
        )
        return [(int(uid), str(username)) for uid, username in rows]

    def groups(self, api_id: str, role: str, limit: int) -> Sequence[str]:
        """Return the names of at most `limit` groups with the role, sorted."""
        rows = self.db.rows(
            "SELECT g.name FROM group_roles r JOIN user_groups g ON g.id = r.group_id"
            " WHERE r.api_id = :api_id AND r.role = :role AND g.deleted_at IS NULL"
            " ORDER BY g.name LIMIT :limit",
            api_id=api_id,
            role=role,
            limit=limit,
        )
        return [str(row[0]) for row in rows]
