"""The outbox: messages delivered at least once, queued in the transaction of the change."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from valetkey.authorization.model.email import QueuedEmail
from valetkey.authorization.model.user import Delivery
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class Message(Protocol):
    """A message as its queue sees it."""

    @property
    def id(self) -> str:
        """The key of its row."""
        ...

    @property
    def attempts(self) -> int:
        """The number of attempts begun."""
        ...


MessageT = TypeVar("MessageT", bound=Message)

_LOGOUTS = Record(Delivery, "outbox")
_EMAILS = Record(QueuedEmail, "outbox")


class Queue(Struct, Generic[MessageT], frozen=True):
    """Messages of one kind that wait, are leased for each attempt, and are deleted on delivery."""

    db: Connection
    name: str
    record: Record[MessageT]

    def add(self, message: MessageT) -> None:
        """Queue a message."""
        self.record.send(
            self.db, "INSERT INTO outbox (*, queue) VALUES (*, :queue)", message, queue=self.name
        )

    def is_any_due(self, now: Instant) -> bool:
        """Return whether any is due: a read, so that idle processes write nothing."""
        due = self.db.row(
            "SELECT id FROM outbox WHERE queue = :queue AND due_at <= :now LIMIT 1",
            queue=self.name,
            now=now,
        )
        return due is not None

    def lease(self, now: Instant, until: Instant, limit: int) -> Sequence[MessageT]:
        """Lease at most `limit` due messages exclusively until `until`: longest due first.

        Each goes to exactly one concurrent caller and counts another attempt.
        """
        return self.record.all(
            self.db,
            "UPDATE outbox SET due_at = :until, attempts = attempts + 1"
            " WHERE due_at <= :now AND id IN (SELECT id FROM outbox"
            " WHERE queue = :queue AND due_at <= :now ORDER BY due_at, id LIMIT :limit)"
            " RETURNING *",
            queue=self.name,
            now=now,
            until=until,
            limit=limit,
        )

    def finish(self, message_id: str) -> bool:
        """Delete a delivered or abandoned one. Exactly one concurrent caller gets True."""
        return self.db.run("DELETE FROM outbox WHERE id = :id", id=message_id) == 1

    def postpone(self, message: MessageT, due_at: Instant) -> bool:
        """Postpone it until `due_at`. False if it is gone or another attempt has begun."""
        postponed = self.db.run(
            "UPDATE outbox SET due_at = :due_at WHERE id = :id AND attempts = :attempts",
            id=message.id,
            attempts=message.attempts,
            due_at=due_at,
        )
        return postponed == 1

    def waiting(self) -> int:
        """Return how many are queued."""
        row = self.db.row(
            "SELECT count(*) FROM outbox WHERE queue = :queue AND due_at IS NOT NULL",
            queue=self.name,
        )
        return 0 if row is None else int(row[0])

    def oldest(self) -> Instant | None:
        """Return since when the oldest of the thousand that are due first waits."""
        row = self.db.row(
            "SELECT min(created_at) FROM (SELECT created_at FROM outbox WHERE queue = :queue"
            " AND due_at IS NOT NULL ORDER BY due_at LIMIT 1000) AS first",
            queue=self.name,
        )
        return None if row is None or row[0] is None else Instant(row[0])


class ReceiverMessage(Struct, frozen=True):
    """A message to one of several receivers; `attempts` counts those begun.

    The column with the receiver is named after the first kind, webhooks.
    """

    id: str
    kind: str
    webhook_id: str
    event_id: str
    subject: str
    position: int
    attempts: int
    due_at: Instant
    created_at: Instant
    expires_at: Instant

    @property
    def receiver(self) -> str:
        """The id of its receiver."""
        return self.webhook_id


class OrderedQueue(Queue[MessageT], frozen=True):
    """Messages to several receivers. Those to one receiver about one subject are sent in order.

    Each message has a subject and its position among those of the same receiver and subject.
    """

    def lease_first(
        self, receiver: str, now: Instant, until: Instant, limit: int
    ) -> Sequence[MessageT]:
        """Lease at most `limit` due messages exclusively: of each subject only the first.

        Messages of a subject are claimed in order, one at a time across workers. Passes
        over those that wait for one not due: a limit on them would hide a postponed first one.
        """
        return self.record.all(
            self.db,
            "UPDATE outbox SET due_at = :until, attempts = attempts + 1"
            " WHERE due_at <= :now AND id IN (SELECT due.id FROM outbox AS due"
            " WHERE due.webhook_id = :receiver AND due.due_at <= :now"
            " AND NOT EXISTS (SELECT 1 FROM outbox AS earlier"
            " WHERE earlier.webhook_id = :receiver AND earlier.subject = due.subject"
            " AND (earlier.position, earlier.id) < (due.position, due.id))"
            " ORDER BY due.due_at, due.position LIMIT :limit) RETURNING *",
            receiver=receiver,
            now=now,
            until=until,
            limit=limit,
        )

    def waiting_for(self, receiver: str) -> int:
        """Return how many messages wait for a receiver."""
        row = self.db.row(
            "SELECT count(*) FROM outbox WHERE webhook_id = :receiver", receiver=receiver
        )
        return 0 if row is None else int(row[0])


class LogoutQueue(Queue[Delivery], frozen=True):
    """Logout tokens to send to apps."""

    name: str = "logout"
    record: Record[Delivery] = _LOGOUTS

    def lease_of_session(self, session_id: str, now: Instant, until: Instant) -> Sequence[Delivery]:
        """Lease all messages about the end of one session."""
        return self.record.all(
            self.db,
            "UPDATE outbox SET due_at = :until, attempts = attempts + 1"
            " WHERE session_id = :session_id AND due_at <= :now RETURNING *",
            session_id=session_id,
            now=now,
            until=until,
        )


class EmailQueue(Queue[QueuedEmail], frozen=True):
    """Emails to send, and those that are kept for the mailbox page instead."""

    name: str = "email"
    record: Record[QueuedEmail] = _EMAILS

    def for_mailbox(self, now: Instant, limit: int) -> Sequence[QueuedEmail]:
        """Return at most `limit` of those that are kept instead of sent, newest first."""
        return self.record.all(
            self.db,
            "SELECT * FROM outbox WHERE due_at IS NULL AND expires_at > :now"
            " ORDER BY created_at DESC, id DESC LIMIT :limit",
            now=now,
            limit=limit,
        )

    def find_kept(self, message_id: str, now: Instant) -> QueuedEmail | None:
        """Return one of those that are kept."""
        return self.record.find(
            self.db,
            "SELECT * FROM outbox WHERE id = :id AND due_at IS NULL AND expires_at > :now",
            id=message_id,
            now=now,
        )


class Outbox(Struct, frozen=True):
    """All outboxes together, for background jobs."""

    db: Connection

    def adopt(self, limit: int) -> int:
        """Move at most `limit` rows of each table in which the version before has its queue.

        Servers of that version may run beside this one during an upgrade.
        """
        self.db.send(
            "INSERT INTO outbox (id, queue, kind, uid, sealed, attempts, due_at, created_at,"
            " expires_at) SELECT id, 'email', kind, uid, sealed, attempts, due_at, created_at,"
            " expires_at FROM mails ORDER BY id LIMIT :limit ON CONFLICT (id) DO NOTHING",
            limit=limit,
        )
        self.db.send(
            "INSERT INTO outbox (id, queue, kind, uid, client_id, session_id, attempts, due_at,"
            " created_at, expires_at) SELECT id, 'logout', kind, uid, client_id, session_id,"
            " attempts, due_at, created_at, expires_at FROM deliveries ORDER BY id LIMIT :limit"
            " ON CONFLICT (id) DO NOTHING",
            limit=limit,
        )
        mails = self.db.run(
            "DELETE FROM mails WHERE id IN (SELECT id FROM mails ORDER BY id LIMIT :limit)"
            " AND EXISTS (SELECT 1 FROM outbox WHERE outbox.id = mails.id)",
            limit=limit,
        )
        deliveries = self.db.run(
            "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries ORDER BY id"
            " LIMIT :limit) AND EXISTS (SELECT 1 FROM outbox WHERE outbox.id = deliveries.id)",
            limit=limit,
        )
        return max(mails, deliveries)

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` that expired before `before`."""
        return self.db.run(
            "DELETE FROM outbox WHERE expires_at <= :before AND id IN"
            " (SELECT id FROM outbox WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=before,
            limit=limit,
        )
