"""What the apps of one user may do: summed up by the database, however many grants there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.storage.grants import grant_of
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Access:
    """The live grants between one user and one client. `outlasts`: one ends with no session."""

    since: Instant
    last_used_at: Instant
    outlasts: bool


@dataclass(frozen=True, slots=True)
class Connected:
    """Live grants of a user: neither they nor the session that they are bound to has ended."""

    db: Connection

    def of_user(self, uid: Uid, now: Instant, limit: int) -> Mapping[str, Access]:
        """The access of at most `limit` clients, by id: those that were used last."""
        rows = self.db.rows(
            "SELECT g.client_id, MIN(g.created_at), MAX(g.last_used_at),"
            " SUM(CASE WHEN g.session_id = '' THEN 1 ELSE 0 END)"
            " FROM grants g JOIN users u ON u.uid = g.uid JOIN clients c ON c.id = g.client_id"
            " LEFT JOIN sessions s ON s.id = g.session_id"
            " WHERE g.uid = :uid AND g.revoked_at IS NULL"
            " AND g.expires_at > :now AND g.user_generation = u.generation"
            " AND g.client_generation = c.generation AND NOT EXISTS"
            " (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation)"
            " AND (g.session_id = '' OR (s.ended_at IS NULL AND s.expires_at > :now"
            " AND s.generation = u.session_generation))"
            " GROUP BY g.client_id ORDER BY MAX(g.last_used_at) DESC, g.client_id LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )
        return {row[0]: Access(Instant(row[1]), Instant(row[2]), row[3] > 0) for row in rows}

    def of_app(self, uid: Uid, client_id: str, now: Instant) -> Access | None:
        """The access of one client; None where it has none."""
        row = self.db.row(
            "SELECT MIN(g.created_at), MAX(g.last_used_at),"
            " SUM(CASE WHEN g.session_id = '' THEN 1 ELSE 0 END)"
            " FROM grants g JOIN users u ON u.uid = g.uid JOIN clients c ON c.id = g.client_id"
            " LEFT JOIN sessions s ON s.id = g.session_id"
            " WHERE g.uid = :uid AND g.client_id = :client_id AND g.revoked_at IS NULL"
            " AND g.expires_at > :now AND g.user_generation = u.generation"
            " AND g.client_generation = c.generation AND NOT EXISTS"
            " (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation)"
            " AND (g.session_id = '' OR (s.ended_at IS NULL AND s.expires_at > :now"
            " AND s.generation = u.session_generation))",
            uid=uid,
            client_id=client_id,
            now=now,
        )
        if row is None or row[0] is None:
            return None
        return Access(Instant(row[0]), Instant(row[1]), row[2] > 0)

    def scopes_of(self, uid: Uid, client_id: str, now: Instant, limit: int) -> Sequence[str]:
        """At most `limit` different scopes of the grants of one client."""
        rows = self.db.rows(
            "SELECT DISTINCT g.scope"
            " FROM grants g JOIN users u ON u.uid = g.uid JOIN clients c ON c.id = g.client_id"
            " LEFT JOIN sessions s ON s.id = g.session_id"
            " WHERE g.uid = :uid AND g.client_id = :client_id AND g.revoked_at IS NULL"
            " AND g.expires_at > :now AND g.user_generation = u.generation"
            " AND g.client_generation = c.generation AND NOT EXISTS"
            " (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation)"
            " AND (g.session_id = '' OR (s.ended_at IS NULL AND s.expires_at > :now"
            " AND s.generation = u.session_generation))"
            " ORDER BY g.scope LIMIT :limit",
            uid=uid,
            client_id=client_id,
            now=now,
            limit=limit,
        )
        return [row[0] for row in rows]

    def newest_of(self, uid: Uid, client_id: str, now: Instant, limit: int) -> Sequence[Grant]:
        """At most `limit` grants of one client, newest first."""
        rows = self.db.rows(
            "SELECT g.id, g.client_id, g.uid, g.session_id, g.scope, g.audience, g.grant_type,"
            " g.auth_time, g.created_at, g.last_used_at, g.expires_at, g.refresh_print,"
            " g.refresh_expires_at, g.generation, g.revoked_at, g.revoked_because, g.sid,"
            " g.methods, g.claims"
            " FROM grants g JOIN users u ON u.uid = g.uid JOIN clients c ON c.id = g.client_id"
            " LEFT JOIN sessions s ON s.id = g.session_id"
            " WHERE g.uid = :uid AND g.client_id = :client_id AND g.revoked_at IS NULL"
            " AND g.expires_at > :now AND g.user_generation = u.generation"
            " AND g.client_generation = c.generation AND NOT EXISTS"
            " (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation)"
            " AND (g.session_id = '' OR (s.ended_at IS NULL AND s.expires_at > :now"
            " AND s.generation = u.session_generation))"
            " ORDER BY g.created_at DESC, g.id DESC LIMIT :limit",
            uid=uid,
            client_id=client_id,
            now=now,
            limit=limit,
        )
        return [grant_of(row) for row in rows]

    def uses_of(self, uid: Uid, client_id: str, now: Instant) -> Mapping[str, Instant]:
        """When each scope of one client was last used."""
        rows = self.db.rows(
            "SELECT x.scope, MAX(x.last_used_at) FROM grants g"
            " JOIN scope_uses x ON x.grant_id = g.id WHERE g.uid = :uid"
            " AND g.client_id = :client_id AND g.revoked_at IS NULL AND g.expires_at > :now"
            " GROUP BY x.scope",
            uid=uid,
            client_id=client_id,
            now=now,
        )
        return {row[0]: Instant(row[1]) for row in rows}

    def count_grants(self, uid: Uid, now: Instant) -> int:
        """How many live grants the user has."""
        row = self.db.row(
            "SELECT COUNT(*)"
            " FROM grants g JOIN users u ON u.uid = g.uid JOIN clients c ON c.id = g.client_id"
            " LEFT JOIN sessions s ON s.id = g.session_id"
            " WHERE g.uid = :uid AND g.revoked_at IS NULL"
            " AND g.expires_at > :now AND g.user_generation = u.generation"
            " AND g.client_generation = c.generation AND NOT EXISTS"
            " (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation)"
            " AND (g.session_id = '' OR (s.ended_at IS NULL AND s.expires_at > :now"
            " AND s.generation = u.session_generation))",
            uid=uid,
            now=now,
        )
        return 0 if row is None else int(row[0])
