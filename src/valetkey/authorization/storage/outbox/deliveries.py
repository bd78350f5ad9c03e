"""The outbox: what apps must be told, written with the change that they are told of."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.delivery import Delivery, DeliveryKind
from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Rows that wait, are at somebody's hands for a while, and go when they arrived."""

    db: Connection

    def add(self, delivery: Delivery) -> None:
        """Put it into the outbox."""
        self.db.send(
            "INSERT INTO deliveries (id, kind, client_id, session_id, uid, attempts, due_at,"
            " created_at, expires_at)"
            " VALUES (:id, :kind, :client_id, :session_id, :uid, :attempts, :due_at,"
            " :created_at, :expires_at)",
            id=delivery.id,
            kind=delivery.kind.value,
            client_id=delivery.client_id,
            session_id=delivery.session_id,
            uid=delivery.uid,
            attempts=delivery.attempts,
            due_at=delivery.due_at,
            created_at=delivery.created_at,
            expires_at=delivery.expires_at,
        )

    def is_any_due(self, now: Instant) -> bool:
        """Whether there is anything to do: a look, so that idle processes write nothing."""
        return (
            self.db.row("SELECT id FROM deliveries WHERE due_at <= :now LIMIT 1", now=now)
            is not None
        )

    def lease(self, now: Instant, until: Instant, limit: int) -> Sequence[Delivery]:
        """At most `limit` that are due, nobody else's before `until`: longest due first.

        Of all who ask, one is given each; with it another attempt has begun.
        """
        rows = self.db.rows(
            "UPDATE deliveries SET due_at = :until, attempts = attempts + 1"
            " WHERE due_at <= :now AND id IN"
            " (SELECT id FROM deliveries WHERE due_at <= :now ORDER BY due_at, id LIMIT :limit)"
            " RETURNING id, kind, client_id, session_id, uid, attempts, due_at, created_at,"
            " expires_at",
            now=now,
            until=until,
            limit=limit,
        )
        return [_delivery(row) for row in rows]

    def lease_of_session(self, session_id: str, now: Instant, until: Instant) -> Sequence[Delivery]:
        """The same for all that tell of one session's end."""
        rows = self.db.rows(
            "UPDATE deliveries SET due_at = :until, attempts = attempts + 1"
            " WHERE session_id = :session_id AND due_at <= :now"
            " RETURNING id, kind, client_id, session_id, uid, attempts, due_at, created_at,"
            " expires_at",
            session_id=session_id,
            now=now,
            until=until,
        )
        return [_delivery(row) for row in rows]

    def finish(self, delivery_id: str) -> bool:
        """It arrived, or never will: take it out. Of all who try, exactly one is told True."""
        return self.db.run("DELETE FROM deliveries WHERE id = :id", id=delivery_id) == 1

    def postpone(self, delivery: Delivery, due_at: Instant) -> bool:
        """Let it wait until `due_at`. False if it has gone or somebody began another attempt."""
        postponed = self.db.run(
            "UPDATE deliveries SET due_at = :due_at WHERE id = :id AND attempts = :attempts",
            id=delivery.id,
            attempts=delivery.attempts,
            due_at=due_at,
        )
        return postponed == 1

    def waiting(self) -> int:
        """How many have not arrived."""
        row = self.db.row("SELECT count(*) FROM deliveries")
        return 0 if row is None else int(row[0])

    def oldest(self) -> Instant | None:
        """Since when the oldest of the thousand that are due first waits."""
        row = self.db.row(
            "SELECT min(created_at) FROM"
            " (SELECT created_at FROM deliveries ORDER BY due_at LIMIT 1000) AS first"
        )
        return None if row is None or row[0] is None else Instant(row[0])


def _delivery(row: Row) -> Delivery:
    return Delivery(
        id=row[0],
        kind=DeliveryKind(row[1]),
        client_id=row[2],
        session_id=row[3],
        uid=Uid(row[4]),
        attempts=row[5],
        due_at=Instant(row[6]),
        created_at=Instant(row[7]),
        expires_at=Instant(row[8]),
    )
