"""Images: copies of clients' logos, and pictures that users uploaded, all re-encoded."""

from base64 import b64decode, b64encode
from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.user import Uid
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


class PendingLogo(Struct, frozen=True):
    """A logo to fetch from `source`, the client's logo_uri; `attempts` were begun so far."""

    client_id: str
    source: str
    attempts: int


class Logos(Struct, frozen=True):
    """At most one row per client; deleted when the logo_uri that it belongs to changes."""

    db: Connection

    def enqueue(self, client_id: str) -> None:
        """Queue the client's logo, unless its logo_uri is unchanged."""
        self.db.send(
            "DELETE FROM client_logos WHERE client_id = :id"
            " AND source <> (SELECT logo_uri FROM clients WHERE id = :id)",
            id=client_id,
        )
        self.db.send(
            "INSERT INTO client_logos (client_id, source, attempts, due_at, failure)"
            " SELECT id, logo_uri, 0, 0, '' FROM clients WHERE id = :id AND logo_uri <> ''"
            " ON CONFLICT (client_id) DO NOTHING",
            id=client_id,
        )

    def is_any_due(self, now: Instant) -> bool:
        """Return whether any logo is due: a read, so that idle processes write nothing."""
        row = self.db.row(
            "SELECT client_id FROM client_logos WHERE due_at <= :now LIMIT 1", now=now
        )
        return row is not None

    def lease(self, now: Instant, until: Instant, limit: int) -> Sequence[PendingLogo]:
        """Lease at most `limit` due logos, exclusively until `until`."""
        rows = self.db.rows(
            "UPDATE client_logos SET due_at = :until, attempts = attempts + 1"
            " WHERE due_at <= :now AND client_id IN"
            " (SELECT client_id FROM client_logos WHERE due_at <= :now"
            " ORDER BY due_at, client_id LIMIT :limit)"
            " RETURNING client_id, source, attempts",
            now=now,
            until=until,
            limit=limit,
        )
        return [PendingLogo(*row) for row in rows]

    def store(self, logo: PendingLogo, name: str, image: bytes) -> bool:
        """Store the copy under a new name. False if there is one or the logo_uri has changed."""
        kept = self.db.run(
            "UPDATE client_logos SET name = :name, image = :image, due_at = NULL, failure = ''"
            " WHERE client_id = :client_id AND source = :source AND name IS NULL",
            client_id=logo.client_id,
            source=logo.source,
            name=name,
            image=b64encode(image).decode("ascii"),
        )
        return kept == 1

    def fail(self, logo: PendingLogo, check: str, due_at: Instant | None) -> bool:
        """Record the failure and the next attempt. False if another attempt decides that."""
        failed = self.db.run(
            "UPDATE client_logos SET failure = :check, due_at = :due_at"
            " WHERE client_id = :client_id AND source = :source AND name IS NULL"
            " AND attempts = :attempts",
            client_id=logo.client_id,
            source=logo.source,
            attempts=logo.attempts,
            check=check,
            due_at=due_at,
        )
        return failed == 1

    def drop(self, logo: PendingLogo) -> bool:
        """Delete a logo that may not be shown. False if its logo_uri has changed."""
        dropped = self.db.run(
            "DELETE FROM client_logos WHERE client_id = :client_id AND source = :source"
            " AND name IS NULL",
            client_id=logo.client_id,
            source=logo.source,
        )
        return dropped == 1

    def retry(self, client_id: str, now: Instant) -> bool:
        """Queue it again at once. False unless the last attempt failed."""
        retried = self.db.run(
            "UPDATE client_logos SET due_at = :now, attempts = 0, failure = ''"
            " WHERE client_id = :client_id AND name IS NULL AND failure <> ''",
            client_id=client_id,
            now=now,
        )
        return retried == 1

    def failure(self, client_id: str) -> str:
        """Return the check that the last attempt failed; "" for none."""
        row = self.db.row(
            "SELECT failure FROM client_logos WHERE client_id = :client_id", client_id=client_id
        )
        return "" if row is None else str(row[0])

    def image(self, name: str) -> bytes | None:
        """Return the copy with this name."""
        row = self.db.row("SELECT image FROM client_logos WHERE name = :name", name=name)
        return None if row is None else b64decode(row[0])

    def delete(self, client_id: str) -> None:
        """Delete everything about this client's logo."""
        self.db.send("DELETE FROM client_logos WHERE client_id = :client_id", client_id=client_id)


class Pictures(Struct, frozen=True):
    """At most one row per user; deleted when the `picture` of the account changes."""

    db: Connection

    def store(self, uid: Uid, name: str, image: bytes) -> None:
        """Store the picture under a new name, in place of the previous one."""
        self.db.run(
            "INSERT INTO user_pictures (uid, name, image) VALUES (:uid, :name, :image)"
            " ON CONFLICT (uid) DO UPDATE SET name = excluded.name, image = excluded.image",
            uid=uid,
            name=name,
            image=b64encode(image).decode("ascii"),
        )

    def name_of(self, uid: Uid) -> str:
        """Return the name of the user's picture; "" for none."""
        row = self.db.row("SELECT name FROM user_pictures WHERE uid = :uid", uid=uid)
        return "" if row is None else str(row[0])

    def image(self, name: str) -> bytes | None:
        """Return the picture with this name; None for that of a disabled account."""
        row = self.db.row(
            "SELECT p.image FROM user_pictures p JOIN users u ON u.uid = p.uid"
            " WHERE p.name = :name AND u.disabled_at IS NULL",
            name=name,
        )
        return None if row is None else b64decode(row[0])

    def delete(self, uid: Uid) -> None:
        """Delete the user's picture."""
        self.db.send("DELETE FROM user_pictures WHERE uid = :uid", uid=uid)
