"""Store of streams, of their subjects and failures, and the queue of their tokens."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.user import Uid
from valetkey.authorization.signals.model import (
    CONTROL,
    LIFETIME,
    POLL,
    STREAM_UPDATED,
    SignalFailure,
    SignalMessage,
    SignalStream,
    StreamStatus,
)
from valetkey.authorization.storage.outbox import OrderedQueue
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, later

_STREAMS = Record(SignalStream, "signal_streams")
_FAILURES = Record(SignalFailure, "signal_failures")
_MESSAGES = Record(SignalMessage, "outbox")


class SignalQueue(OrderedQueue[SignalMessage], frozen=True):
    """Tokens that wait for receivers: those of a stream in order, each until it is taken."""

    name: str = "signal"
    record: Record[SignalMessage] = _MESSAGES

    @staticmethod
    def of(tx: Transaction) -> "SignalQueue":
        """Return the queue in this transaction."""
        return SignalQueue(tx.db)

    def append(
        self, stream_id: str, token_id: str, kind: str, cause: str, facts: str, now: Instant
    ) -> None:
        """Queue a token, after those that wait for its stream; not awaited.

        `cause` is the event, "" for a message about the stream itself, which waits for no other.
        """
        self.db.send(
            "INSERT INTO outbox (id, queue, kind, webhook_id, event_id, subject, position,"
            " attempts, due_at, created_at, expires_at, facts)"
            " VALUES (:id, 'signal', :kind, :stream_id, :cause, :subject,"
            " 1 + (SELECT coalesce(max(position), 0) FROM outbox"
            " WHERE outbox.webhook_id = :stream_id AND outbox.subject = :subject),"
            " 0, :now, :now, :until, :facts)",
            id=token_id,
            kind=kind,
            stream_id=stream_id,
            cause=cause,
            subject="" if cause else CONTROL,
            now=now,
            until=later(now, LIFETIME),
            facts=facts,
        )

    def lease_next(
        self, stream: SignalStream, now: Instant, until: Instant
    ) -> Sequence[SignalMessage]:
        """Lease the next token, and the next message about the stream, if they are due.

        Of a stream that is not enabled only the message that says so. The statement reads the
        status itself: after a pause, on PostgreSQL, it could see tokens that came later than what
        the caller read.
        """
        return self.record.all(
            self.db,
            "UPDATE outbox SET due_at = :until, attempts = attempts + 1"
            " WHERE due_at <= :now AND id IN (SELECT due.id FROM outbox AS due"
            " JOIN signal_streams ON signal_streams.id = due.webhook_id"
            " WHERE due.webhook_id = :stream_id AND due.due_at <= :now"
            " AND (signal_streams.status = 'enabled'"
            " OR (due.subject = :control AND due.kind = :kind))"
            " AND NOT EXISTS (SELECT 1 FROM outbox AS earlier"
            " WHERE earlier.webhook_id = :stream_id AND earlier.subject = due.subject"
            " AND (signal_streams.status = 'enabled' OR earlier.kind = :kind)"
            " AND (earlier.position, earlier.id) < (due.position, due.id))"
            " ORDER BY due.due_at, due.position LIMIT 2) RETURNING *",
            stream_id=stream.id,
            control=CONTROL,
            kind=STREAM_UPDATED,
            now=now,
            until=until,
        )

    def next_of(self, stream: SignalStream, now: Instant, limit: int) -> Sequence[SignalMessage]:
        """Return at most `limit` tokens that wait, in order; of those, as `lease_next` chooses."""
        return self.record.all(
            self.db,
            "SELECT * FROM outbox WHERE webhook_id = :stream_id AND expires_at > :now"
            " AND (:enabled = 1 OR (subject = :control AND kind = :kind))"
            " ORDER BY subject DESC, position, id LIMIT :limit",
            stream_id=stream.id,
            enabled=int(stream.status is StreamStatus.ENABLED),
            control=CONTROL,
            kind=STREAM_UPDATED,
            now=now,
            limit=limit,
        )

    def find(self, stream_id: str, token_id: str) -> SignalMessage | None:
        """Return a token that waits for this stream."""
        return self.record.find(
            self.db,
            "SELECT * FROM outbox WHERE id = :id AND webhook_id = :stream_id",
            id=token_id,
            stream_id=stream_id,
        )

    def take(self, stream_id: str, token_id: str) -> bool:
        """Delete a token that its receiver took. Exactly one concurrent caller gets True."""
        taken = self.db.run(
            "DELETE FROM outbox WHERE id = :id AND webhook_id = :stream_id",
            id=token_id,
            stream_id=stream_id,
        )
        return taken == 1

    def clear(self, stream_id: str, limit: int) -> int:
        """Delete at most `limit` tokens of a stream, but for the message that it was updated."""
        return self.db.run(
            "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE webhook_id = :stream_id"
            " AND kind <> :kind LIMIT :limit)",
            stream_id=stream_id,
            kind=STREAM_UPDATED,
            limit=limit,
        )

    def drop_oldest(self, stream_id: str, limit: int) -> int:
        """Delete the `limit` tokens that have waited longest; those about the stream stay."""
        return self.db.run(
            "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE webhook_id = :stream_id"
            " AND subject = '' ORDER BY position, id LIMIT :limit)",
            stream_id=stream_id,
            limit=limit,
        )

    def drop_expired(self, stream_id: str, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens of a stream that waited too long."""
        return self.db.run(
            "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE webhook_id = :stream_id"
            " AND expires_at <= :now LIMIT :limit)",
            stream_id=stream_id,
            now=now,
            limit=limit,
        )


