"""Self-registered clients: their registration access token and last use."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint

_NOTED_EVERY = days(1)


class DocumentRead(Struct, frozen=True):
    """The fingerprint of a client's metadata document, and until when it need not be fetched."""

    print: Fingerprint
    fresh_until: Instant


@dataclass(frozen=True, slots=True)
class Registrations:
    """Store self-registrations, one row for each client until it is deleted."""

    db: Connection

    def add(
        self,
        client_id: str,
        token: Fingerprint,
        metadata: Fingerprint,
        now: Instant,
        document: DocumentRead | None = None,
        *,
        counted: str = "",
    ) -> None:
        """Record that the client registered itself, with the appearance `metadata`.

        `document` is that of a client whose id is the URL of it, `counted` the rate limit that
        counts the registration.
        """
        self.db.send(
            "INSERT INTO registrations (client_id, token_print, metadata_print, created_at,"
            " active_at, used, document_print, fresh_until, counted) VALUES (:client_id, :token,"
            " :metadata, :now, :now, 0, :document, :fresh_until, :counted)",
            client_id=client_id,
            token=token,
            metadata=metadata,
            now=now,
            document=None if document is None else document.print,
            fresh_until=None if document is None else document.fresh_until,
            counted=counted,
        )

    def end_count(self, client_id: str) -> tuple[str, Instant] | None:
        """Return the rate limit that counts the registration, and when it was made.

        Exactly one concurrent caller gets them; None for all others and afterwards.
        """
        row = self.db.row(
            "SELECT counted, created_at FROM registrations"
            " WHERE client_id = :client_id AND counted <> ''",
            client_id=client_id,
        )
        if row is None:
            return None
        uncounted = self.db.run(
            "UPDATE registrations SET counted = '' WHERE client_id = :client_id AND counted <> ''",
            client_id=client_id,
        )
        return (row[0], Instant(row[1])) if uncounted == 1 else None

    def document_of(self, client_id: str) -> DocumentRead | None:
        """Return what was last read at the URL that is the client's id; None for other clients."""
        row = self.db.row(
            "SELECT document_print, fresh_until FROM registrations"
            " WHERE client_id = :client_id AND fresh_until IS NOT NULL AND removed_at IS NULL",
            client_id=client_id,
        )
        return None if row is None else DocumentRead(Fingerprint(row[0]), Instant(row[1]))

    def renew_document(self, client_id: str, read: DocumentRead) -> bool:
        """Record that the document was read again; False unless it is the one that was."""
        renewed = self.db.run(
            "UPDATE registrations SET fresh_until = :fresh_until"
            " WHERE client_id = :client_id AND document_print = :document",
            client_id=client_id,
            document=read.print,
            fresh_until=read.fresh_until,
        )
        return renewed == 1

    def replace_document(self, client_id: str, read: DocumentRead) -> None:
        """Record that another document was read."""
        self.db.send(
            "UPDATE registrations SET document_print = :document, fresh_until = :fresh_until"
            " WHERE client_id = :client_id AND fresh_until IS NOT NULL",
            client_id=client_id,
            document=read.print,
            fresh_until=read.fresh_until,
        )

    def has_documents(self, most: int) -> bool:
        """Return whether there are at least `most` clients whose id is the URL of a document."""
        row = self.db.row(
            "SELECT client_id FROM registrations"
            " WHERE fresh_until IS NOT NULL AND removed_at IS NULL"
            " ORDER BY created_at LIMIT 1 OFFSET :others",
            others=most - 1,
        )
        return row is not None

    def unused_documents(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of the oldest such clients that were not used, known since `before`."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations"
            " WHERE fresh_until IS NOT NULL AND removed_at IS NULL AND used = 0"
            " AND created_at <= :before AND NOT EXISTS (SELECT 1 FROM clients"
            " WHERE clients.id = client_id AND disabled_at IS NOT NULL)"
            " ORDER BY created_at LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

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
        """Return the ids of at most `limit` clients not used since `before`.

        A disabled client whose id is a URL is none of them: it would come back by itself.
        """
        rows = self.db.rows(
            "SELECT client_id FROM registrations"
            " WHERE active_at <= :before AND removed_at IS NULL"
            " AND (fresh_until IS NULL OR NOT EXISTS (SELECT 1 FROM clients"
            " WHERE clients.id = client_id AND disabled_at IS NOT NULL)) LIMIT :limit",
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
