"""Queue of emails, written in the transaction of the change."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.email import QueuedEmail
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Mails:
    """Rows that wait, are leased for each attempt, and are deleted once sent."""

    db: Connection

    def add(self, mail: QueuedEmail) -> None:
        """Queue an email."""
        _MAILS.send(
            self.db,
            "INSERT INTO mails (*) VALUES (*)",
            mail,
        )

    def is_any_due(self, now: Instant) -> bool:
        """Return whether any is due: a read, so that idle processes write nothing."""
        return self.db.row("SELECT id FROM mails WHERE due_at <= :now LIMIT 1", now=now) is not None

    def lease(self, now: Instant, until: Instant, limit: int) -> Sequence[QueuedEmail]:
        """Lease at most `limit` due emails exclusively until `until`: longest due first.

        Each goes to exactly one concurrent caller and counts another attempt.
        """
        return _MAILS.all(
            self.db,
            "UPDATE mails SET due_at = :until, attempts = attempts + 1 WHERE due_at <= :now AND id"
            " IN (SELECT id FROM mails WHERE due_at <= :now ORDER BY due_at, id LIMIT :limit)"
            " RETURNING *",
            now=now,
            until=until,
            limit=limit,
        )

    def finish(self, mail_id: str) -> bool:
        """Delete a sent or abandoned one. Exactly one concurrent caller gets True."""
        return self.db.run("DELETE FROM mails WHERE id = :id", id=mail_id) == 1

    def postpone(self, mail: QueuedEmail, due_at: Instant) -> bool:
        """Postpone it until `due_at`. False if it is gone or another attempt has begun."""
        postponed = self.db.run(
            "UPDATE mails SET due_at = :due_at WHERE id = :id AND attempts = :attempts",
            id=mail.id,
            attempts=mail.attempts,
            due_at=due_at,
        )
        return postponed == 1

    def kept(self, now: Instant, limit: int) -> Sequence[QueuedEmail]:
        """Return at most `limit` of those that are kept instead of sent, newest first."""
        return _MAILS.all(
            self.db,
            "SELECT * FROM mails WHERE due_at IS NULL AND expires_at > :now ORDER BY created_at"
            " DESC, id DESC LIMIT :limit",
            now=now,
            limit=limit,
        )

    def find_kept(self, mail_id: str, now: Instant) -> QueuedEmail | None:
        """Return one of those that are kept."""
        return _MAILS.find(
            self.db,
            "SELECT * FROM mails WHERE id = :id AND due_at IS NULL AND expires_at > :now",
            id=mail_id,
            now=now,
        )

    def waiting(self) -> int:
        """Return how many are not sent yet."""
        row = self.db.row("SELECT count(*) FROM mails WHERE due_at IS NOT NULL")
        return 0 if row is None else int(row[0])

    def oldest(self) -> Instant | None:
        """Return since when the oldest of the thousand that are due first waits."""
        row = self.db.row(
            "SELECT min(created_at) FROM (SELECT created_at FROM mails WHERE due_at IS NOT NULL"
            " ORDER BY due_at LIMIT 1000) AS first"
        )
        return None if row is None or row[0] is None else Instant(row[0])

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` that expired before `before`."""
        return self.db.run(
            "DELETE FROM mails WHERE expires_at <= :before AND id IN"
            " (SELECT id FROM mails WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=before,
            limit=limit,
        )


_MAILS = Record(QueuedEmail, "mails")
