"""Participants: the apps that took part in a session and must be notified of its end."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Participants:
    """One row for each pair of session and client; it stays until the session would expire."""

    db: Connection

    def add(self, session_id: str, client_id: str, now: Instant) -> bool:
        """Record that the client is told of the session, once. False if the session has ended.

        The client may be told in this transaction: a transaction that ends the session meanwhile
        waits for it, and then finds the client here.
        """
        # Only to lock the row: transactions that end the session lock it too.
        lives = self.db.run(
            "UPDATE sessions SET ended_at = NULL"
            " WHERE id = :session_id AND ended_at IS NULL AND expires_at > :now",
            session_id=session_id,
            now=now,
        )
        if not lives:
            return False
        self.db.send(
            "INSERT INTO participants (session_id, client_id, since, expires_at)"
            " SELECT id, :client_id, :now, expires_at FROM sessions WHERE id = :session_id"
            " ON CONFLICT (session_id, client_id) DO NOTHING",
            session_id=session_id,
            client_id=client_id,
            now=now,
        )
        return True

    def extend(self, session_id: str, until: Instant) -> None:
        """Keep them for as long as the session now lasts."""
        self.db.send(
            "UPDATE participants SET expires_at = :until WHERE session_id = :session_id",
            session_id=session_id,
            until=until,
        )

    def of(self, session_id: str) -> Sequence[str]:
        """Return the ids of the clients that were told, earliest first."""
        rows = self.db.rows(
            "SELECT client_id FROM participants WHERE session_id = :session_id"
            " ORDER BY since, client_id",
            session_id=session_id,
        )
        return [row[0] for row in rows]

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` of expired sessions."""
        return self.db.run(
            "DELETE FROM participants WHERE (session_id, client_id) IN"
            " (SELECT session_id, client_id FROM participants WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )
