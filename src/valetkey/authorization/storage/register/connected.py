"""A user's connected apps, aggregated by the database, however many grants there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.storage.grants import GRANTS
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Access:
    """The live grants between a user and a client. `outlasts`: one does not end with a session."""

    since: Instant
    last_used_at: Instant
    outlasts: bool


@dataclass(frozen=True, slots=True)
class Connected:
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
            "SELECT x.scope, MAX(x.last_used_at) FROM grants g"
            " JOIN scope_uses x ON x.grant_id = g.id WHERE g.uid = :uid"
            " AND g.client_id = :client_id AND g.revoked_at IS NULL AND g.expires_at > :now"
            " GROUP BY x.scope",
            uid=uid,
            client_id=client_id,
            now=now,
        )
        return dict(rows)

    def count_grants(self, uid: Uid, now: Instant) -> int:
        """Return how many live grants the user has."""
        row = self.db.row(
            "SELECT COUNT(*) FROM live_grants WHERE uid = :uid AND ends_at > :now",
            uid=uid,
            now=now,
        )
        return 0 if row is None else int(row[0])
