"""Metrics read from the database, and response times written to it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from valetkey.authorization.actions.admin.server import key_of
from valetkey.authorization.background.maintenance import written_or
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.signing_key import KeyState
from valetkey.authorization.storage.administration import Key
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.runtime import Runtime

_READ_EVERY = 15.0


class Gauges(Struct, frozen=True):
    """Metrics that a feature reads from the database, and the function that sets them."""

    metrics: Sequence[metrics.Gauge]
    read: Callable[[Transaction, Instant], None]


class DatabaseGauges(Struct, frozen=True):
    """Read the metrics every 15 seconds, independently of requests."""

    store: Store
    runtime: Runtime
    key_lifetime: Lifetime
    destinations: Sequence[str] = ()
    """Configured destinations of the audit log; the database may contain earlier ones."""
    more: Sequence[Gauges] = ()

    async def run(self) -> None:
        """Read until cancelled; while the database is unreachable there are no values."""
        metrics.SIGNING_KEY_LIFETIME.set(self.key_lifetime)
        while True:
            try:
                await self.read()
            except (DatabaseUnavailable, Overloaded):
                for gauge in (
                    metrics.OUTBOX,
                    metrics.OUTBOX_AGE,
                    metrics.SIGNING_KEY_AGE,
                    metrics.AUDIT_WAITING,
                    metrics.AUDIT_EXPORT_LAG,
                    *(gauge for each in self.more for gauge in each.metrics),
                ):
                    gauge.replace({})
            await asyncio.sleep(_READ_EVERY)

    async def read(self) -> None:
        """Read the metrics now."""
        now = self.runtime.now()
        await self.store.scan(lambda tx: self._read(tx, now))

    def _read(self, tx: Transaction, now: Instant) -> None:
        _read(tx, now, self.destinations)
        for each in self.more:
            each.read(tx, now)


def set_queue(name: str, waiting: int, since: Instant | None, now: Instant) -> None:
    """Set the metrics of a queue; the oldest of its messages has waited `since`."""
    metrics.OUTBOX.set(waiting, name)
    metrics.OUTBOX_AGE.set(0 if since is None else max(0, now - since), name)


def _read(tx: Transaction, now: Instant, destinations: Sequence[str]) -> None:
    for name, waiting, since in (
        ("mail", tx.mails.waiting(), tx.mails.oldest()),
        ("logout", tx.deliveries.waiting(), tx.deliveries.oldest()),
    ):
        set_queue(name, waiting, since, now)
    oldest = tx.audit_chain.oldest_waiting()
    metrics.AUDIT_WAITING.set(0 if oldest is None else max(0, now - oldest))
    behind = tx.audit_exports.waiting_since()
    metrics.AUDIT_EXPORT_LAG.replace(
        {
            (name,): 0 if since is None else max(0, now - since)
            for name, since in behind.items()
            if name in destinations
        }
    )
    metrics.SIGNING_KEY_AGE.replace(
        {
            (key.algorithm,): now - key.activates_at
            for key in tx.signing_keys.all(now)
            if key.state(now) is KeyState.CURRENT
        }
    )


_WRITE_EVERY = 10.0


class ResponseTimeCounter(Struct, frozen=True):
    """Count response times in one process; at most a few dozen numbers are buffered."""

    waiting: Counter[Key] = field(default_factory=Counter[Key])

    def note(self, at: Instant, status: int, seconds: float) -> None:
        """Count one response and the time it took."""
        self.waiting[key_of(at, status, seconds)] += 1

    async def run(self, store: Store) -> None:
        """Write the counts every ten seconds."""
        while True:
            await asyncio.sleep(_WRITE_EVERY)
            await self.flush(store)

    async def flush(self, store: Store) -> None:
        """Write the counts now; counts that could not be written are kept for the next time."""
        amounts = dict(self.waiting)
        if not amounts:
            return
        self.waiting.clear()
        await written_or(
            lambda: self.waiting.update(amounts),
            store.write(lambda tx: tx.response_times.add(amounts), done_by=SYSTEM),
        )
