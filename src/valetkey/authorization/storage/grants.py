"""Grants and consents: what users let clients do, and their connected apps."""

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.model.api import ApiGeneration
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.grant import Consent, Grant, Liveness
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.storage.apis import Apis
from valetkey.authorization.storage.revocations import Revocations, RevokedKind
from valetkey.authorization.storage.users import USERS
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint


class Rotation(Struct, frozen=True):
    """One refresh token rotation: the token presented, its successor, and the expiry.

    `sealed` is the successor, encrypted so that only the holder of `presented` can decrypt it.
    """

    grant_id: str
    presented: Fingerprint
    successor: Fingerprint
    sealed: str
    expires_at: Instant


class Previous(Struct, frozen=True):
    """The refresh token before the current one, and its encrypted successor."""

    fingerprint: Fingerprint
    sealed: str
    rotated_at: Instant


class GrantWithState(Struct, frozen=True):
    """A grant and the state of everything it depends on."""

    grant: Grant
    liveness: Liveness
    previous: Previous | None


class ClientUsage(Struct, frozen=True):
    """The number of users connected with a client, and of its live grants."""

    people: int
    authorizations: int


class Grants(Struct, frozen=True):
    """Store grants, one row each."""

    db: Connection

    def issue(self, grant: Grant, apis: Sequence[ApiGeneration] = ()) -> bool:
        """Insert the grant; `apis` says for which APIs, if not for the default one alone.

        False if it exists already.
        """
        issued = GRANTS.claim(
            self.db,
            "INSERT INTO grants (*, app_generation) VALUES (*, COALESCE((SELECT generation"
            " FROM app_generations WHERE uid = :uid AND client_id = :client_id), 0))"
            " ON CONFLICT (id) DO NOTHING",
            grant,
        )
        if issued and apis:
            Apis(self.db).grant(grant.id, apis)
        return issued

    def find(self, grant_id: str) -> GrantWithState | None:
        """Return the grant with the state of its client, user and session, in one query."""
        return _STANDING_GRANTS.find(
            self.db,
            "SELECT * FROM grants JOIN clients ON clients.id = grants.client_id"
            " JOIN users ON users.uid = grants.uid"
            " LEFT JOIN sessions ON sessions.id = grants.session_id WHERE grants.id = :id",
            id=grant_id,
        )

    def find_with_user(
        self, grant_id: str
    ) -> tuple[GrantWithState, User, Sequence[ApiGeneration]] | None:
        """Return the grant as `find`, its user, locked as by `Users.hold`, and its APIs.

        For a refresh, by one statement. The APIs are those that `Apis.granted` returns.
        """
        self.db.share("SELECT uid FROM grants WHERE id = :id", id=grant_id)
        return _GRANTS_WITH_USERS.find(
            self.db,
            "SELECT * FROM grants JOIN clients ON clients.id = grants.client_id"
            " JOIN users ON users.uid = grants.uid"
            " LEFT JOIN sessions ON sessions.id = grants.session_id WHERE grants.id = :id",
            id=grant_id,
        )

    def find_of_token(
        self, grant_id: str, token_id: str, client_id: str, issued_at: Instant
    ) -> tuple[GrantWithState, User] | None:
        """Return the grant of a JWT and its user; not live if the token or its client was revoked.

        `client_id` is the token's: an exchanged token belongs to a grant of another client.
        """
        return _GRANTS_OF_TOKENS.find(
            self.db,
            "SELECT * FROM grants JOIN clients ON clients.id = grants.client_id"
            " JOIN users ON users.uid = grants.uid"
            " LEFT JOIN sessions ON sessions.id = grants.session_id WHERE grants.id = :id",
            id=grant_id,
            token_id=token_id,
            client_id=client_id,
            issued_at=issued_at,
        )

    def live_of_user(self, uid: Uid, now: Instant, limit: int) -> Sequence[Grant]:
        """Return at most `limit` newest grants of the user that have not ended, oldest first."""
        grants = GRANTS.all(
            self.db,
            "SELECT * FROM live_grants JOIN grants ON grants.id = live_grants.id"
            " WHERE live_grants.uid = :uid AND live_grants.ends_at > :now"
            " ORDER BY live_grants.created_at DESC, live_grants.id DESC LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )
        return grants[::-1]

    def usage_of(self, client_id: str, now: Instant) -> ClientUsage:
        """Return how many users are connected with the client, and how many grants are live.

        A user is connected by a live grant or a consent, as on the pages of users.
        """
        row = self.db.row(
            "SELECT (SELECT COUNT(*) FROM (SELECT uid FROM live_grants"
            " WHERE client_id = :client_id AND ends_at > :now"
            " UNION SELECT c.uid FROM consents c JOIN users u ON u.uid = c.uid"
            " WHERE c.client_id = :client_id AND c.generation = u.consent_generation) AS found),"
            " (SELECT COUNT(*) FROM live_grants WHERE client_id = :client_id AND ends_at > :now)",
            client_id=client_id,
            now=now,
        )
        return ClientUsage(0, 0) if row is None else ClientUsage(*row)

    def rotate(self, rotation: Rotation, now: Instant) -> bool:
        """Replace the current refresh token by its successor; exactly one caller gets True."""
        return self.db.claim(
            "UPDATE grants SET refresh_print = :successor, previous_print = :presented,"
            " successor = :sealed, rotated_at = :now, refresh_expires_at = :expires_at,"
            " generation = generation + 1, last_used_at = :now"
            " WHERE id = :id AND refresh_print = :presented AND revoked_at IS NULL"
            " AND refresh_expires_at > :now",
            id=rotation.grant_id,
            presented=rotation.presented,
            successor=rotation.successor,
            sealed=rotation.sealed,
            expires_at=rotation.expires_at,
            now=now,
        )

    def use(self, grant_id: str, presented: Fingerprint, until: Instant, now: Instant) -> bool:
        """Use the current refresh token and keep it, now valid until `until`.

        The token before it, if the client rotated tokens earlier, is no longer repeated.
        """
        return self.db.claim(
            "UPDATE grants SET refresh_expires_at = :until, last_used_at = :now,"
            " previous_print = NULL, successor = NULL, rotated_at = NULL"
            " WHERE id = :id AND refresh_print = :presented AND revoked_at IS NULL"
            " AND refresh_expires_at > :now",
            id=grant_id,
            presented=presented,
            until=until,
            now=now,
        )

    def revoke(self, grant_id: str, now: Instant, because: str) -> bool:
        """Revoke it and notify the resource servers; exactly one concurrent caller gets True."""
        revoked = self.db.run(
            "UPDATE grants SET revoked_at = :now, revoked_because = :because, successor = NULL"
            " WHERE id = :id AND revoked_at IS NULL",
            id=grant_id,
            now=now,
            because=because,
        )
        if revoked:
            row = self.db.row(
                "SELECT max(at) FROM events"
                " WHERE client_id = (SELECT client_id FROM grants WHERE id = :id)",
                id=grant_id,
            )
            newest = Instant(0 if row is None or row[0] is None else int(row[0]))
            Revocations(self.db).add(RevokedKind.GRANT, grant_id, now, newest=newest)
        return revoked == 1

    def begin_app_generation(self, uid: Uid, client_id: str) -> None:
        """End every grant between this user and this client."""
        self.db.send(
            "INSERT INTO app_generations (uid, client_id, generation)"
            " VALUES (:uid, :client_id, 1) ON CONFLICT (uid, client_id) DO UPDATE"
            " SET generation = app_generations.generation + 1",
            uid=uid,
            client_id=client_id,
        )

    def live_of_app(self, uid: Uid, client_id: str, now: Instant, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` live grants between user and client."""
        rows = self.db.rows(
            "SELECT id FROM grants WHERE uid = :uid AND client_id = :client_id"
            " AND revoked_at IS NULL AND expires_at > :now"
            " AND user_generation = (SELECT generation FROM users WHERE uid = :uid)"
            " AND client_generation = (SELECT generation FROM clients WHERE id = :client_id)"
            " AND app_generation = COALESCE((SELECT generation FROM app_generations"
            " WHERE uid = :uid AND client_id = :client_id), app_generation) LIMIT :limit",
            uid=uid,
            client_id=client_id,
            now=now,
            limit=limit,
        )
        return sorted(row[0] for row in rows)

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` grants that expired before `before`."""
        return self.db.run(
            "DELETE FROM grants WHERE id IN"
            " (SELECT id FROM grants WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=before,
            limit=limit,
        )


GRANTS = Record(Grant, "grants")

LIVENESS = Record(
    Liveness,
    client_disabled=Column(sql="clients.disabled_at IS NOT NULL"),
    user_disabled=Column(sql="users.disabled_at IS NOT NULL"),
    grant_revoked=Column(
        sql="grants.revoked_at IS NOT NULL OR clients.generation <> grants.client_generation"
        " OR users.generation <> grants.user_generation"
        " OR EXISTS (SELECT 1 FROM app_generations WHERE app_generations.uid = grants.uid"
        " AND app_generations.client_id = grants.client_id"
        " AND app_generations.generation <> grants.app_generation)"
    ),
    grant_ends_at=Column(sql="grants.expires_at"),
    # A session that was deleted by a sweep has ended.
    session_ended=Column(
        sql="grants.session_id <> '' AND (sessions.ended_at IS NOT NULL"
        " OR sessions.expires_at IS NULL OR sessions.generation <> users.session_generation)"
    ),
    session_ends_at=Column(sql="CASE WHEN grants.session_id <> '' THEN sessions.expires_at END"),
    token_revoked=Column(sql="FALSE"),
)
"""Of a grant, in a statement that joins its client, its user and its session."""

_STANDING_GRANTS = Record(
    GrantWithState,
    grant=GRANTS,
    liveness=LIVENESS,
    previous=Record(
        Previous, "grants", fingerprint=Column("previous_print"), sealed=Column("successor")
    ),
)


def _with_apis(
    standing: GrantWithState, user: User, apis: tuple[str, ...] | None
) -> tuple[GrantWithState, User, Sequence[ApiGeneration]]:
    if apis is None:
        return standing, user, ()
    # Sorted here: a sorter within the statement takes SQLite longer than the rest of it.
    parts = [api.split(":", 2) for api in apis]
    parts.sort(key=lambda part: int(part[0]))
    return standing, user, [(api_id, int(generation)) for _, generation, api_id in parts]


def _of_token(standing: GrantWithState, user: User, revoked: bool) -> tuple[GrantWithState, User]:
    if revoked:
        liveness = replace(standing.liveness, token_revoked=True)
        standing = GrantWithState(standing.grant, liveness, standing.previous)
    return standing, user


_GRANTS_WITH_USERS = Record(
    _with_apis,
    standing=_STANDING_GRANTS,
    user=USERS,
    apis=Column(
        sql="(SELECT string_agg(a.place || ':' || a.generation || ':' || a.api_id, ' ')"
        " FROM grant_apis a WHERE a.grant_id = grants.id)"
    ),
)
_GRANTS_OF_TOKENS = Record(
    _of_token,
    standing=_STANDING_GRANTS,
    user=USERS,
    revoked=Column(
        sql="EXISTS (SELECT 1 FROM revocations WHERE kind = 'token' AND subject = :token_id)"
        " OR EXISTS (SELECT 1 FROM revocations WHERE kind = 'client'"
        " AND subject IN (grants.client_id, :client_id) AND revocations.revoked_at >= :issued_at)"
        " OR EXISTS (SELECT 1 FROM revocations WHERE kind = 'all' AND subject = 'all'"
        " AND revocations.revoked_at >= :issued_at)"
    ),
)


_NOTHING: frozenset[str] = frozenset()


class Consents(Struct, frozen=True):
    """Store consents: one row for each user and client, of the user's generation of consents.

    Those of an earlier generation have ended; `end_outdated` deletes them in batches.
    """

    db: Connection

    def find(self, uid: Uid, client_id: str) -> Consent | None:
        """Return what the user allows the client, and the client's appearance at that time."""
        return CONSENTS.find(
            self.db,
            "SELECT * FROM consents WHERE uid = :uid AND client_id = :client_id"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)",
            uid=uid,
            client_id=client_id,
        )

    def clients_of(self, uid: Uid, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` clients with a consent of the user, newest first."""
        rows = self.db.rows(
            "SELECT client_id FROM consents WHERE uid = :uid"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)"
            " ORDER BY given_at DESC, client_id LIMIT :limit",
            uid=uid,
            limit=limit,
        )
        return [row[0] for row in rows]

    def of_user(self, uid: Uid, limit: int) -> Sequence[Consent]:
        """Return at most `limit` consents of the user, newest first."""
        return CONSENTS.all(
            self.db,
            "SELECT * FROM consents WHERE uid = :uid"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)"
            " ORDER BY given_at DESC, client_id LIMIT :limit",
            uid=uid,
            limit=limit,
        )

    def save(self, consent: Consent) -> str:
        """Insert or replace the consent, keeping the old id; return its id."""
        row = self.db.row(
            "INSERT INTO consents (uid, client_id, scope, appearance, given_at, claims, id,"
            " generation)"
            " VALUES (:uid, :client_id, :scope, :appearance, :given_at, :claims, :id,"
            " (SELECT consent_generation FROM users WHERE uid = :uid))"
            " ON CONFLICT (uid, client_id) DO UPDATE"
            " SET scope = :scope, appearance = :appearance, given_at = :given_at,"
            " claims = :claims, generation = excluded.generation,"
            " id = CASE WHEN consents.generation = excluded.generation"
            " THEN consents.id ELSE excluded.id END RETURNING id",
            **CONSENTS.values(consent),
        )
        return consent.id if row is None else str(row[0])

    def delete(self, uid: Uid, client_id: str) -> bool:
        """Delete the consent. False if there was none."""
        forgotten = self.db.run(
            "DELETE FROM consents WHERE uid = :uid AND client_id = :client_id"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)",
            uid=uid,
            client_id=client_id,
        )
        return forgotten == 1

    def begin_generation(self, uid: Uid) -> None:
        """End every consent of the user."""
        self.db.send(
            "UPDATE users SET consent_generation = consent_generation + 1 WHERE uid = :uid",
            uid=uid,
        )

    def end_outdated(self, uid: Uid, limit: int) -> Sequence[str]:
        """Delete at most `limit` consents of an earlier generation; return their clients."""
        # The generation is compared again in the row: the user may just have consented again.
        rows = self.db.rows(
            "DELETE FROM consents WHERE uid = :uid"
            " AND generation < (SELECT consent_generation FROM users WHERE uid = :uid)"
            " AND client_id IN (SELECT client_id FROM consents WHERE uid = :uid AND generation <"
            " (SELECT consent_generation FROM users WHERE uid = :uid) LIMIT :limit)"
            " RETURNING client_id",
            uid=uid,
            limit=limit,
        )
        return sorted(row[0] for row in rows)


def _claims(text: str) -> frozenset[str]:
    return _NOTHING if text == "[]" else frozenset(json.loads(text))


CONSENTS = Record(
    Consent,
    "consents",
    claims=Column(read=_claims, write=lambda claims: json.dumps(sorted(claims))),
)


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
