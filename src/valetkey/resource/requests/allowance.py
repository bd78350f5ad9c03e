"""Rate limits for each caller, reported in RateLimit headers (the HTTPAPI draft)."""

from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.resource.requests.ledger import CallerCounters, LocalCounters
from valetkey.web.exchange import Pairs

WINDOW = 60
"""Seconds after which an idle caller has its full allowance again."""


class RemainingRequests(Struct, frozen=True):
    """The requests left and the seconds until all are available again, or the seconds to wait."""

    quota: int
    remaining: int
    reset: int
    wait: int

    @property
    def headers(self) -> Pairs:
        """Return RateLimit and RateLimit-Policy."""
        return (
            ("ratelimit-policy", f'"requests";q={self.quota};w={WINDOW}'),
            ("ratelimit", f'"requests";r={self.remaining};t={self.reset}'),
        )

    @property
    def refusal(self) -> Refusal | None:
        """Return the refusal if this request exceeds the limit; None if it does not."""
        if not self.wait:
            return None
        return Refusal(
            ErrorCode.SLOW_DOWN,
            f"more than {self.quota} requests a minute: wait for the time in Retry-After",
            "caller.rate",
            f"{self.quota} in {WINDOW} seconds",
            retry_after=self.wait,
        )


class Allowances:
    """An evenly refilling allowance for each caller, for each process or shared by all."""

    def __init__(self, quota: int, ledger: CallerCounters | None = None) -> None:
        """Allow `quota` requests a minute, at least 1; workers that share a ledger share it."""
        self._quota = quota
        # The time at which each caller's allowance is full, in 1/quota seconds: integers do not
        # drift.
        self._full_at = ledger or LocalCounters()

    def take(self, caller: str, now: Instant) -> RemainingRequests:
        """Count one request; return what is left, or the wait."""
        scaled = now * self._quota

        def spend(known: int) -> int:
            full_at = max(known, scaled)
            return full_at if self._missing(full_at - scaled) >= self._quota else full_at + WINDOW

        full_at = max(self._full_at.change(caller, spend), scaled)
        missing = self._missing(full_at - scaled)
        if missing >= self._quota:
            wait = full_at - scaled - (self._quota - 1) * WINDOW
            return RemainingRequests(
                self._quota, 0, self._seconds(full_at - scaled), self._seconds(wait)
            )
        left = self._quota - missing - 1
        return RemainingRequests(self._quota, left, self._seconds(full_at + WINDOW - scaled), 0)

    def _missing(self, scaled: int) -> int:
        return -(-scaled // WINDOW)

    def _seconds(self, scaled: int) -> int:
        return -(-scaled // self._quota)
