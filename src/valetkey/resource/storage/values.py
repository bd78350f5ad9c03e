"""Single values by name, and the sweep of rows that expired."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.database.decisions import Decisions
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant

KEY_SET = "key_set"
PAGE_KEY = "page_key"


class StoredValues(Struct, frozen=True):
    """Single values by name."""

    db: Connection

    def find(self, name: str) -> str:
        """Return the value; "" if there is none."""
        row = self.db.row("SELECT value FROM kept WHERE name = :name", name=name)
        return "" if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        """Set the value."""
        self.db.send(
            "INSERT INTO kept (name, value) VALUES (:name, :value)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name=name,
            value=value,
        )

    def set_if_absent(self, name: str, value: str) -> bool:
        """Write `value` unless there is one; of concurrent callers exactly one gets True."""
        written = self.db.run(
            "INSERT INTO kept (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
            name=name,
            value=value,
        )
        return written == 1


class Sweep(Struct, frozen=True):
    """Delete expired rows, in batches small enough not to delay other writers."""

    db: Connection

    def idempotency_keys(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` expired responses to idempotency keys."""
        return self.db.run(
            "DELETE FROM idempotency_keys WHERE (owner, client_id, kind, name) IN"
            " (SELECT owner, client_id, kind, name FROM idempotency_keys"
            " WHERE expires_at <= :now LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def revocations(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` revocations whose last token expired."""
        return self.db.run(
            "DELETE FROM revocations WHERE (kind, id) IN"
            " (SELECT kind, id FROM revocations WHERE expires_at <= :now LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def decisions(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` decision records that are a week old."""
        return Decisions(self.db).sweep(now, limit)

    def everything(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` rows of each table; return how many were deleted."""
        counts: Sequence[int] = (
            self.idempotency_keys(now, limit),
            self.revocations(now, limit),
            self.decisions(now, limit),
        )
        return sum(counts)
