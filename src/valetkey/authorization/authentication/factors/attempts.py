"""Limit attempts at second-factor codes, with waits that grow after wrong codes."""

from collections.abc import Iterable
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.storage.sign_in.throttles import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, hours, minutes
from valetkey.kernel.secret import FingerprintKey

LADDER = (Limit(5, minutes(15)), Limit(10, hours(2)), Limit(20, days(1)))
"""After five attempts one more every 3 minutes, after ten every 12, after twenty every 72."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A counted attempt, or the seconds to wait before the next one."""

    buckets: tuple[str, ...]
    wait: int

    def give_back(self, tx: Transaction) -> None:
        """Uncount a successful attempt."""
        _give_back(tx, self.buckets)


def count_attempt(
    tx: Transaction, key: FingerprintKey, uid: Uid, familiar: str, now: Instant
) -> Attempt:
    """Count an attempt to enter a code of this user.

    A browser that is `familiar` to the account has its own counters, which attackers cannot use up.
    """
    who = f"{uid} {familiar}" if familiar else str(uid)
    taken: list[str] = []
    for rung, limit in enumerate(LADDER):
        bucket = f"second_factor:{rung}:{key.of('throttle code', who)}"
        if wait := tx.throttles.take(bucket, limit, now):
            _give_back(tx, taken)
            return Attempt((), wait)
        taken.append(bucket)
    return Attempt(tuple(taken), 0)


def _give_back(tx: Transaction, buckets: Iterable[str]) -> None:
    for bucket in buckets:
        tx.throttles.give_back(bucket)
