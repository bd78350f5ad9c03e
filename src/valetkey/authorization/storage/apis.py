"""Stores of APIs (protected resources): scopes, which grants are for them, roles at them.

Roles of users and groups that an API no longer declares stay stored.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_type_hints

from msgspec import Struct, defstruct

from valetkey.authorization.model.api import Api, ApiGeneration, unqualified
from valetkey.authorization.model.user import Group, Uid
from valetkey.authorization.storage.administration import Applied, AppliedKind, role_part
from valetkey.authorization.storage.revision import change_memberships, hold_all, touch
from valetkey.authorization.storage.revocations import EndedGrant
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant

_SCOPE_FIELDS = ("scopes", "machine_scopes")
_COLUMNS = {name: kind for name, kind in get_type_hints(Api).items() if name not in _SCOPE_FIELDS}
_Stored: Any = defstruct(
    # The first column identifies the row.
    "_Stored",
    [("id", str), ("key", str), *((n, k) for n, k in _COLUMNS.items() if n != "id")],
)


class _StoredScope(Struct, frozen=True):
    """A scope of an API; one that users cannot allow has no sentence."""

    api_id: str
    name: str
    position: int
    sentence: str
    machine: bool


class Declaration(Struct, frozen=True):
    """An API that declares a scope, and whether it shares its scopes."""

    identifier: str
    shares_scopes: bool


class ApiUsage(Struct, frozen=True):
    """The number of apps that may call an API for users, and of grants."""

    apps: int
    authorizations: int


class _Granted(Struct, frozen=True):
    """The API of a grant, as the first or a later one, and its generation."""

    grant_id: str
    api_id: str
    position: int
    generation: int


_APIS: Record[Any] = Record(_Stored, "apis")
_SCOPES = Record(_StoredScope, "api_scopes", position=Column(name="place"))
_GRANTED = Record(_Granted, "grant_apis", position=Column(name="place"))
_DECLARATIONS = Record(Declaration, "apis")
_ENDED = Record(EndedGrant, "grants")


class Apis(Struct, frozen=True):
    """Store APIs. Changes bump the revision and block issuing, as those of clients do."""

    db: Connection

    def find(self, api_id: str) -> Api | None:
        """Return the API with this id, enabled or not."""
        row = _APIS.find(self.db, "SELECT * FROM apis WHERE id = :id", id=api_id)
        return None if row is None else self._api(row)

    def of_scopes(self, names: Iterable[str]) -> Sequence[Api]:
        """Return the APIs of these scopes of grants, in this order, without the default API."""
        owners = dict.fromkeys(unqualified(name)[0] for name in names)
        apis = [self.find(api_id) for api_id in owners if api_id]
        return [api for api in apis if api is not None]

    def find_by_key(self, key: str) -> Api | None:
        """Return the API whose identifier is compared as `key`, enabled or not."""
        row = _APIS.find(self.db, "SELECT * FROM apis WHERE key = :key", key=key)
        return None if row is None else self._api(row)

    def find_to_change(self, api_id: str) -> Api | None:
        """Return the API; nothing is issued and no API changes until the transaction ends."""
        hold_all(self.db)
        touch(self.db)
        return self.find(api_id)

    def hold_all(self) -> None:
        """Block issuing and other changes of APIs until the transaction ends."""
        hold_all(self.db)
        touch(self.db)

    def page(self, after: str, limit: int) -> Sequence[Api]:
        """Return at most `limit` APIs in the order of their identifiers, after `after`."""
        rows = _APIS.all(
            self.db,
            "SELECT * FROM apis WHERE key > :after ORDER BY key LIMIT :limit",
            after=after,
            limit=limit,
        )
        return [self._api(row) for row in rows]

    def identifiers(self, limit: int) -> Sequence[str]:
        """Return the identifiers of at most `limit` enabled APIs."""
        rows = self.db.rows(
            "SELECT identifier FROM apis WHERE disabled_at IS NULL ORDER BY key LIMIT :limit",
            limit=limit,
        )
        return [identifier for (identifier,) in rows]

    def declaring(self, name: str, but: str) -> Sequence[Declaration]:
        """Return which APIs except `but` declare the scope."""
        return _DECLARATIONS.all(
            self.db,
            "SELECT * FROM apis JOIN api_scopes ON api_scopes.api_id = apis.id"
            " WHERE api_scopes.name = :name AND apis.id <> :but ORDER BY apis.key",
            name=name,
            but=but,
        )

    def requiring_group(self, name: str, limit: int) -> Sequence[Api]:
        """Return at most `limit` APIs that require the group of this name. Reads every row."""
        rows = _APIS.all(
            self.db,
            "SELECT * FROM apis WHERE replace(' ' || required_groups || ' ', :name, '')"
            " <> ' ' || required_groups || ' ' ORDER BY id LIMIT :limit",
            name=f" {name} ",
            limit=limit,
        )
        return [self._api(row) for row in rows]

    def has_machine_scope(self, name: str) -> bool:
        """Return whether any API declares this scope for clients' own access."""
        row = self.db.row(
            "SELECT name FROM api_scopes WHERE name = :name AND machine = 1 LIMIT 1", name=name
        )
        return row is not None

    def add(self, api: Api, key: str) -> bool:
        """Add an API; False if its identifier is taken. Call `hold_all` first."""
        added = _APIS.run(
            self.db,
            "INSERT INTO apis (*) VALUES (*) ON CONFLICT DO NOTHING",
            _stored(api, key),
        )
        if added:
            self._write_scopes(api)
        return added == 1

    def change(self, api: Api, key: str) -> None:
        """Write everything about it. Call `find_to_change` first."""
        _APIS.run(self.db, "UPDATE apis SET * WHERE id = :id", _stored(api, key))
        self.db.run("DELETE FROM api_scopes WHERE api_id = :id", id=api.id)
        self._write_scopes(api)

    def disable(self, api_id: str, now: Instant) -> None:
        """Disable it in a new generation. Call `find_to_change` first."""
        self.db.run(
            "UPDATE apis SET disabled_at = :now, changed_at = :now, generation = generation + 1"
            " WHERE id = :id",
            id=api_id,
            now=now,
        )

    def enable(self, api_id: str, now: Instant) -> None:
        """Enable it. Call `find_to_change` first."""
        self.db.run(
            "UPDATE apis SET disabled_at = NULL, changed_at = :now WHERE id = :id",
            id=api_id,
            now=now,
        )

    def remove(self, api_id: str) -> None:
        """Delete it. Call `find_to_change` first."""
        self.db.run("DELETE FROM apis WHERE id = :id", id=api_id)

    def grant(self, grant_id: str, apis: Sequence[ApiGeneration]) -> None:
        """Record for which APIs a new grant is."""
        for position, (api_id, generation) in enumerate(apis):
            _GRANTED.send(
                self.db,
                "INSERT INTO grant_apis (*) VALUES (*)",
                _Granted(grant_id, api_id, position, generation),
            )

    def granted(self, grant_id: str) -> Sequence[ApiGeneration]:
        """Return for which APIs the grant was given, those that ended among them.

        In the order of the request; empty for the default API alone.
        """
        rows = _GRANTED.all(
            self.db,
            "SELECT * FROM grant_apis WHERE grant_id = :id ORDER BY place",
            id=grant_id,
        )
        return [(row.api_id, row.generation) for row in rows]

    def ended_grants(self, api_id: str, limit: int) -> Sequence[EndedGrant]:
        """Return at most `limit` grants that were given for the API and have not left it yet."""
        grants = _ENDED.all(
            self.db,
            "SELECT * FROM grant_apis a JOIN grants ON grants.id = a.grant_id"
            " WHERE a.api_id = :id AND a.generation >= 0 AND a.generation <"
            " COALESCE((SELECT generation FROM apis WHERE id = :id), a.generation + 1)"
            " LIMIT :limit",
            id=api_id,
            limit=limit,
        )
        return sorted(grants, key=lambda grant: grant.id)

    def usage_of(self, api_id: str, now: Instant) -> ApiUsage:
        """Return how many apps and grants have the API now."""
        row = self.db.row(
            "SELECT COUNT(DISTINCT g.client_id), COUNT(*) FROM grant_apis a"
            " JOIN live_grants g ON g.id = a.grant_id"
            " WHERE a.api_id = :id AND a.generation = (SELECT generation FROM apis WHERE id = :id)"
            " AND g.ends_at > :now",
            id=api_id,
            now=now,
        )
        return ApiUsage(0, 0) if row is None else ApiUsage(*row)

    def leave(self, grant_id: str, api_id: str) -> bool:
        """Take the API out of the grant. Return whether that leaves nothing of the grant."""
        self.db.run(
            "UPDATE grant_apis SET generation = -1 WHERE grant_id = :grant_id AND api_id = :api_id",
            grant_id=grant_id,
            api_id=api_id,
        )
        left = self.db.row(
            "SELECT a.api_id FROM grant_apis a LEFT JOIN apis p ON p.id = a.api_id"
            " WHERE a.grant_id = :grant_id AND (a.api_id = '' OR p.generation = a.generation)"
            " LIMIT 1",
            grant_id=grant_id,
        )
        return left is None

    def _write_scopes(self, api: Api) -> None:
        for position, name in enumerate(dict.fromkeys((*api.scopes, *api.machine_scopes))):
            stored = _StoredScope(
                api.id, name, position, api.scopes.get(name, ""), name in api.machine_scopes
            )
            _SCOPES.run(self.db, "INSERT INTO api_scopes (*) VALUES (*)", stored)

    def _api(self, stored: Struct) -> Api:
        values = {name: getattr(stored, name) for name in _COLUMNS}
        scopes = _SCOPES.all(
            self.db, "SELECT * FROM api_scopes WHERE api_id = :id ORDER BY place", id=values["id"]
        )
        return Api(
            scopes={scope.name: scope.sentence for scope in scopes if scope.sentence},
            machine_scopes=tuple(scope.name for scope in scopes if scope.machine),
            **values,
        )


def _stored(api: Api, key: str) -> Any:
    return _Stored(key=key, **{name: getattr(api, name) for name in _COLUMNS})


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
