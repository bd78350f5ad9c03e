"""Revocations kept while the authorization server is unreachable."""

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant
from valetkey.resource.storage.values import StoredValues
from valetkey.sdk.upstream.revocations import Page, Revocation

_CURSOR = "revocations_cursor"
_REVOCATIONS = Record(Revocation, "revocations")


class Revocations(Struct, frozen=True):
    """The revocations that still matter, and the feed position to continue from."""

    db: Connection

    def read(self, now: Instant) -> Page:
        """Return all of them, and the position."""
        known = _REVOCATIONS.all(
            self.db, "SELECT * FROM revocations WHERE expires_at > :now", now=now
        )
        return Page(StoredValues(self.db).find(_CURSOR), tuple(known))

    def save(self, page: Page) -> None:
        """Store one page of the feed; entries may repeat."""
        for entry in page.revocations:
            _REVOCATIONS.send(
                self.db,
                "INSERT INTO revocations (*) VALUES (*)"
                " ON CONFLICT (kind, id) DO UPDATE SET"
                " revoked_at = excluded.revoked_at, expires_at = excluded.expires_at"
                " WHERE revocations.revoked_at < excluded.revoked_at",
                entry,
            )
        StoredValues(self.db).set(_CURSOR, page.cursor)
