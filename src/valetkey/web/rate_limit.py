"""How much one caller may ask: a token bucket for each key, in bounded memory."""

from collections import OrderedDict
from collections.abc import Hashable

from valetkey.kernel.moment import Instant

KEYS = 10_000

_SKEW = 60
"""A clock set back by more than so many seconds must not make anybody wait for its old time."""


class Buckets:
    """A bucket of `capacity` for each key; an empty one is full again after `refill_seconds`.

    At most 10,000 keys are kept, those used least recently given up first: a key that is given up
    starts full again, so whoever floods us with keys must spend 10,000 of them for one more try.
    """

    __slots__ = ("_buckets", "_capacity", "_keys", "_refill")

    def __init__(self, capacity: int, refill_seconds: int, *, keys: int = KEYS) -> None:
        """Both at least 1."""
        self._capacity = capacity
        self._refill = refill_seconds
        self._keys = keys
        # For each key the instant at which its bucket is full, in units of 1/capacity seconds:
        # whole numbers neither drift nor round.
        self._buckets: OrderedDict[Hashable, int] = OrderedDict()

    def take(self, key: Hashable, now: Instant) -> int:
        """0, and one token less for `key`; or how many seconds until there is one."""
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
        """What `take` would answer, without taking."""
        full_at = self._full_at(key, now)
        # There is a token as long as refilling one more would not take longer than from empty.
        excess = full_at + self._refill - now * self._capacity - self._refill * self._capacity
        return 0 if excess <= 0 else -(-excess // self._capacity)

    def give_back(self, key: Hashable) -> None:
        """Undo one `take`, for what turned out not to count."""
        full_at = self._buckets.get(key)
        if full_at is not None:
            self._buckets[key] = full_at - self._refill

    def _full_at(self, key: Hashable, now: Instant) -> int:
        full_at = self._buckets.get(key, 0)
        latest = (now + self._refill + _SKEW) * self._capacity
        return 0 if full_at > latest else full_at

    def keys(self) -> tuple[Hashable, ...]:
        """Whose buckets are kept."""
        return tuple(self._buckets)

    def __len__(self) -> int:
        return len(self._buckets)
