"""Rate limits of attempts: leaky buckets that all processes share."""

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.kernel.moment import AHEAD, Instant, Lifetime

_UNIT = 1_000_000
"""One attempt, in the fractions in which buckets leak."""


class Limit(Struct, frozen=True):
    """At most `attempts` at once; the bucket is empty again after `window`."""

    attempts: int
    window: Lifetime

    @property
    def leak(self) -> int:
        """Return how much leaks in a second."""
        return max(1, self.attempts * _UNIT // self.window)


class Throttles(Struct, frozen=True):
    """One row per bucket. Attempts are counted before they are made, so parallel ones count."""

    db: Connection

    def take(self, bucket: str, limit: Limit, now: Instant) -> int:
        """Count one attempt and return 0; if the bucket is full, return the seconds to wait."""
        # After a clock was set back, users must not wait until the time it showed before.
        self.db.send(
            "UPDATE throttles SET level = 0, changed_at = :now"
            " WHERE bucket = :bucket AND changed_at > :latest",
            bucket=bucket,
            now=now,
            latest=now + AHEAD,
        )
        # One statement, so that no more concurrent attempts than the limit pass.
        taken = self.db.row(
            "INSERT INTO throttles (bucket, level, changed_at) VALUES (:bucket, :unit, :now)"
            " ON CONFLICT (bucket) DO UPDATE SET level = :unit +"
            " CASE WHEN throttles.level > (:now - throttles.changed_at) * :leak"
            " THEN throttles.level - (:now - throttles.changed_at) * :leak ELSE 0 END,"
            " changed_at = :now"
            " WHERE throttles.level - (:now - throttles.changed_at) * :leak <= :room"
            " RETURNING level",
            bucket=bucket,
            unit=_UNIT,
            now=now,
            leak=limit.leak,
            room=(limit.attempts - 1) * _UNIT,
        )
        if taken is not None:
            return 0
        row = self.db.row(
            "SELECT level, changed_at FROM throttles WHERE bucket = :bucket", bucket=bucket
        )
        if row is None:
            return 1
        above = row[0] - (now - row[1]) * limit.leak - (limit.attempts - 1) * _UNIT
        return max(1, -(-int(above) // limit.leak))

    def give_back(self, bucket: str) -> None:
        """Uncount a successful attempt."""
        self.db.send(
            "UPDATE throttles SET level = level - :unit WHERE bucket = :bucket AND level >= :unit",
            bucket=bucket,
            unit=_UNIT,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` buckets not used since `before`."""
        return self.db.run(
            "DELETE FROM throttles WHERE bucket IN"
            " (SELECT bucket FROM throttles WHERE changed_at <= :before"
            " ORDER BY changed_at LIMIT :limit)",
            before=before,
            limit=limit,
        )
