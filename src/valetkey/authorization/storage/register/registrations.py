"""Self-registered clients: their registration access token and last use."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint

_NOTED_EVERY = days(1)


@dataclass(frozen=True, slots=True)
class Registrations:
    """One row for each client that registered itself, until the client is deleted."""

    db: Connection

    def add(self, client_id: str, token: Fingerprint, metadata: Fingerprint, now: Instant) -> None:
        """Record that the client registered itself, with the appearance `metadata`."""
        self.db.send(
            "INSERT INTO registrations (client_id, token_print, metadata_print, created_at,"
            " active_at, used) VALUES (:client_id, :token, :metadata, :now, :now, 0)",
            client_id=client_id,
            token=token,
            metadata=metadata,
            now=now,
        )

    def token_of(self, client_id: str) -> Fingerprint | None:
        """Return the fingerprint of the client's registration access token; None without one."""
        row = self.db.row(
            "SELECT token_print FROM registrations"
            " WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
        )
        return None if row is None else Fingerprint(row[0])

    def describe(self, client_id: str, metadata: Fingerprint) -> None:
        """Replace the recorded appearance."""
        self.db.send(
            "UPDATE registrations SET metadata_print = :metadata WHERE client_id = :client_id",
            client_id=client_id,
            metadata=metadata,
        )

    def note_use(self, client_id: str, now: Instant) -> None:
        """Record that it was used today."""
        self.db.send(
            "UPDATE registrations SET used = 1, active_at = :now"
            " WHERE client_id = :client_id AND (used = 0 OR active_at <= :before)",
            client_id=client_id,
            now=now,
            before=now - _NOTED_EVERY,
        )

    def unused_alike(self, metadata: Fingerprint) -> Sequence[tuple[str, Instant]]:
        """Return unused clients with the appearance `metadata`, oldest first: id and creation."""
        rows = self.db.rows(
            "SELECT client_id, created_at FROM registrations"
            " WHERE metadata_print = :metadata AND used = 0 AND removed_at IS NULL"
            " ORDER BY created_at, client_id",
            metadata=metadata,
        )
        return [(client_id, created_at) for client_id, created_at in rows]

    def idle(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` clients not used since `before`."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations"
            " WHERE active_at <= :before AND removed_at IS NULL LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def removed(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` clients that ended before `before` and still exist."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations WHERE removed_at <= :before LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def end(self, client_id: str, now: Instant) -> bool:
        """End the registration. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_unused(self, client_id: str, now: Instant) -> bool:
        """End the registration unless it was used meanwhile. Exactly one caller gets True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL AND used = 0",
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_idle(self, client_id: str, before: Instant, now: Instant) -> bool:
        """End the registration unless it was used since `before`. Exactly one caller gets True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL AND active_at <= :before",
            client_id=client_id,
            before=before,
            now=now,
        )
        return ended == 1

    def adopt(self, client_id: str, now: Instant) -> bool:
        """Make it the operator's own: without a registration token, and never ended when idle."""
        adopted = self.db.run(
            "DELETE FROM registrations WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
        )
        if adopted:
            self.db.send(
                "INSERT INTO adopted_clients (client_id, adopted_at) VALUES (:client_id, :now)"
                " ON CONFLICT (client_id) DO NOTHING",
                client_id=client_id,
                now=now,
            )
        return adopted == 1

    def is_adopted(self, client_id: str) -> bool:
        """Return whether it registered itself and was adopted by the operator."""
        row = self.db.row(
            "SELECT client_id FROM adopted_clients WHERE client_id = :client_id",
            client_id=client_id,
        )
        return row is not None
