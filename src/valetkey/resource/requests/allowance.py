"""Allowance: how many requests one caller has, told in RateLimit headers (the HTTPAPI draft)."""

from collections import OrderedDict
from dataclasses import dataclass

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.exchange import Pairs

WINDOW = 60
"""Seconds after which a caller who asked for nothing has everything again."""

CALLERS = 10_000
"""Callers that are remembered at most, those who asked last."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left after a request: so many, all again after so many seconds; or a wait."""

    quota: int
    remaining: int
    reset: int
    wait: int

    @property
    def headers(self) -> Pairs:
        """RateLimit and RateLimit-Policy."""
        return (
            ("ratelimit-policy", f'"requests";q={self.quota};w={WINDOW}'),
            ("ratelimit", f'"requests";r={self.remaining};t={self.reset}'),
        )

    @property
    def refusal(self) -> Refusal | None:
        """Why this request is too much; None if it is not."""
        if not self.wait:
            return None
        return Refusal(
            ErrorCode.SLOW_DOWN,
            f"more than {self.quota} requests a minute: wait as long as Retry-After says",
            "caller.rate",
            f"{self.quota} in {WINDOW} seconds",
            retry_after=self.wait,
        )


class Allowances:
    """An allowance for each caller that refills evenly; in memory, so each process has its own."""

    def __init__(self, quota: int) -> None:
        """Allow `quota` requests a minute, at least 1."""
        self._quota = quota
        # For each caller when all is refilled, in 1/quota seconds: whole numbers do not drift.
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def take(self, caller: str, now: Instant) -> Left:
        """One request less, or a wait."""
        scaled = now * self._quota
        full_at = max(self._full_at.get(caller, 0), scaled)
        missing = -(-(full_at - scaled) // WINDOW)
        if missing >= self._quota:
            wait = full_at - scaled - (self._quota - 1) * WINDOW
            return Left(self._quota, 0, self._seconds(full_at - scaled), self._seconds(wait))
        self._full_at[caller] = full_at + WINDOW
        self._full_at.move_to_end(caller)
        if len(self._full_at) > CALLERS:
            self._full_at.popitem(last=False)
        left = self._quota - missing - 1
        return Left(self._quota, left, self._seconds(full_at + WINDOW - scaled), 0)

    def _seconds(self, scaled: int) -> int:
        return -(-scaled // self._quota)
