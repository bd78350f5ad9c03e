"""Queue of notifications to apps, written in the transaction of the change."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.delivery import Delivery
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Rows that wait, are leased for each attempt, and are deleted on delivery."""

    db: Connection

    def add(self, delivery: Delivery) -> None:
        """Queue a delivery."""
        _DELIVERIES.send(
            self.db,
            "INSERT INTO deliveries (*) VALUES (*)",
            delivery,
        )

    def is_any_due(self, now: Instant) -> bool:
        """Return whether any is due: a read, so that idle processes write nothing."""
        return (
            self.db.row("SELECT id FROM deliveries WHERE due_at <= :now LIMIT 1", now=now)
            is not None
        )

    def lease(self, now: Instant, until: Instant, limit: int) -> Sequence[Delivery]:
        """Lease at most `limit` due deliveries exclusively until `until`: longest due first.

        Each goes to exactly one concurrent caller and counts another attempt.
        """
        return _DELIVERIES.all(
            self.db,
            "UPDATE deliveries SET due_at = :until, attempts = attempts + 1 WHERE due_at <= :now"
            " AND id IN (SELECT id FROM deliveries WHERE due_at <= :now ORDER BY due_at, id"
            " LIMIT :limit) RETURNING *",
            now=now,
            until=until,
            limit=limit,
        )

    def lease_of_session(self, session_id: str, now: Instant, until: Instant) -> Sequence[Delivery]:
        """Lease all deliveries about the end of one session."""
        return _DELIVERIES.all(
            self.db,
            "UPDATE deliveries SET due_at = :until, attempts = attempts + 1 WHERE session_id ="
            " :session_id AND due_at <= :now RETURNING *",
            session_id=session_id,
            now=now,
            until=until,
        )

    def finish(self, delivery_id: str) -> bool:
        """Delete a delivered or abandoned one. Exactly one concurrent caller gets True."""
        return self.db.run("DELETE FROM deliveries WHERE id = :id", id=delivery_id) == 1

    def postpone(self, delivery: Delivery, due_at: Instant) -> bool:
        """Postpone it until `due_at`. False if it is gone or another attempt has begun."""
        postponed = self.db.run(
            "UPDATE deliveries SET due_at = :due_at WHERE id = :id AND attempts = :attempts",
            id=delivery.id,
            attempts=delivery.attempts,
            due_at=due_at,
        )
        return postponed == 1

    def waiting(self) -> int:
        """Return how many are queued."""
        row = self.db.row("SELECT count(*) FROM deliveries")
        return 0 if row is None else int(row[0])

    def oldest(self) -> Instant | None:
        """Return since when the oldest of the thousand that are due first waits."""
        row = self.db.row(
            "SELECT min(created_at) FROM"
            " (SELECT created_at FROM deliveries ORDER BY due_at LIMIT 1000) AS first"
        )
        return None if row is None or row[0] is None else Instant(row[0])


_DELIVERIES = Record(Delivery, "deliveries")
