"""Applications that registered themselves: the token that manages each, and when it was used."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint

_NOTED_EVERY = days(1)


@dataclass(frozen=True, slots=True)
class Registrations:
    """One row for each application that registered itself, until its client is deleted."""

    db: Connection

    def add(self, client_id: str, token: Fingerprint, metadata: Fingerprint, now: Instant) -> None:
        """Remember that the client registered itself, and looks like `metadata`."""
        self.db.send(
            "INSERT INTO registrations (client_id, token_print, metadata_print, created_at,"
            " active_at, used) VALUES (:client_id, :token, :metadata, :now, :now, 0)",
            client_id=client_id,
            token=token,
            metadata=metadata,
            now=now,
        )

    def token_of(self, client_id: str) -> Fingerprint | None:
        """The fingerprint of the token that manages the client; None if none does any more."""
        row = self.db.row(
            "SELECT token_print FROM registrations"
            " WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
        )
        return None if row is None else Fingerprint(row[0])

    def describe(self, client_id: str, metadata: Fingerprint) -> None:
        """Remember that it looks like `metadata` now."""
        self.db.send(
            "UPDATE registrations SET metadata_print = :metadata WHERE client_id = :client_id",
            client_id=client_id,
            metadata=metadata,
        )

    def note_use(self, client_id: str, now: Instant) -> None:
        """Remember that it was used today."""
        self.db.send(
            "UPDATE registrations SET used = 1, active_at = :now"
            " WHERE client_id = :client_id AND (used = 0 OR active_at <= :before)",
            client_id=client_id,
            now=now,
            before=now - _NOTED_EVERY,
        )

    def unused_alike(self, metadata: Fingerprint) -> Sequence[tuple[str, Instant]]:
        """Those that look like `metadata` and were never used, oldest first: id and beginning."""
        rows = self.db.rows(
            "SELECT client_id, created_at FROM registrations"
            " WHERE metadata_print = :metadata AND used = 0 AND removed_at IS NULL"
            " ORDER BY created_at, client_id",
            metadata=metadata,
        )
        return [(row[0], Instant(row[1])) for row in rows]

    def idle(self, before: Instant, limit: int) -> Sequence[str]:
        """The ids of at most `limit` that nobody used since `before`."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations"
            " WHERE active_at <= :before AND removed_at IS NULL LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def removed(self, before: Instant, limit: int) -> Sequence[str]:
        """The ids of at most `limit` that ended before `before` and are still there."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations WHERE removed_at <= :before LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def end(self, client_id: str, now: Instant) -> bool:
        """Nothing manages it any more. Of all who try, exactly one is told True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_unused(self, client_id: str, now: Instant) -> bool:
        """The same, unless it was used by now."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL AND used = 0",
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_idle(self, client_id: str, before: Instant, now: Instant) -> bool:
        """The same, unless it was used since `before`."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL AND active_at <= :before",
            client_id=client_id,
            before=before,
            now=now,
        )
        return ended == 1

    def adopt(self, client_id: str, now: Instant) -> bool:
        """Make it the operator's own: no token manages it, and it never ends by itself."""
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
        """Whether it registered itself and is the operator's own by now."""
        row = self.db.row(
            "SELECT client_id FROM adopted_clients WHERE client_id = :client_id",
            client_id=client_id,
        )
        return row is not None
