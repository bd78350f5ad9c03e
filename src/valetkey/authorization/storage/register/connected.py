"""A user's connected apps, aggregated by the database, however many grants there are."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.grant import Consent, Grant
from valetkey.authorization.model.register.openid import OpenIdRegistration
from valetkey.authorization.storage.grants import GRANTS
from valetkey.authorization.storage.register.consents import CONSENTS
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class Access(Struct, frozen=True):
    """The live grants between a user and a client. `outlasts`: one does not end with a session."""

    since: Instant
    last_used_at: Instant
    outlasts: bool


class ConnectedName(Struct, frozen=True):
    """The name and id of a connected app, for lists of links."""

    id: str
    name: str
    openid: OpenIdRegistration
    disabled_at: Instant | None


class Connected(Struct, frozen=True):
    """A user's live grants: neither they nor the sessions they are bound to have ended."""

    db: Connection

    def of_user(self, uid: Uid, now: Instant, limit: int) -> Mapping[str, Access]:
        """Return the access of at most `limit` clients by id: the most recently used."""
        rows = self.db.rows(
            "SELECT client_id, MIN(created_at), MAX(last_used_at),"
            " SUM(CASE WHEN session_id = '' THEN 1 ELSE 0 END)"
            " FROM live_grants WHERE uid = :uid AND ends_at > :now"
            " GROUP BY client_id ORDER BY MAX(last_used_at) DESC, client_id LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )
        return {
            client_id: Access(Instant(since), Instant(used), unbound > 0)
            for client_id, since, used, unbound in rows
        }

    def names_of_user(
        self, uid: Uid, now: Instant, limit: int
    ) -> Callable[[], Sequence[ConnectedName]]:
        """Read at most `limit` clients with a live grant or a consent of the user.

        Goes from client to client by an index, not through the grants. Sent at once as by
        `Connection.ahead`.
        """
        # SQLite might go through all clients without CROSS JOIN, PostgreSQL through all grants with
        # EXISTS, which it turns into a join.
        return CONNECTED_NAMES.ahead(
            self.db,
            "SELECT * FROM (WITH RECURSIVE found (id) AS (SELECT (SELECT client_id FROM grants"
            " WHERE uid = :uid AND revoked_at IS NULL ORDER BY client_id LIMIT 1)"
            " UNION ALL SELECT (SELECT client_id FROM grants WHERE uid = :uid"
            " AND revoked_at IS NULL AND client_id > found.id ORDER BY client_id LIMIT 1)"
            " FROM found WHERE found.id IS NOT NULL)"
            " SELECT id FROM found WHERE (SELECT live_grants.id FROM live_grants"
            " WHERE live_grants.uid = :uid AND live_grants.client_id = found.id"
            " AND live_grants.ends_at > :now LIMIT 1) IS NOT NULL"
            " UNION SELECT client_id FROM consents WHERE uid = :uid AND generation ="
            " (SELECT consent_generation FROM users WHERE uid = :uid)) AS found"
            " CROSS JOIN clients WHERE clients.id = found.id ORDER BY found.id LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )

    def of_app(self, uid: Uid, client_id: str, now: Instant) -> Access | None:
        """Return the access of one client; None if it has none."""
        row = self.db.row(
            "SELECT MIN(created_at), MAX(last_used_at),"
            " SUM(CASE WHEN session_id = '' THEN 1 ELSE 0 END)"
            " FROM live_grants WHERE uid = :uid AND client_id = :client_id AND ends_at > :now",
            uid=uid,
            client_id=client_id,
            now=now,
        )
        # Aggregates of no rows are null.
        if row is None or row[0] is None:
            return None
        since, used, unbound = row
        return Access(since, used, unbound > 0)

    def scopes_of(self, uid: Uid, client_id: str, now: Instant, limit: int) -> Sequence[str]:
        """Return at most `limit` different scopes of the grants of one client."""
        rows = self.db.rows(
            "SELECT DISTINCT scope"
            " FROM live_grants WHERE uid = :uid AND client_id = :client_id AND ends_at > :now"
            " ORDER BY scope LIMIT :limit",
            uid=uid,
            client_id=client_id,
            now=now,
            limit=limit,
        )
        return [row[0] for row in rows]

    def newest_of(self, uid: Uid, client_id: str, now: Instant, limit: int) -> Sequence[Grant]:
        """Return at most `limit` grants of one client, newest first."""
        return GRANTS.all(
            self.db,
            "SELECT * FROM live_grants JOIN grants ON grants.id = live_grants.id"
            " WHERE live_grants.uid = :uid AND live_grants.client_id = :client_id"
            " AND live_grants.ends_at > :now"
            " ORDER BY live_grants.created_at DESC, live_grants.id DESC LIMIT :limit",
            uid=uid,
            client_id=client_id,
            now=now,
            limit=limit,
        )

    def uses_of(self, uid: Uid, client_id: str, now: Instant) -> Mapping[str, Instant]:
        """Return when each scope of one client was last used."""
        rows = self.db.rows(
            "SELECT x.scope, MAX(x.last_used_at) FROM live_grants g"
            " JOIN scope_uses x ON x.grant_id = g.id WHERE g.uid = :uid"
            " AND g.client_id = :client_id AND g.ends_at > :now"
            " GROUP BY x.scope",
            uid=uid,
            client_id=client_id,
            now=now,
        )
        return dict(rows)


CONNECTED_NAMES = Record(ConnectedName, "clients")


class ClientUsers(Struct, frozen=True):
    """The users of one client: by a consent, or by live grants without one."""

    db: Connection

    def page(
        self, client_id: str, before: Instant, before_uid: int, limit: int
    ) -> Sequence[Consent]:
        """Return at most `limit` consents, the newest first, before a position."""
        return CONSENTS.all(
            self.db,
            "SELECT * FROM consents JOIN users ON users.uid = consents.uid"
            " WHERE consents.client_id = :client_id AND (consents.given_at < :before"
            " OR (consents.given_at = :before AND consents.uid < :before_uid))"
            " AND consents.generation = users.consent_generation"
            " ORDER BY consents.given_at DESC, consents.uid DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_uid=before_uid,
            limit=limit,
        )

    def without_consent(
        self, client_id: str, before: Instant, before_uid: int, now: Instant, limit: int
    ) -> Sequence[tuple[Uid, Instant]]:
        """Return at most `limit` users without a consent, and since when they have live grants."""
        rows = self.db.rows(
            "SELECT uid, since FROM (SELECT g.uid, MIN(g.created_at) AS since FROM live_grants g"
            " WHERE g.client_id = :client_id AND g.ends_at > :now AND NOT EXISTS"
            " (SELECT 1 FROM consents c JOIN users u ON u.uid = c.uid WHERE c.uid = g.uid"
            " AND c.client_id = g.client_id AND c.generation = u.consent_generation)"
            " GROUP BY g.uid) AS found"
            " WHERE since < :before OR (since = :before AND uid < :before_uid)"
            " ORDER BY since DESC, uid DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_uid=before_uid,
            now=now,
            limit=limit,
        )
        return [(Uid(uid), Instant(since)) for uid, since in rows]
