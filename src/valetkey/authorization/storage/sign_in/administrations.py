"""Sessions signed in to the administration."""

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class Administration(Struct, frozen=True):
    """A sign-in to the administration; of its cookie only a fingerprint is stored."""

    session_id: str
    fingerprint: Fingerprint
    entered_at: Instant
    last_seen_at: Instant
    expires_at: Instant


class Administrations(Struct, frozen=True):
    """Administration sign-ins by session."""

    db: Connection

    def enter(self, entry: Administration) -> None:
        """Begin a new administration sign-in of this session and void the earlier cookie."""
        _ENTRIES.run(
            self.db,
            "INSERT INTO administrations (*) VALUES (*) ON CONFLICT (session_id) DO UPDATE SET"
            " fingerprint = excluded.fingerprint, entered_at = excluded.entered_at, last_seen_at ="
            " excluded.last_seen_at, expires_at = excluded.expires_at",
            entry,
        )

    def find(self, session_id: str) -> Administration | None:
        """Return this session's sign-in, expired or not."""
        return _ENTRIES.find(
            self.db,
            "SELECT * FROM administrations WHERE session_id = :session_id",
            session_id=session_id,
        )

    def touch(self, session_id: str, now: Instant) -> None:
        """Record that it was used."""
        self.db.send(
            "UPDATE administrations SET last_seen_at = :now"
            " WHERE session_id = :session_id AND last_seen_at < :now",
            session_id=session_id,
            now=now,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` expired ones."""
        return self.db.run(
            "DELETE FROM administrations WHERE session_id IN (SELECT session_id"
            " FROM administrations WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


_ENTRIES = Record(Administration, "administrations")
