"""Store of APIs (protected resources), their scopes, and which grants are for them."""

from collections.abc import Iterable, Sequence
from typing import Any, get_type_hints

from msgspec import Struct, defstruct

from valetkey.authorization.model.register.api import Api, ApiGeneration, unqualified
from valetkey.authorization.storage.revision import hold_all, touch
from valetkey.authorization.storage.tokens.bulk_revocations import EndedGrant
from valetkey.database.engine import Connection
from valetkey.database.record import Record
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
    place: int
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
    place: int
    generation: int


_APIS: Record[Any] = Record(_Stored, "apis")
_SCOPES = Record(_StoredScope, "api_scopes")
_GRANTED = Record(_Granted, "grant_apis")
_DECLARATIONS = Record(Declaration, "apis")
_ENDED = Record(EndedGrant, "grants")


class Apis(Struct, frozen=True):
    """Store APIs. Changes bump the revision and block issuing, as those of clients do."""

    db: Connection

    def find(self, api_id: str) -> Api | None:
        """Return the API with this id, enabled or not."""
        found = _APIS.find(self.db, "SELECT * FROM apis WHERE id = :id", id=api_id)
        return None if found is None else self._api(found)

    def of_scopes(self, names: Iterable[str]) -> Sequence[Api]:
        """Return the APIs of these scopes of grants, in this order, without the default API."""
        owners = dict.fromkeys(unqualified(name)[0] for name in names)
        found = [self.find(api_id) for api_id in owners if api_id]
        return [api for api in found if api is not None]

    def find_by_key(self, key: str) -> Api | None:
        """Return the API whose identifier is compared as `key`, enabled or not."""
        found = _APIS.find(self.db, "SELECT * FROM apis WHERE key = :key", key=key)
        return None if found is None else self._api(found)

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
        found = _APIS.all(
            self.db,
            "SELECT * FROM apis WHERE key > :after ORDER BY key LIMIT :limit",
            after=after,
            limit=limit,
        )
        return [self._api(each) for each in found]

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
        found = _APIS.all(
            self.db,
            "SELECT * FROM apis WHERE replace(' ' || required_groups || ' ', :name, '')"
            " <> ' ' || required_groups || ' ' ORDER BY id LIMIT :limit",
            name=f" {name} ",
            limit=limit,
        )
        return [self._api(each) for each in found]

    def has_machine_scope(self, name: str) -> bool:
        """Return whether any API declares this scope for clients' own access."""
        found = self.db.row(
            "SELECT name FROM api_scopes WHERE name = :name AND machine = 1 LIMIT 1", name=name
        )
        return found is not None

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
        for place, (api_id, generation) in enumerate(apis):
            _GRANTED.send(
                self.db,
                "INSERT INTO grant_apis (*) VALUES (*)",
                _Granted(grant_id, api_id, place, generation),
            )

    def granted(self, grant_id: str) -> Sequence[ApiGeneration]:
        """Return for which APIs the grant was given, those that ended among them.

        In the order of the request; empty for the default API alone.
        """
        found = _GRANTED.all(
            self.db,
            "SELECT * FROM grant_apis WHERE grant_id = :id ORDER BY place",
            id=grant_id,
        )
        return [(each.api_id, each.generation) for each in found]

    def ended_grants(self, api_id: str, limit: int) -> Sequence[EndedGrant]:
        """Return at most `limit` grants that were given for the API and have not left it yet."""
        found = _ENDED.all(
            self.db,
            "SELECT * FROM grant_apis a JOIN grants ON grants.id = a.grant_id"
            " WHERE a.api_id = :id AND a.generation >= 0 AND a.generation <"
            " COALESCE((SELECT generation FROM apis WHERE id = :id), a.generation + 1)"
            " LIMIT :limit",
            id=api_id,
            limit=limit,
        )
        return sorted(found, key=lambda grant: grant.id)

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
        for place, name in enumerate(dict.fromkeys((*api.scopes, *api.machine_scopes))):
            stored = _StoredScope(
                api.id, name, place, api.scopes.get(name, ""), name in api.machine_scopes
            )
            _SCOPES.run(self.db, "INSERT INTO api_scopes (*) VALUES (*)", stored)

    def _api(self, stored: Struct) -> Api:
        values = {name: getattr(stored, name) for name in _COLUMNS}
        scopes = _SCOPES.all(
            self.db, "SELECT * FROM api_scopes WHERE api_id = :id ORDER BY place", id=values["id"]
        )
        return Api(
            scopes={each.name: each.sentence for each in scopes if each.sentence},
            machine_scopes=tuple(each.name for each in scopes if each.machine),
            **values,
        )


def _stored(api: Api, key: str) -> Any:
    return _Stored(key=key, **{name: getattr(api, name) for name in _COLUMNS})
