"""Store of access tokens by reference; self-contained tokens are not stored."""

from dataclasses import dataclass

from valetkey.authorization.model.liveness import Liveness
from valetkey.authorization.storage.tokens.revocations import Revocations, RevokedKind
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint


@dataclass(frozen=True, slots=True)
class ReferenceToken:
    """An access token's data; `uid` and `grant_id` are None for a client's own."""

    id: str
    client_id: str
    grant_id: str | None
    uid: int | None
    scope: Scope
    audience: str
    issued_at: Instant
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """One row for each token, found by its fingerprint."""

    db: Connection

    def issue(self, fingerprint: Fingerprint, token: ReferenceToken) -> None:
        """Insert the token."""
        self.db.send(
            "INSERT INTO access_tokens"
            " (fingerprint, id, client_id, grant_id, scope, audience, issued_at, expires_at)"
            " VALUES (:fingerprint, :id, :client_id, :grant_id, :scope, :audience, :issued_at,"
            " :expires_at)",
            fingerprint=fingerprint,
            id=token.id,
            client_id=token.client_id,
            grant_id=token.grant_id,
            scope=str(token.scope),
            audience=token.audience,
            issued_at=token.issued_at,
            expires_at=token.expires_at,
        )

    def find(self, fingerprint: Fingerprint) -> tuple[ReferenceToken, Liveness] | None:
        """Return the token with the state of everything it depends on, in one query."""
        row = self.db.row(
            "SELECT t.id, t.client_id, t.grant_id, g.uid, t.scope, t.audience, t.issued_at,"
            " t.expires_at, t.revoked_at, c.disabled_at, u.disabled_at, g.revoked_at,"
            " g.expires_at, g.session_id, s.ended_at, s.expires_at, r.revoked_at,"
            " c.generation <> g.client_generation OR u.generation <> g.user_generation"
            " OR EXISTS (SELECT 1 FROM app_generations a WHERE a.uid = g.uid"
            " AND a.client_id = g.client_id AND a.generation <> g.app_generation),"
            " s.generation <> u.session_generation"
            " FROM access_tokens t"
            " LEFT JOIN clients c ON c.id = t.client_id"
            " LEFT JOIN grants g ON g.id = t.grant_id"
            " LEFT JOIN users u ON u.uid = g.uid"
            " LEFT JOIN sessions s ON s.id = g.session_id"
            " LEFT JOIN revocations r ON r.kind = 'client' AND r.subject = t.client_id"
            " WHERE t.fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )
        if row is None:
            return None
        token = ReferenceToken(
            id=row[0],
            client_id=row[1],
            grant_id=row[2],
            uid=row[3],
            scope=Scope(tuple(row[4].split())),
            audience=row[5],
            issued_at=Instant(row[6]),
            expires_at=Instant(row[7]),
        )
        bound = bool(row[13])
        standing = Liveness(
            client_disabled=row[9] is not None or (row[16] is not None and row[16] >= row[6]),
            user_disabled=row[10] is not None,
            # A grant that was deleted by a sweep has ended.
            grant_revoked=row[2] is not None
            and (row[12] is None or row[11] is not None or bool(row[17])),
            grant_ends_at=row[12],
            session_ended=bound and (row[14] is not None or row[15] is None or bool(row[18])),
            session_ends_at=row[15] if bound else None,
            token_revoked=row[8] is not None,
        )
        return token, standing

    def revoke(self, token_id: str, fingerprint: Fingerprint, now: Instant) -> bool:
        """Revoke one token. Exactly one concurrent caller gets True."""
        revoked = self.db.run(
            "UPDATE access_tokens SET revoked_at = :now"
            " WHERE fingerprint = :fingerprint AND revoked_at IS NULL",
            fingerprint=fingerprint,
            now=now,
        )
        if revoked:
            Revocations(self.db).add(RevokedKind.TOKEN, token_id, now)
        return revoked == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that expired."""
        return self.db.run(
            "DELETE FROM access_tokens WHERE fingerprint IN"
            " (SELECT fingerprint FROM access_tokens WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )
