"""Store of webhooks and of the log of attempts."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.storage.outbox import OrderedQueue
from valetkey.authorization.storage.records import RecordedEvent
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks.model import (
    LIFETIME,
    OPERATOR,
    OWNER,
    Webhook,
    WebhookAttempt,
    WebhookMessage,
)
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, later

_WEBHOOKS = Record(Webhook, "webhooks")
_ATTEMPTS = Record(WebhookAttempt, "webhook_attempts")
_MESSAGES = Record(WebhookMessage, "outbox")


class SubscribedEvents(Struct):
    """The events for which there are webhooks, as this process last read them.

    Spares transactions a statement per event. `names` are those of the operator's webhooks, ""
    for every event, and None while unknown: then each event looks. `apps` are client ids and names.
    `none_exist` says that there is no webhook at all, not even a disabled one.
    """

    names: frozenset[str] | None = None
    apps: frozenset[tuple[str | None, str]] = frozenset()
    none_exist: bool = False

    def accepts(self, name: str, client_id: str | None) -> bool:
        """Return whether there may be a webhook for an event of this name, about this client."""
        event_names = self.names
        if event_names is None or name in event_names or "" in event_names:
            return True
        return bool(self.apps) and (client_id, name) in self.apps

    def handle(self, db: Connection, event: RecordedEvent) -> None:
        """Queue the event for each webhook that wants it."""
        Webhooks(db).queue(event.id, event.name, event.client_id, event.subject, event.at)


def delete_of_client(db: Connection, client_id: str) -> None:
    """Delete the webhooks of an app, with it."""
    db.send("DELETE FROM webhooks WHERE client_id = :id", id=client_id)


class Webhooks(Struct, frozen=True):
    """A row for each webhook, and a row for each attempt."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "Webhooks":
        """Return the store in this transaction."""
        return Webhooks(tx.db)

    def hold_all(self) -> None:
        """Block other changes of webhooks until the transaction ends, before any other lock."""
        self.db.exclude(Lock.WEBHOOKS)

    def add(self, webhook: Webhook, most: int) -> bool:
        """Create a webhook. False if its owner has `most` already. Call `hold_all` first."""
        row = (
            self.db.row("SELECT count(*) FROM webhooks WHERE client_id IS NULL")
            if webhook.client_id is None
            else self.db.row(
                "SELECT count(*) FROM webhooks WHERE client_id = :client_id",
                client_id=webhook.client_id,
            )
        )
        if row is not None and int(row[0]) >= most:
            return False
        _change(self.db)
        return _WEBHOOKS.run(self.db, "INSERT INTO webhooks (*) VALUES (*)", webhook) == 1

    def all(self) -> Sequence[Webhook]:
        """Return every webhook, oldest first."""
        return _WEBHOOKS.all(self.db, "SELECT * FROM webhooks ORDER BY created_at, id")

    def of_operator(self) -> Sequence[Webhook]:
        """Return the operator's webhooks, oldest first; at most `MOST_WEBHOOKS`."""
        return _WEBHOOKS.all(
            self.db, "SELECT * FROM webhooks WHERE client_id IS NULL ORDER BY created_at, id"
        )

    def of_client(self, client_id: str) -> Sequence[Webhook]:
        """Return the webhooks of an app, oldest first; at most `MOST_WEBHOOKS_OF_APP`."""
        return _WEBHOOKS.all(
            self.db,
            "SELECT * FROM webhooks WHERE client_id = :client_id ORDER BY created_at, id",
            client_id=client_id,
        )

    def change(self, webhook: Webhook) -> bool:
        """Store address, description and events. A receiver at another address starts afresh.

        False if there is no such webhook.
        """
        _change(self.db)
        changed = self.db.run(
            "UPDATE webhooks SET failures = CASE WHEN url = :url THEN failures ELSE 0 END,"
            " retry_at = CASE WHEN url = :url THEN retry_at ELSE 0 END,"
            " failing_since = CASE WHEN url = :url THEN failing_since END,"
            " url = :url, description = :description, events = :events WHERE id = :id",
            id=webhook.id,
            url=webhook.url,
            description=webhook.description,
            events=" ".join(webhook.events),
        )
        return changed == 1

    def find(self, webhook_id: str) -> Webhook | None:
        """Return the webhook with this id, of the server or of an app."""
        return _WEBHOOKS.find(self.db, "SELECT * FROM webhooks WHERE id = :id", id=webhook_id)

    def remove(self, webhook_id: str) -> bool:
        """Delete a webhook. Exactly one concurrent caller gets True.

        What waits for it is never sent; sweeps delete it and the log, a batch at a time.
        """
        _change(self.db)
        return self.db.run("DELETE FROM webhooks WHERE id = :id", id=webhook_id) == 1

    def disable(self, webhook_id: str, because: str, now: Instant) -> bool:
        """Disable a webhook. Exactly one concurrent caller gets True."""
        _change(self.db)
        disabled = self.db.run(
            "UPDATE webhooks SET disabled_at = :now, disabled_because = :because,"
            " failing_since = CASE WHEN :decided = 1 THEN NULL"
            " ELSE coalesce(failing_since, :now) END"
            " WHERE id = :id AND disabled_at IS NULL",
            id=webhook_id,
            because=because,
            decided=int(because in {OPERATOR, OWNER}),
            now=now,
        )
        return disabled == 1

    def enable(self, webhook_id: str, most: int) -> bool:
        """Enable a disabled webhook. Exactly one concurrent caller gets True.

        `most` further messages may wait.
        """
        _change(self.db)
        enabled = self.db.run(
            "UPDATE webhooks SET disabled_at = NULL, disabled_because = '', failures = 0,"
            " retry_at = 0, failing_since = NULL, most_waiting = :most +"
            " (SELECT count(*) FROM outbox WHERE outbox.webhook_id = :id)"
            " WHERE id = :id AND disabled_at IS NOT NULL",
            id=webhook_id,
            most=most,
        )
        return enabled == 1

    def rotate(self, webhook_id: str, before: str, sealed: str, until: Instant) -> bool:
        """Replace the secret `before`, which also signs until `until`. False if it is another."""
        rotated = self.db.run(
            "UPDATE webhooks SET sealed = :sealed, previous_sealed = :before,"
            " previous_until = :until WHERE id = :id AND sealed = :before",
            id=webhook_id,
            before=before,
            sealed=sealed,
            until=until,
        )
        return rotated == 1

    def reseal(self, webhook: Webhook, sealed: str, previous_sealed: str | None) -> bool:
        """Store the same secrets, encrypted again. False if they changed meanwhile."""
        resealed = self.db.run(
            "UPDATE webhooks SET sealed = :sealed, previous_sealed = :previous_sealed"
            " WHERE id = :id AND sealed = :before",
            id=webhook.id,
            before=webhook.sealed,
            sealed=sealed,
            previous_sealed=previous_sealed,
        )
        return resealed == 1

    def queue(
        self, event_id: str, name: str, client_id: str | None, subject: str, now: Instant
    ) -> None:
        """Queue an event for each webhook that wants it: one statement, not awaited."""
        self.db.send(
            "INSERT INTO outbox (id, queue, kind, webhook_id, event_id, subject, position,"
            " attempts, due_at, created_at, expires_at)"
            " SELECT :event_id || '.' || webhooks.id, 'webhook', :name, webhooks.id, :event_id,"
            " :subject, 1 + (SELECT coalesce(max(position), 0) FROM outbox"
            " WHERE outbox.webhook_id = webhooks.id AND outbox.subject = :subject),"
            " 0, :now, :now, :until FROM webhooks WHERE disabled_at IS NULL"
            " AND (client_id IS NULL OR client_id = :client_id)"
            " AND (events = '' OR replace(' ' || events || ' ', ' ' || :name || ' ', '')"
            " <> ' ' || events || ' ')",
            event_id=event_id,
            name=name,
            client_id=client_id,
            subject=subject,
            now=now,
            until=later(now, LIFETIME),
        )

    def queue_one(
        self, webhook_id: str, event_id: str, name: str, subject: str, now: Instant
    ) -> bool:
        """Queue a message for one webhook. False if it waits already."""
        queued = self.db.run(
            "INSERT INTO outbox (id, queue, kind, webhook_id, event_id, subject, position,"
            " attempts, due_at, created_at, expires_at)"
            " VALUES (:event_id || '.' || :webhook_id, 'webhook', :name, :webhook_id, :event_id,"
            " :subject, 1 + (SELECT coalesce(max(position), 0) FROM outbox"
            " WHERE outbox.webhook_id = :webhook_id AND outbox.subject = :subject),"
            " 0, :now, :now, :until) ON CONFLICT (id) DO NOTHING",
            webhook_id=webhook_id,
            event_id=event_id,
            name=name,
            subject=subject,
            now=now,
            until=later(now, LIFETIME),
        )
        return queued == 1

    def due(self, now: Instant) -> Sequence[str]:
        """Return the enabled webhooks that may be sent something now."""
        rows = self.db.rows(
            "SELECT id FROM webhooks WHERE disabled_at IS NULL AND retry_at <= :now"
            " AND EXISTS (SELECT 1 FROM outbox WHERE outbox.webhook_id = webhooks.id"
            " AND outbox.due_at <= :now)",
            now=now,
        )
        return [str(row[0]) for row in rows]

    def succeeded(self, webhook_id: str) -> None:
        """End the pause of a webhook whose receiver answers again."""
        self.db.send(
            "UPDATE webhooks SET failures = 0, retry_at = 0, failing_since = NULL"
            " WHERE id = :id AND failures > 0",
            id=webhook_id,
        )

    def failed(self, webhook_id: str, now: Instant, retry_at: Instant) -> None:
        """Count a failed attempt, and pause the webhook until `retry_at`."""
        self.db.send(
            "UPDATE webhooks SET failures = failures + 1, retry_at = :retry_at,"
            " failing_since = coalesce(failing_since, :now) WHERE id = :id",
            id=webhook_id,
            now=now,
            retry_at=retry_at,
        )

    def with_full_queue(self) -> Sequence[str]:
        """Return the enabled webhooks for which more messages wait than may."""
        rows = self.db.rows(
            "SELECT id FROM webhooks WHERE disabled_at IS NULL AND most_waiting <"
            " (SELECT count(*) FROM outbox WHERE outbox.webhook_id = webhooks.id)"
        )
        return [str(row[0]) for row in rows]

    def is_overfull(self, webhook_id: str) -> bool:
        """Return whether more messages wait for a webhook than may."""
        row = self.db.row(
            "SELECT id FROM webhooks WHERE id = :id AND most_waiting <"
            " (SELECT count(*) FROM outbox WHERE outbox.webhook_id = :id)",
            id=webhook_id,
        )
        return row is not None

    def log(self, attempt: WebhookAttempt) -> None:
        """Add a line to the log of attempts."""
        _ATTEMPTS.send(self.db, "INSERT INTO webhook_attempts (*) VALUES (*)", attempt)

    def attempts(self, webhook_id: str, limit: int) -> Sequence[WebhookAttempt]:
        """Return at most `limit` attempts of a webhook, newest first."""
        return _ATTEMPTS.all(
            self.db,
            "SELECT * FROM webhook_attempts WHERE webhook_id = :webhook_id"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            webhook_id=webhook_id,
            limit=limit,
        )

    def logged_more(self, most: int) -> Sequence[str]:
        """Return the webhooks whose log has more than `most` attempts."""
        rows = self.db.rows(
            "SELECT id FROM webhooks WHERE :most < (SELECT count(*) FROM webhook_attempts"
            " WHERE webhook_attempts.webhook_id = webhooks.id)",
            most=most,
        )
        return [str(row[0]) for row in rows]

    def trim(self, webhook_id: str, most: int, limit: int) -> int:
        """Delete at most `limit` of the attempts of a webhook that are older than `most` others."""
        return self.db.run(
            "DELETE FROM webhook_attempts WHERE id IN (SELECT id FROM webhook_attempts"
            " WHERE webhook_id = :webhook_id AND (at, id) <= (SELECT at, id FROM webhook_attempts"
            " WHERE webhook_id = :webhook_id ORDER BY at DESC, id DESC LIMIT 1 OFFSET :most)"
            " ORDER BY at, id LIMIT :limit)",
            webhook_id=webhook_id,
            most=most,
            limit=limit,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` attempts made before `before`."""
        return self.db.run(
            "DELETE FROM webhook_attempts WHERE id IN"
            " (SELECT id FROM webhook_attempts WHERE at < :before ORDER BY at LIMIT :limit)",
            before=before,
            limit=limit,
        )


class WebhookQueue(OrderedQueue[WebhookMessage], frozen=True):
    """Events to send to webhooks; `Webhooks` queues them."""

    name: str = "webhook"
    record: Record[WebhookMessage] = _MESSAGES

    @staticmethod
    def of(tx: Transaction) -> "WebhookQueue":
        """Return the queue in this transaction."""
        return WebhookQueue(tx.db)


def _change(db: Connection) -> None:
    """Make every process read again for which events there are webhooks."""
    db.at_commit(
        "INSERT INTO revision (name, number) VALUES ('webhooks', 1)"
        " ON CONFLICT (name) DO UPDATE SET number = revision.number + 1"
    )
