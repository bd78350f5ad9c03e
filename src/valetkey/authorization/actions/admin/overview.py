"""Numbers of the console's overview: activity, totals, and response times per hour."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.actions.usage import Day, usage_of
from valetkey.authorization.storage.administration import Key
from valetkey.authorization.storage.search import ClientFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import day_of, start_of
from valetkey.authorization.storage.users import Filter
from valetkey.kernel.moment import Instant, hours

KEPT = hours(24 * 90)
"""How long the counts of an hour are kept."""

LONGER = 10_000
"""The bucket, in milliseconds, of responses that took more than five seconds."""

_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_HOUR = 3_600
_REFUSED = 400
_FAILED = 500


class Outcome(StrEnum):
    """The result class of a request."""

    GOOD = "good"
    REFUSED = "refused"
    FAILED = "failed"  # a status of 500 or more


_GOOD = Outcome.GOOD.value
_STEPS_AND_LONGER = (*_STEPS, LONGER)


class Hour(Struct, frozen=True):
    """Requests of one hour: their number, failures, and response times.

    Half took at most `median` milliseconds and 95 % at most `most`, both rounded up to the next
    bucket; 0 without requests.
    """

    hour: int
    answers: int
    failures: int
    median: int
    most: int


def hour_of(at: Instant) -> int:
    """Return the hour of a time, counted from 1970."""
    return at // _HOUR


def key_of(at: Instant, status: int, seconds: float) -> Key:
    """Return the key under which a response is counted: hour, outcome, bucket of its duration."""
    outcome = _GOOD
    if status >= _REFUSED:
        outcome = Outcome.FAILED.value if status >= _FAILED else Outcome.REFUSED.value
    return hour_of(at), outcome, _STEPS_AND_LONGER[bisect_left(_STEPS, seconds * 1_000)]


def last_hours(tx: Transaction, now: Instant, count: int) -> Sequence[Hour]:
    """Return the last `count` hours, including those without requests and the current one."""
    latest = hour_of(now)
    found: dict[int, Counter[tuple[str, int]]] = {}
    for (hour, outcome, within), amount in tx.response_times.since(latest - count + 1):
        found.setdefault(hour, Counter())[outcome, within] += amount
    return [
        _hour(hour, found.get(hour, Counter())) for hour in range(latest - count + 1, latest + 1)
    ]


def sweep_latency(tx: Transaction, now: Instant, limit: int) -> int:
    """Delete at most `limit` counts that are older than `KEPT`."""
    return tx.response_times.sweep(hour_of(Instant(now - KEPT)), limit)


def _hour(hour: int, amounts: Counter[tuple[str, int]]) -> Hour:
    failures = sum(n for (outcome, _), n in amounts.items() if outcome == Outcome.FAILED)
    return Hour(hour, amounts.total(), failures, _within(amounts, 50), _within(amounts, 95))


def _within(amounts: Counter[tuple[str, int]], percent: int) -> int:
    so_far = 0
    for step in _STEPS_AND_LONGER:
        so_far += sum(amount for (_, within), amount in amounts.items() if within == step)
        if so_far and so_far * 100 >= amounts.total() * percent:
            return step
    return 0


DAYS = 30
"""Default number of days shown."""

HOURS = 24
"""Number of hours shown."""

MOST = 100_000
"""Largest total that is counted exactly, so that a page never reads millions of rows."""


class Amount(Struct, frozen=True):
    """A total; `more` if counting stopped at a limit."""

    count: int
    more: bool


class ServerOverview(Struct, frozen=True):
    """The last days and 24 hours without gaps, and current totals."""

    days: Sequence[Day]
    hours: Sequence[Hour]
    people: Amount
    clients: Amount
    grants: Amount


def overview(tx: Transaction, actor: Actor, now: Instant, of_days: int = DAYS) -> ServerOverview:
    """Return the overview of the last `of_days` days. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    today = day_of(now)
    counted = {day.day: day for day in usage_of(tx, None, start_of(today - of_days + 1))}
    days = [counted.get(day, Day(day, {}, 0, {})) for day in range(today - of_days + 1, today + 1)]
    people, clients, grants = (
        _amount(count)
        for count in (
            tx.user_directory.count_matching(Filter.ALL, MOST + 1),
            tx.client_search.count(ClientFilter(), MOST + 1) or 0,
            tx.user_directory.count_grants(MOST + 1, now),
        )
    )
    return ServerOverview(days, last_hours(tx, now, HOURS), people, clients, grants)


def _amount(count: int) -> Amount:
    return Amount(min(count, MOST), count > MOST)
