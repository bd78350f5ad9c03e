"""Store of grants: what users let clients do. A family of refresh tokens is one row."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.model.liveness import Liveness
from valetkey.authorization.storage.tokens.revocations import Revocations, RevokedKind
from valetkey.authorization.storage.users import user_of
from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
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


class StandingGrant(Struct, frozen=True):
    """A grant and the state of everything it depends on."""

    grant: Grant
    standing: Liveness
    previous: Previous | None


@dataclass(frozen=True, slots=True)
class Reach:
    """For how many users a client may act."""

    people: int
    authorizations: int


class Grants(Struct, frozen=True):
    """One row for each grant."""

    db: Connection

    def issue(self, grant: Grant) -> bool:
        """Insert the grant. False if it exists already."""
        issued = self.db.run(
            "INSERT INTO grants (id, client_id, uid, session_id, scope, audience, grant_type,"
            " auth_time, created_at, last_used_at, expires_at, refresh_print, refresh_expires_at,"
            " generation, sid, methods, claims, client_generation, user_generation,"
            " app_generation)"
            " VALUES (:id, :client_id, :uid, :session_id, :scope, :audience, :grant_type,"
            " :auth_time, :created_at, :last_used_at, :expires_at, :refresh_print,"
            " :refresh_expires_at, :generation, :sid, :methods, :claims, :client_generation,"
            " :user_generation, COALESCE((SELECT generation FROM app_generations"
            " WHERE uid = :uid AND client_id = :client_id), 0))"
            " ON CONFLICT (id) DO NOTHING",
            id=grant.id,
            client_id=grant.client_id,
            uid=grant.uid,
            session_id=grant.session_id,
            scope=str(grant.scope),
            audience=grant.audience,
            grant_type=grant.grant_type,
            auth_time=grant.auth_time,
            created_at=grant.created_at,
            last_used_at=grant.last_used_at,
            expires_at=grant.expires_at,
            refresh_print=grant.refresh_print,
            refresh_expires_at=grant.refresh_expires_at,
            generation=grant.generation,
            sid=grant.sid,
            methods=" ".join(grant.methods),
            claims=grant.claims,
            client_generation=grant.client_generation,
            user_generation=grant.user_generation,
        )
        return issued == 1

    def find(self, grant_id: str) -> StandingGrant | None:
        """Return the grant with the state of its client, user and session, in one query."""
        row = self.db.row(
            "SELECT g.id, g.client_id, g.uid, g.session_id, g.scope, g.audience, g.grant_type,"
            " g.auth_time, g.created_at, g.last_used_at, g.expires_at, g.refresh_print,"
            " g.refresh_expires_at, g.generation, g.revoked_at, g.revoked_because,"
            " g.sid, g.methods, g.claims, g.previous_print, g.successor, g.rotated_at,"
            " c.disabled_at, u.disabled_at, s.ended_at, s.expires_at,"
            " c.generation <> g.client_generation OR u.generation <> g.user_generation"
            " OR EXISTS (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation),"
            " s.generation <> u.session_generation"
            " FROM grants g JOIN clients c ON c.id = g.client_id JOIN users u ON u.uid = g.uid"
            " LEFT JOIN sessions s ON s.id = g.session_id WHERE g.id = :id",
            id=grant_id,
        )
        return None if row is None else _standing_grant(row)

    def find_with_user(self, grant_id: str) -> tuple[StandingGrant, User] | None:
        """Return the grant as `find`, and its user, locked as by `Users.hold`, for a refresh."""
        self.db.share("SELECT uid FROM grants WHERE id = :id", id=grant_id)
        row = self.db.row(
            "SELECT g.id, g.client_id, g.uid, g.session_id, g.scope, g.audience, g.grant_type,"
            " g.auth_time, g.created_at, g.last_used_at, g.expires_at, g.refresh_print,"
            " g.refresh_expires_at, g.generation, g.revoked_at, g.revoked_because,"
            " g.sid, g.methods, g.claims, g.previous_print, g.successor, g.rotated_at,"
            " c.disabled_at, u.disabled_at, s.ended_at, s.expires_at,"
            " c.generation <> g.client_generation OR u.generation <> g.user_generation"
            " OR EXISTS (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation),"
            " s.generation <> u.session_generation,"
            " u.uid, u.username, u.email, u.email_verified_at, u.name, u.created_at,"
            " u.changed_at, u.disabled_at, u.claims, u.role,"
            " EXISTS (SELECT 1 FROM memberships WHERE uid = u.uid)"
            " OR EXISTS (SELECT 1 FROM developers WHERE uid = u.uid), u.generation"
            " FROM grants g JOIN clients c ON c.id = g.client_id JOIN users u ON u.uid = g.uid"
            " LEFT JOIN sessions s ON s.id = g.session_id WHERE g.id = :id",
            id=grant_id,
        )
        return None if row is None else (_standing_grant(row), user_of(row[28:]))

    def live_of_user(self, uid: Uid, now: Instant, limit: int) -> Sequence[Grant]:
        """Return at most `limit` newest grants of the user that have not ended, oldest first."""
        rows = self.db.rows(
            "SELECT id, client_id, uid, session_id, scope, audience, grant_type, auth_time,"
            " created_at, last_used_at, expires_at, refresh_print, refresh_expires_at, generation,"
            " revoked_at, revoked_because, sid, methods, claims"
            " FROM grants WHERE uid = :uid AND revoked_at IS NULL AND expires_at > :now"
            " AND user_generation = (SELECT generation FROM users WHERE uid = :uid)"
            " AND client_generation ="
            " (SELECT generation FROM clients WHERE clients.id = grants.client_id)"
            " AND NOT EXISTS (SELECT 1 FROM app_generations a WHERE a.uid = grants.uid"
            " AND a.client_id = grants.client_id AND a.generation <> app_generation)"
            " ORDER BY created_at DESC, id DESC LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )
        return [grant_of(row) for row in reversed(rows)]

    def reach(self, client_id: str, now: Instant) -> Reach:
        """Return for how many users the client may act, and by how many grants."""
        row = self.db.row(
            "SELECT COUNT(DISTINCT uid), COUNT(*) FROM grants WHERE client_id = :client_id"
            " AND revoked_at IS NULL AND expires_at > :now"
            " AND client_generation = (SELECT generation FROM clients WHERE id = :client_id)"
            " AND user_generation = (SELECT generation FROM users WHERE users.uid = grants.uid)"
            " AND NOT EXISTS (SELECT 1 FROM app_generations a WHERE a.uid = grants.uid"
            " AND a.client_id = grants.client_id AND a.generation <> app_generation)",
            client_id=client_id,
            now=now,
        )
        return Reach(0, 0) if row is None else Reach(row[0], row[1])

    def rotate(self, rotation: Rotation, now: Instant) -> bool:
        """Replace the current refresh token by its successor; exactly one caller gets True."""
        rotated = self.db.run(
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
        return rotated == 1

    def use(self, grant_id: str, presented: Fingerprint, until: Instant, now: Instant) -> bool:
        """Use the current refresh token and keep it, now valid until `until`."""
        used = self.db.run(
            "UPDATE grants SET refresh_expires_at = :until, last_used_at = :now"
            " WHERE id = :id AND refresh_print = :presented AND revoked_at IS NULL"
            " AND refresh_expires_at > :now",
            id=grant_id,
            presented=presented,
            until=until,
            now=now,
        )
        return used == 1

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
            Revocations(self.db).add(RevokedKind.GRANT, grant_id, now)
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


def grant_of(row: Row) -> Grant:
    """Return the grant of a row of its columns."""
    return Grant(
        id=row[0],
        client_id=row[1],
        uid=Uid(row[2]),
        session_id=row[3],
        scope=Scope(tuple(row[4].split())),
        audience=row[5],
        grant_type=row[6],
        auth_time=Instant(row[7]),
        created_at=Instant(row[8]),
        last_used_at=Instant(row[9]),
        expires_at=Instant(row[10]),
        refresh_print=row[11],
        refresh_expires_at=row[12],
        generation=row[13],
        revoked_at=row[14],
        revoked_because=row[15],
        sid=row[16],
        methods=tuple(row[17].split()),
        claims=row[18],
    )


def _standing_grant(row: Row) -> StandingGrant:
    grant = grant_of(row)
    bound = bool(grant.session_id)
    previous = None
    if row[19] is not None and row[20] is not None:
        previous = Previous(Fingerprint(row[19]), row[20], Instant(row[21]))
    standing = Liveness(
        client_disabled=row[22] is not None,
        user_disabled=row[23] is not None,
        grant_revoked=grant.revoked_at is not None or bool(row[26]),
        grant_ends_at=grant.expires_at,
        # A session that was deleted by a sweep has ended.
        session_ended=bound and (row[24] is not None or row[25] is None or bool(row[27])),
        session_ends_at=row[25] if bound else None,
    )
    return StandingGrant(grant, standing, previous)
