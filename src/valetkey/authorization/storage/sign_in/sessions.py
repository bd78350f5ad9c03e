"""Store of browser sessions."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.session import Session
from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions, found by the fingerprint of their cookie."""

    db: Connection

    def start(self, session: Session, fingerprint: Fingerprint) -> None:
        """Insert a session."""
        self.db.send(
            "INSERT INTO sessions (id, fingerprint, uid, auth_time, methods, user_agent,"
            " created_at, last_seen_at, expires_at, proved_at, proved_by, device_id, generation)"
            " VALUES (:id, :fingerprint, :uid, :auth_time, :methods, :user_agent, :created_at,"
            " :last_seen_at, :expires_at, :proved_at, :proved_by, :device_id,"
            " (SELECT session_generation FROM users WHERE uid = :uid))",
            id=session.id,
            fingerprint=fingerprint,
            uid=session.uid,
            auth_time=session.auth_time,
            methods=" ".join(session.methods),
            user_agent=session.user_agent,
            created_at=session.created_at,
            last_seen_at=session.last_seen_at,
            expires_at=session.expires_at,
            proved_at=session.proved_at,
            proved_by=" ".join(session.proved_by),
            device_id=session.device_id,
        )

    def find(self, fingerprint: Fingerprint) -> Session | None:
        """Return the session of a cookie, ended or not."""
        row = self.db.row(
            "SELECT id, uid, auth_time, methods, user_agent, created_at, last_seen_at, expires_at,"
            " COALESCE(ended_at, CASE WHEN generation <> (SELECT session_generation FROM users"
            " WHERE users.uid = sessions.uid) THEN last_seen_at END),"
            " proved_at, proved_by, device_id FROM sessions"
            " WHERE fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )
        return None if row is None else session_of(row)

    def find_by_id(self, session_id: str) -> Session | None:
        """Return the session with this public id, ended or not."""
        row = self.db.row(
            "SELECT id, uid, auth_time, methods, user_agent, created_at, last_seen_at, expires_at,"
            " COALESCE(ended_at, CASE WHEN generation <> (SELECT session_generation FROM users"
            " WHERE users.uid = sessions.uid) THEN last_seen_at END),"
            " proved_at, proved_by, device_id FROM sessions WHERE id = :id",
            id=session_id,
        )
        return None if row is None else session_of(row)

    def live_of(self, uid: Uid, now: Instant) -> Sequence[Session]:
        """Return the user's sessions that have not ended."""
        rows = self.db.rows(
            "SELECT id, uid, auth_time, methods, user_agent, created_at, last_seen_at, expires_at,"
            " COALESCE(ended_at, CASE WHEN generation <> (SELECT session_generation FROM users"
            " WHERE users.uid = sessions.uid) THEN last_seen_at END),"
            " proved_at, proved_by, device_id FROM sessions"
            " WHERE uid = :uid AND ended_at IS NULL AND expires_at > :now"
            " AND generation = (SELECT session_generation FROM users WHERE uid = :uid)"
            " ORDER BY created_at, id",
            uid=uid,
            now=now,
        )
        return [session_of(row) for row in rows]

    def outdated_of(self, uid: Uid, now: Instant, limit: int) -> Sequence[Session]:
        """Return at most `limit` of an earlier generation that were not ended one by one."""
        rows = self.db.rows(
            "SELECT id, uid, auth_time, methods, user_agent, created_at, last_seen_at, expires_at,"
            " COALESCE(ended_at, CASE WHEN generation <> (SELECT session_generation FROM users"
            " WHERE users.uid = sessions.uid) THEN last_seen_at END),"
            " proved_at, proved_by, device_id FROM sessions"
            " WHERE uid = :uid AND ended_at IS NULL AND expires_at > :now"
            " AND generation < (SELECT session_generation FROM users WHERE uid = :uid)"
            " ORDER BY id LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )
        return [session_of(row) for row in rows]

    def live_of_device(
        self, uid: Uid, device_id: str, now: Instant, limit: int
    ) -> Sequence[Session]:
        """Return at most `limit` sessions of the user that this remembered device signed in."""
        rows = self.db.rows(
            "SELECT id, uid, auth_time, methods, user_agent, created_at, last_seen_at, expires_at,"
            " ended_at, proved_at, proved_by, device_id FROM sessions"
            " WHERE uid = :uid AND device_id = :device_id AND ended_at IS NULL"
            " AND expires_at > :now"
            " AND generation = (SELECT session_generation FROM users WHERE uid = :uid)"
            " ORDER BY id LIMIT :limit",
            uid=uid,
            device_id=device_id,
            now=now,
            limit=limit,
        )
        return [session_of(row) for row in rows]

    def count_live(self, uid: Uid, now: Instant) -> int:
        """Return how many sessions of the user have not ended."""
        row = self.db.row(
            "SELECT COUNT(*) FROM sessions WHERE uid = :uid AND ended_at IS NULL"
            " AND expires_at > :now"
            " AND generation = (SELECT session_generation FROM users WHERE uid = :uid)",
            uid=uid,
            now=now,
        )
        return 0 if row is None else int(row[0])

    def begin_generation(self, uid: Uid, *, keep: str = "") -> None:
        """End every session of the user except the one with the id `keep`."""
        self.db.send(
            "UPDATE users SET session_generation = session_generation + 1 WHERE uid = :uid", uid=uid
        )
        if keep:
            self.db.send(
                "UPDATE sessions SET generation ="
                " (SELECT session_generation FROM users WHERE uid = :uid)"
                " WHERE id = :id AND uid = :uid",
                id=keep,
                uid=uid,
            )

    def touch(self, session_id: str, now: Instant) -> None:
        """Record that the session was used."""
        self.db.send(
            "UPDATE sessions SET last_seen_at = :now WHERE id = :id AND last_seen_at < :now",
            id=session_id,
            now=now,
        )

    def renew(self, session: Session, before: Fingerprint, after: Fingerprint) -> bool:
        """Update the session and replace its cookie `before` by `after`.

        Exactly one concurrent caller with one cookie gets True, and none once it has ended.
        """
        renewed = self.db.run(
            "UPDATE sessions SET fingerprint = :after, auth_time = :auth_time, methods = :methods,"
            " user_agent = :user_agent, last_seen_at = :last_seen_at, expires_at = :expires_at,"
            " proved_at = :proved_at, proved_by = :proved_by, device_id = :device_id"
            " WHERE id = :id AND fingerprint = :before AND ended_at IS NULL",
            id=session.id,
            before=before,
            after=after,
            auth_time=session.auth_time,
            methods=" ".join(session.methods),
            user_agent=session.user_agent,
            last_seen_at=session.last_seen_at,
            expires_at=session.expires_at,
            proved_at=session.proved_at,
            proved_by=" ".join(session.proved_by),
            device_id=session.device_id,
        )
        return renewed == 1

    def end(self, session_id: str, now: Instant) -> bool:
        """End it. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE sessions SET ended_at = :now WHERE id = :id AND ended_at IS NULL",
            id=session_id,
            now=now,
        )
        return ended == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` sessions that expired, ended or not."""
        return self.db.run(
            "DELETE FROM sessions WHERE id IN"
            " (SELECT id FROM sessions WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


def session_of(row: Row) -> Session:
    """Return the session of a row with the columns of `find`, in their order."""
    return Session(
        id=row[0],
        uid=Uid(row[1]),
        auth_time=Instant(row[2]),
        methods=tuple(row[3].split()),
        user_agent=row[4],
        created_at=Instant(row[5]),
        last_seen_at=Instant(row[6]),
        expires_at=Instant(row[7]),
        ended_at=row[8],
        proved_at=Instant(row[9]),
        proved_by=tuple(row[10].split()),
        device_id=row[11],
    )
