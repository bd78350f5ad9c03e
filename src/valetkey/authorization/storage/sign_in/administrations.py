"""Sessions in which somebody entered the pages of administration."""

from dataclasses import dataclass

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


@dataclass(frozen=True, slots=True)
class Administration:
    """That somebody proved who they are to enter; of its cookie only a fingerprint is kept."""

    session_id: str
    fingerprint: Fingerprint
    entered_at: Instant
    last_seen_at: Instant
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class Administrations:
    """Who is in, session by session."""

    db: Connection

    def enter(self, entry: Administration) -> None:
        """Begin anew in this session; the cookie of before counts no more."""
        self.db.run(
            "INSERT INTO administrations"
            " (session_id, fingerprint, entered_at, last_seen_at, expires_at)"
            " VALUES (:session_id, :fingerprint, :entered_at, :last_seen_at, :expires_at)"
            " ON CONFLICT (session_id) DO UPDATE SET fingerprint = excluded.fingerprint,"
            " entered_at = excluded.entered_at, last_seen_at = excluded.last_seen_at,"
            " expires_at = excluded.expires_at",
            session_id=entry.session_id,
            fingerprint=entry.fingerprint,
            entered_at=entry.entered_at,
            last_seen_at=entry.last_seen_at,
            expires_at=entry.expires_at,
        )

    def find(self, session_id: str) -> Administration | None:
        """The entry of this session, over or not."""
        row = self.db.row(
            "SELECT session_id, fingerprint, entered_at, last_seen_at, expires_at"
            " FROM administrations WHERE session_id = :session_id",
            session_id=session_id,
        )
        if row is None:
            return None
        return Administration(
            row[0], Fingerprint(row[1]), Instant(row[2]), Instant(row[3]), Instant(row[4])
        )

    def touch(self, session_id: str, now: Instant) -> None:
        """Note that it was used."""
        self.db.send(
            "UPDATE administrations SET last_seen_at = :now"
            " WHERE session_id = :session_id AND last_seen_at < :now",
            session_id=session_id,
            now=now,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` that are over."""
        return self.db.run(
            "DELETE FROM administrations WHERE session_id IN (SELECT session_id"
            " FROM administrations WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )
