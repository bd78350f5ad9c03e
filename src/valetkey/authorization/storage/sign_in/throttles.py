"""Rate limits of attempts: leaky buckets that all processes share."""

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.kernel.moment import AHEAD, Instant, Lifetime

_UNIT = 1_000_000
"""One attempt, in the units in which buckets leak."""

_ALTOGETHER = 10
"""Attempts that may be begun, as a multiple of those that may remain unfinished."""


class Limit(Struct, frozen=True):
    """At most `attempts` at once; the bucket is empty again after `window`."""

    attempts: int
    window: Lifetime

    @property
    def leak(self) -> int:
        """Return how much leaks in a second."""
        return max(1, self.attempts * _UNIT // self.window)

    @property
    def emptied(self) -> int:
        """Return the seconds after which a full bucket is empty: the window, rounded up."""
        return -(-self.attempts * _UNIT // self.leak)


class Throttles(Struct, frozen=True):
    """Store rate limits as leaky buckets. Attempts are counted before they are made."""

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
            "INSERT INTO throttles (bucket, level, changed_at, lifetime)"
            " VALUES (:bucket, :unit, :now, :lifetime)"
            " ON CONFLICT (bucket) DO UPDATE SET level = :unit +"
            " CASE WHEN throttles.level > (:now - throttles.changed_at) * :leak"
            " THEN throttles.level - (:now - throttles.changed_at) * :leak ELSE 0 END,"
            " changed_at = :now, lifetime = :lifetime"
            " WHERE throttles.level - (:now - throttles.changed_at) * :leak <= :room"
            " RETURNING level",
            bucket=bucket,
            unit=_UNIT,
            now=now,
            leak=limit.leak,
            lifetime=limit.emptied,
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

    def give_back(self, *buckets: str) -> None:
        """Uncount a successful attempt in each of the buckets."""
        for bucket in buckets:
            self.db.send(
                "UPDATE throttles SET level = level - :unit"
                " WHERE bucket = :bucket AND level >= :unit",
                bucket=bucket,
                unit=_UNIT,
            )

    def begin(self, bucket: str, limit: Limit, now: Instant) -> int:
        """Count an attempt that may be finished later and return 0; or the seconds to wait.

        `limit` is for attempts that are not finished. Ten times as many may be begun, so that a
        caller who can finish any number is limited, too.
        """
        most = Limit(_ALTOGETHER * limit.attempts, limit.window)
        if wait := self.take(_all_of(bucket), most, now):
            return wait
        wait = self.take(bucket, limit, now)
        if wait:
            self.give_back(_all_of(bucket))
        return wait

    def finish(self, bucket: str, begun_at: Instant, window: Lifetime, now: Instant) -> None:
        """Uncount an attempt that was begun at `begun_at` and is finished now.

        Call it once, in the transaction in which exactly one caller finishes the attempt. After
        `window` it no longer counts anyway, and giving it back would admit another one.
        """
        if now < begun_at + window:
            self.give_back(bucket)

    def cancel(self, bucket: str) -> None:
        """Uncount an attempt altogether: nothing was done, or an administrator vouched for it."""
        self.give_back(_all_of(bucket), bucket)

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` buckets that are empty by the clock of every server."""
        # Checked again outside: an attempt may have been counted between choosing and deleting.
        return self.db.run(
            "DELETE FROM throttles WHERE bucket IN"
            " (SELECT bucket FROM throttles WHERE changed_at + lifetime <= :before"
            " ORDER BY changed_at + lifetime LIMIT :limit)"
            " AND changed_at + lifetime <= :before",
            before=now - AHEAD,
            limit=limit,
        )


def _all_of(bucket: str) -> str:
    return f"all_{bucket}"
