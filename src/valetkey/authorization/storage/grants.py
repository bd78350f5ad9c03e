"""Store of grants: what users let clients do. A family of refresh tokens is one row."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.grant import Grant, Liveness
from valetkey.authorization.model.register.api import ApiGeneration
from valetkey.authorization.storage.register.apis import Apis
from valetkey.authorization.storage.tokens.revocations import Revocations, RevokedKind
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
        found = GRANTS.all(
            self.db,
            "SELECT * FROM live_grants JOIN grants ON grants.id = live_grants.id"
            " WHERE live_grants.uid = :uid AND live_grants.ends_at > :now"
            " ORDER BY live_grants.created_at DESC, live_grants.id DESC LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )
        return found[::-1]

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
    found: GrantWithState, user: User, apis: tuple[str, ...] | None
) -> tuple[GrantWithState, User, Sequence[ApiGeneration]]:
    if apis is None:
        return found, user, ()
    # Sorted here: a sorter within the statement takes SQLite longer than the rest of it.
    parts = [each.split(":", 2) for each in apis]
    parts.sort(key=lambda part: int(part[0]))
    return found, user, [(api_id, int(generation)) for _, generation, api_id in parts]


def _of_token(found: GrantWithState, user: User, revoked: bool) -> tuple[GrantWithState, User]:
    if revoked:
        liveness = replace(found.liveness, token_revoked=True)
        found = GrantWithState(found.grant, liveness, found.previous)
    return found, user


_GRANTS_WITH_USERS = Record(
    _with_apis,
    found=_STANDING_GRANTS,
    user=USERS,
    apis=Column(
        sql="(SELECT string_agg(a.place || ':' || a.generation || ':' || a.api_id, ' ')"
        " FROM grant_apis a WHERE a.grant_id = grants.id)"
    ),
)
_GRANTS_OF_TOKENS = Record(
    _of_token,
    found=_STANDING_GRANTS,
    user=USERS,
    revoked=Column(
        sql="EXISTS (SELECT 1 FROM revocations WHERE kind = 'token' AND subject = :token_id)"
        " OR EXISTS (SELECT 1 FROM revocations WHERE kind = 'client'"
        " AND subject IN (grants.client_id, :client_id) AND revocations.revoked_at >= :issued_at)"
        " OR EXISTS (SELECT 1 FROM revocations WHERE kind = 'all' AND subject = 'all'"
        " AND revocations.revoked_at >= :issued_at)"
    ),
)
