"""Rate limiting with a token bucket for each key, in bounded memory."""

from collections import OrderedDict
from collections.abc import Hashable

from valetkey.kernel.moment import AHEAD, Instant

KEYS = 10_000


class Buckets:
    """Token buckets of `capacity` for each key; an empty bucket refills in `refill_seconds`.

    At most 10,000 keys are kept. The least recently used are evicted first, and an evicted key
    starts full again: flooding the table therefore takes 10,000 keys for one more attempt.
    """

    __slots__ = ("_buckets", "_capacity", "_keys", "_refill")

    def __init__(self, capacity: int, refill_seconds: int, *, keys: int = KEYS) -> None:
        """Start with full buckets; `capacity` and `refill_seconds` must be at least 1."""
        self._capacity = capacity
        self._refill = refill_seconds
        self._keys = keys
        # For each key the instant at which its bucket is full, in units of 1/capacity seconds:
        # integers neither drift nor round.
        self._buckets: OrderedDict[Hashable, int] = OrderedDict()

    def take(self, key: Hashable, now: Instant) -> int:
        """Take one token for `key` and return 0; or return the seconds until there is one."""
        wait = self.peek(key, now)
        if wait:
            return wait
        full_at = max(self._full_at(key, now), now * self._capacity)
        self._buckets[key] = full_at + self._refill
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._keys:
            self._buckets.popitem(last=False)
        return 0

    def peek(self, key: Hashable, now: Instant) -> int:
        """Return what `take` would return, without taking a token."""
        full_at = self._full_at(key, now)
        # A token is available if the bucket, with one more taken, would refill no later than an
        # empty one.
        excess = full_at + self._refill - now * self._capacity - self._refill * self._capacity
        return 0 if excess <= 0 else -(-excess // self._capacity)

    def give_back(self, key: Hashable) -> None:
        """Return one token to `key`, for a request that turned out not to count."""
        full_at = self._buckets.get(key)
        if full_at is not None:
            self._buckets[key] = full_at - self._refill

    def _full_at(self, key: Hashable, now: Instant) -> int:
        full_at = self._buckets.get(key, 0)
        # A bucket filled from a clock that was later set back by more counts as full.
        latest = (now + self._refill + AHEAD) * self._capacity
        return 0 if full_at > latest else full_at

    def keys(self) -> tuple[Hashable, ...]:
        """Return the keys whose buckets are kept."""
        return tuple(self._buckets)

    def __len__(self) -> int:
        return len(self._buckets)