class SignalStreams(Struct, frozen=True):
    """A row for each stream, each user excluded from one, and each failed delivery."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "SignalStreams":
        """Return the store in this transaction."""
        return SignalStreams(tx.db)

    def hold_all(self) -> None:
        """Block other changes of streams until the transaction ends, before any other lock."""
        self.db.exclude(Lock.SIGNALS)

    def add(self, stream: SignalStream) -> None:
        """Create a stream."""
        _STREAMS.send(self.db, "INSERT INTO signal_streams (*) VALUES (*)", stream)

    def all(self) -> Sequence[SignalStream]:
        """Return every stream, oldest first."""
        return _STREAMS.all(self.db, "SELECT * FROM signal_streams ORDER BY created_at, id")

    def of_client(self, client_id: str) -> Sequence[SignalStream]:
        """Return the streams of a client, oldest first."""
        return _STREAMS.all(
            self.db,
            "SELECT * FROM signal_streams WHERE client_id = :client_id ORDER BY created_at, id",
            client_id=client_id,
        )

    def wanting(self, kind: str, uid: int) -> Sequence[SignalStream]:
        """Return the streams, not disabled, that want this type of event about this user."""
        return _STREAMS.all(
            self.db,
            "SELECT * FROM signal_streams WHERE status <> 'disabled'"
            " AND replace(' ' || events || ' ', ' ' || :kind || ' ', '')"
            " <> ' ' || events || ' '"
            " AND NOT EXISTS (SELECT 1 FROM signal_exclusions WHERE stream_id = signal_streams.id"
            " AND uid = :uid) ORDER BY id",
            kind=kind,
            uid=uid,
        )

    def find(self, stream_id: str) -> SignalStream | None:
        """Return the stream with this id, of whichever client."""
        return _STREAMS.find(self.db, "SELECT * FROM signal_streams WHERE id = :id", id=stream_id)

    def change(self, stream: SignalStream) -> bool:
        """Store what is chosen about a stream; a receiver elsewhere starts afresh.

        False if it is gone.
        """
        changed = self.db.run(
            "UPDATE signal_streams SET failures = CASE WHEN url = :url THEN failures ELSE 0 END,"
            " retry_at = CASE WHEN url = :url THEN retry_at ELSE 0 END,"
            " failing_since = CASE WHEN url = :url THEN failing_since END,"
            " url = :url, method = :method, sealed = :sealed, events = :events,"
            " description = :description, subject_format = :subject_format WHERE id = :id",
            id=stream.id,
            url=stream.url,
            method=stream.method,
            sealed=stream.sealed,
            events=" ".join(stream.events),
            description=stream.description,
            subject_format=stream.subject_format.value,
        )
        return changed == 1

    def set_status(
        self, stream_id: str, status: StreamStatus, reason: str, *, locked: bool
    ) -> bool:
        """Change status and reason. False if all is so already."""
        changed = self.db.run(
            "UPDATE signal_streams SET status = :status, reason = :reason, locked = :locked,"
            " failures = 0, retry_at = 0, failing_since = NULL WHERE id = :id"
            " AND (status <> :status OR reason <> :reason OR locked <> :locked)",
            id=stream_id,
            status=status.value,
            reason=reason,
            locked=int(locked),
        )
        return changed == 1

    def reseal(self, stream: SignalStream, sealed: str) -> bool:
        """Store the same secret, encrypted again. False if it changed."""
        resealed = self.db.run(
            "UPDATE signal_streams SET sealed = :sealed WHERE id = :id AND sealed = :before",
            id=stream.id,
            sealed=sealed,
            before=stream.sealed,
        )
        return resealed == 1

    def remove(self, stream_id: str) -> bool:
        """Delete a stream. Exactly one concurrent caller gets True.

        What waits for it is never sent and expires; sweeps delete its failures.
        """
        self.db.send("DELETE FROM signal_exclusions WHERE stream_id = :id", id=stream_id)
        return self.db.run("DELETE FROM signal_streams WHERE id = :id", id=stream_id) == 1

    def note_verification(self, stream_id: str, now: Instant, after: Instant) -> bool:
        """Permit a verification, and no other before `after`. False if it is too early."""
        noted = self.db.run(
            "UPDATE signal_streams SET verify_after = :after"
            " WHERE id = :id AND verify_after <= :now",
            id=stream_id,
            now=now,
            after=after,
        )
        return noted == 1

    def due(self, now: Instant) -> Sequence[str]:
        """Return the streams to enabled clients to which something may be pushed now."""
        rows = self.db.rows(
            "SELECT id FROM signal_streams WHERE method <> :poll"
            " AND retry_at <= :now AND EXISTS (SELECT 1 FROM clients"
            " WHERE clients.id = signal_streams.client_id AND clients.disabled_at IS NULL)"
            " AND EXISTS (SELECT 1 FROM outbox WHERE outbox.webhook_id = signal_streams.id"
            " AND outbox.due_at <= :now"
            " AND (signal_streams.status = 'enabled' OR outbox.kind = :kind))",
            poll=POLL,
            now=now,
            kind=STREAM_UPDATED,
        )
        return [str(row[0]) for row in rows]

    def succeeded(self, stream_id: str, now: Instant) -> None:
        """Note a delivery, which ends the pause of a receiver that answers again."""
        self.db.send(
            "UPDATE signal_streams SET failures = 0, retry_at = 0, failing_since = NULL,"
            " last_delivery_at = :now WHERE id = :id",
            id=stream_id,
            now=now,
        )

    def failed(self, stream_id: str, now: Instant, retry_at: Instant) -> None:
        """Count a failed attempt, and push nothing until `retry_at`."""
        self.db.send(
            "UPDATE signal_streams SET failures = failures + 1, retry_at = :retry_at,"
            " failing_since = coalesce(failing_since, :now) WHERE id = :id",
            id=stream_id,
            now=now,
            retry_at=retry_at,
        )

    def count_dropped(self, stream_id: str, dropped: int) -> None:
        """Count tokens that the receiver never took."""
        self.db.send(
            "UPDATE signal_streams SET dropped = dropped + :dropped WHERE id = :id",
            id=stream_id,
            dropped=dropped,
        )

    def exclude(self, stream_id: str, uid: int, now: Instant, most: int) -> bool:
        """Send nothing about a user. False if `most` users are excluded already."""
        row = self.db.row(
            "SELECT count(*) FROM signal_exclusions WHERE stream_id = :stream_id",
            stream_id=stream_id,
        )
        if row is not None and int(row[0]) >= most:
            return False
        self.db.send(
            "INSERT INTO signal_exclusions (stream_id, uid, at) VALUES (:stream_id, :uid, :now)"
            " ON CONFLICT (stream_id, uid) DO NOTHING",
            stream_id=stream_id,
            uid=uid,
            now=now,
        )
        return True

    def include(self, stream_id: str, uid: int) -> None:
        """Send what happens to a user again."""
        self.db.send(
            "DELETE FROM signal_exclusions WHERE stream_id = :stream_id AND uid = :uid",
            stream_id=stream_id,
            uid=uid,
        )

    def log(self, failure: SignalFailure) -> None:
        """Add a line to the log of failed deliveries."""
        _FAILURES.send(self.db, "INSERT INTO signal_failures (*) VALUES (*)", failure)

    def failures(self, stream_id: str, limit: int) -> Sequence[SignalFailure]:
        """Return at most `limit` failed deliveries of a stream, newest first."""
        return _FAILURES.all(
            self.db,
            "SELECT * FROM signal_failures WHERE stream_id = :stream_id"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            stream_id=stream_id,
            limit=limit,
        )

    def trim(self, stream_id: str, most: int, limit: int) -> int:
        """Delete at most `limit` of the failures of a stream that are older than `most` others."""
        return self.db.run(
            "DELETE FROM signal_failures WHERE id IN (SELECT id FROM signal_failures"
            " WHERE stream_id = :stream_id AND (at, id) <= (SELECT at, id FROM signal_failures"
            " WHERE stream_id = :stream_id ORDER BY at DESC, id DESC LIMIT 1 OFFSET :most)"
            " ORDER BY at, id LIMIT :limit)",
            stream_id=stream_id,
            most=most,
            limit=limit,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` failures logged before `before`."""
        return self.db.run(
            "DELETE FROM signal_failures WHERE id IN"
            " (SELECT id FROM signal_failures WHERE at < :before ORDER BY at LIMIT :limit)",
            before=before,
            limit=limit,
        )


def delete_of_client(db: Connection, client_id: str) -> None:
    """Delete the streams to a client, with it."""
    db.send(
        "DELETE FROM signal_exclusions WHERE stream_id IN"
        " (SELECT id FROM signal_streams WHERE client_id = :id)",
        id=client_id,
    )
    db.send("DELETE FROM signal_streams WHERE client_id = :id", id=client_id)


def delete_of_user(db: Connection, uid: Uid) -> None:
    """Forget which streams exclude a user whose account is deleted."""
    db.send("DELETE FROM signal_exclusions WHERE uid = :uid", uid=uid)
