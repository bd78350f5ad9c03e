"""Numbers of the console's overview: activity of the last days, and totals."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.latency import Hour, last_hours
from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.actions.developer.usage import Day, usage_of
from valetkey.authorization.storage.register.usage import day_of, start_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

DAYS = 30
"""Days that are shown unless asked otherwise."""

HOURS = 24
"""Hours that are shown."""

MOST = 100_000
"""So far things are counted, and no further: a million of them need not be read for a number."""


class Amount(Struct, frozen=True):
    """A total; `more` if counting stopped at a limit."""

    count: int
    more: bool


class Overview(Struct, frozen=True):
    """The last days and 24 hours without gaps, and current totals."""

    days: Sequence[Day]
    hours: Sequence[Hour]
    people: Amount
    clients: Amount
    grants: Amount


def overview(tx: Transaction, actor: Actor, now: Instant, of_days: int = DAYS) -> Overview:
    """Return the overview of the last `of_days` days. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    today = day_of(now)
    counted = {day.day: day for day in usage_of(tx, None, start_of(today - of_days + 1))}
    days = [counted.get(day, Day(day, {}, 0, {})) for day in range(today - of_days + 1, today + 1)]
    people, clients, grants = (
        _amount(count)
        for count in (
            tx.people.count(MOST + 1),
            tx.people.count_clients(MOST + 1),
            tx.people.count_grants(MOST + 1),
        )
    )
    return Overview(days, last_hours(tx, now, HOURS), people, clients, grants)


def _amount(count: int) -> Amount:
    return Amount(min(count, MOST), count > MOST)
