"""Background work: queues, expired rows, keys, and metrics read from the database."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from valetkey.authorization.actions.admin.server import key_of, sweep_latency
from valetkey.authorization.actions.bulk_revocation import continue_oldest
from valetkey.authorization.actions.usage import count_refusals, roll_up, sweep_counts, sweep_people
from valetkey.authorization.model.event.chain import Retention
from valetkey.authorization.model.event.event import SYSTEM, USUAL_ACTOR
from valetkey.authorization.storage.administration import Key
from valetkey.authorization.storage.restoration import RevocationLog, RevocationPage
from valetkey.authorization.storage.signing_keys import KeyState
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.config.sections.people import PrivacySettings
from valetkey.database.decisions import Decision
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, Lifetime, days, hours
from valetkey.kernel.pace import rest
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.tracing import RequestSample, RequestSamples
from valetkey.web import log


async def written_or(
    give_back: Callable[[], None], write: Coroutine[object, object, object]
) -> None:
    """Await `write`; if it fails, call `give_back` and raise its exception.

    A cancelled caller still waits for the outcome: a write in progress may be committed, and its
    data must not be written again.
    """
    task = asyncio.ensure_future(write)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            give_back()
        raise
    try:
        task.result()
    except BaseException:
        give_back()
        raise


BATCH = 20
"""Rows deleted at once, which blocks other SQLite writers for less than a millisecond.

This also holds for a table of ten million rows.
"""

HURRIED_BATCH = 50
"""Rows deleted in one transaction by a sweep that falls behind: a millisecond or two."""

_COUNTED_BATCH = 500
"""Batch size of sweeps that count up to 200,000 rows each time, which takes 5 ms."""

QUEUED_BATCH = 50
"""Refusals or samples written in one transaction."""

_UNHURRIED = 5.0
"""Seconds of a sweep before it hurries: half of the time until the next one."""

_FOR_REQUESTS = 9
"""Durations of a transaction for which an unhurried sweep pauses after it."""

_LONGEST_PAUSE = 0.02
_LONGEST_HURRIED_PAUSE = 0.006
_WRITE_EVERY = 0.1
_SAMPLES_EVERY = 20  # rounds
_SWEEP_EVERY = 10.0
_KEYS_EVERY = 30.0
_COUNT_EVERY = 10.0
_REPLAY_MEMORY = hours(1)
"""How long codes are remembered after they expired; a code's replay revokes its grant."""

_GRANT_MEMORY = days(3)
"""How long an ended grant is kept, so that the reason can be looked up."""

_GIVING_UP = days(1)
"""How long undeliverable messages are kept: delivery gives up and reports it earlier."""

_KEEP = Retention(days(365), {})
_END_OF_TIME = Instant(1 << 53)
_DECISIONS = 200_000
_DECISIONS_WITHOUT_CLIENT = 100_000
"""Maximum number of refusal records of each kind; a flood of refusals must not fill a disk."""

_SAMPLES = 200_000
"""Maximum number of samples of successful requests."""

Sweep = Callable[[Transaction, Instant], int]

SWEEPS: tuple[Sweep, ...] = (
    lambda tx, now: tx.vouchers.sweep(Instant(now - _REPLAY_MEMORY), BATCH),
    lambda tx, now: tx.access_tokens.sweep(now, BATCH),
    lambda tx, now: tx.grants.sweep(Instant(now - _GRANT_MEMORY), BATCH),
    lambda tx, now: tx.scope_uses.sweep(now, BATCH),
    lambda tx, now: tx.scope_uses.sweep_watched(now, BATCH),
    lambda tx, now: tx.sessions.sweep(now, BATCH),
    lambda tx, now: tx.devices.sweep(now, BATCH),
    lambda tx, now: tx.administrations.sweep(now, BATCH),
    lambda tx, now: tx.api_tokens.sweep(now, BATCH),
    lambda tx, now: sweep_latency(tx, now, BATCH),
    lambda tx, now: tx.groups.sweep(now, BATCH),
    lambda tx, now: tx.participants.sweep(now, BATCH),
    lambda tx, now: tx.revocations.sweep(now, BATCH),
    lambda tx, now: tx.decisions.sweep(now, BATCH),
    lambda tx, _: tx.decisions.sweep_without_client(_DECISIONS_WITHOUT_CLIENT, _COUNTED_BATCH),
    lambda tx, _: tx.decisions.sweep_beyond(_DECISIONS, _COUNTED_BATCH),
    lambda tx, now: tx.request_samples.sweep(now, BATCH),
    lambda tx, _: tx.request_samples.sweep_beyond(_SAMPLES, _COUNTED_BATCH),
    lambda tx, now: tx.throttles.sweep(now, BATCH),
    lambda tx, now: tx.signing_keys.sweep(now, BATCH),
    lambda tx, now: tx.clients.sweep_secrets(now, BATCH),
    lambda tx, now: tx.invitations.sweep(now, BATCH),
    lambda tx, _: tx.outbox.adopt(BATCH),
    lambda tx, now: tx.outbox.sweep(Instant(now - _GIVING_UP), BATCH),
    lambda tx, now: sweep_counts(tx, now, BATCH),
    lambda tx, now: sweep_people(tx, now, BATCH),
)
"""Every table with rows that expire. Events expire only if the operator says so."""


def address_sweep(settings: PrivacySettings) -> Sweep:
    """Return the sweep that erases IP addresses past their retention; all if none is recorded."""

    def sweep(tx: Transaction, now: Instant) -> int:
        before = Instant(now - settings.ip_address_retention)
        if not settings.record_ip_addresses:
            before = _END_OF_TIME
        of_events = tx.event_origins.sweep(before, BATCH)
        return max(of_events, tx.sessions.erase_addresses(before, BATCH))

    return sweep


class Maintenance(Struct, frozen=True):
    """Run in the background of every worker; nothing here requires a single instance."""

    store: Store
    decisions: ClientDecisionQueue
    keys: SigningKeyRing
    runtime: Runtime
    keep: Retention = _KEEP
    more: Sequence[Sweep] = ()
    samples: RequestSamples = field(default_factory=RequestSamples)

    async def write_decisions(self) -> None:
        """Write queued refusals every tenth of a second, samples of requests every two seconds."""
        rounds = 0
        while True:
            await rest(_WRITE_EVERY)
            await self.flush()
            rounds += 1
            if rounds % _SAMPLES_EVERY == 0:
                await self.flush_samples()

    async def flush(self) -> None:
        """Write every queued refusal, a batch at a time.

        Refusals that could not be written are queued again.
        """
        while waiting := self.decisions.drain(QUEUED_BATCH):
            await written_or(
                partial(self.decisions.give_back, waiting),
                self.store.write(partial(_write_down, waiting), done_by=SYSTEM),
            )

    async def flush_samples(self) -> None:
        """Write every queued sample of a request, as `flush` does."""
        while waiting := self.samples.drain(QUEUED_BATCH):
            await written_or(
                partial(self.samples.give_back, waiting),
                self.store.write(
                    partial(_add_samples, waiting, self.samples.every), done_by=SYSTEM
                ),
            )

    async def sweep(self) -> None:
        """Delete expired rows, a batch at a time; first continue interrupted bulk revocations."""
        await sweep_all(self.store, self.runtime.now(), (continue_oldest,))
        clock = asyncio.get_running_loop().time
        took = 0.0
        while True:
            await rest(max(0.0, _SWEEP_EVERY - took))
            began = clock()
            await sweep_all(self.store, self.runtime.now(), self._sweeps())
            took = clock() - began

    def _sweeps(self) -> Sequence[Sweep]:
        return (continue_oldest, *SWEEPS, _index_users, *self.more, self._sweep_events)

    def _sweep_events(self, tx: Transaction, now: Instant) -> int:
        return sweep_events(tx, self.keep, BATCH)

    async def count_usage(self) -> None:
        """Count the usage of apps, a batch at a time."""
        while True:
            await rest(_COUNT_EVERY)
            await sweep_all(self.store, self.runtime.now(), (roll_up,))

    async def keep_keys(self) -> None:
        """Publish and retire signing keys on schedule."""
        while True:
            await self.keys.maintain(self.runtime.now())
            await rest(_KEYS_EVERY)


def sweep_events(tx: Transaction, keep: Retention, limit: int) -> int:
    """Delete at most `limit` events past their retention, and blocks of the chain without events.

    The age is judged at the time of the newest block, which states the retention: verification
    accepts a missing event only if a signed block allows it.
    """
    newest = tx.audit_chain.newest()
    if newest is None or newest.keep != keep.encode():
        return 0
    before = Instant(newest.at - keep.usual)
    swept = tx.events.sweep(before, limit)
    for name, lifetime in keep.of_name.items():
        if swept < limit:
            swept += tx.events.sweep_name(name, Instant(newest.at - lifetime), limit - swept)
    if swept < limit:
        swept += tx.audit_chain.sweep(before, limit - swept)
    return swept


def _write_down(waiting: Sequence[Decision], tx: Transaction) -> None:
    if tx.decisions.find(waiting[0].reference) is not None:
        # The connection was lost during the write, which was committed.
        waiting = [
            decision for decision in waiting if tx.decisions.find(decision.reference) is None
        ]
    for decision in waiting:
        tx.decisions.add(decision)
    count_refusals(tx, waiting)


def _add_samples(waiting: Sequence[RequestSample], every: int, tx: Transaction) -> None:
    tx.request_samples.add(waiting, every)


def _index_users(tx: Transaction, now: Instant) -> int:
    # Accounts created before users could be searched.
    return tx.user_directory.index_more(BATCH)


def _sweep(sweep: Sweep, now: Instant, least: int, tx: Transaction) -> tuple[int, bool]:
    """Delete batches until `least` rows are gone; return the count and whether some may be left."""
    swept = 0
    while True:
        gone = sweep(tx, now)
        swept += gone
        if gone < BATCH or swept >= least:
            return swept, gone >= BATCH


def pause_after(took: float, *, hurried: bool) -> float:
    """Return the seconds for which a sweep pauses after a transaction that took `took`.

    Requests have nine tenths of the time, or half of it if the sweep is `hurried`. The maxima are
    for a slow database, where it would never end.
    """
    if hurried:
        return min(_LONGEST_HURRIED_PAUSE, took)
    return min(_LONGEST_PAUSE, _FOR_REQUESTS * took)


async def sweep_all(
    store: Store, now: Instant, sweeps: Sequence[Sweep], *, unhurried: float = _UNHURRIED
) -> int:
    """Delete everything that expired, in transactions of a few rows; return the count.

    The tables take turns: a table with a million expired rows does not delay the others. A sweep
    that is not done after `unhurried` seconds hurries: the next one is due soon.
    """
    swept = 0
    clock = asyncio.get_running_loop().time
    due, hurry_at = list(sweeps), clock() + unhurried
    while due:
        more: list[Sweep] = []
        for sweep in due:
            began = clock()
            hurried = began >= hurry_at
            work = partial(_sweep, sweep, now, HURRIED_BATCH if hurried else BATCH)
            gone, is_left = await store.write(work, done_by=USUAL_ACTOR)
            swept += gone
            if is_left:
                more.append(sweep)
                await asyncio.sleep(pause_after(clock() - began, hurried=hurried))
        due = more
    return swept


_EVERY = 2.0
_AT_ONCE = 1_000


async def log_revocations(store: Store, endings: RevocationLog) -> None:
    """Append every revocation that the database has and the file lacks. Raises OSError."""
    at, after = endings.read_from, ""
    while True:
        page = await store.scan(partial(_page, at, after))
        await asyncio.to_thread(endings.append, page.found)
        if page.last is None:
            return
        at, after = page.last


def _page(at: Instant, after: str, tx: Transaction) -> RevocationPage:
    return tx.restoration.revocations(at, after, _AT_ONCE)


class RevocationLogWriter(Struct, frozen=True):
    """Keep the revocation log beside the keyring up to date while the server runs."""

    store: Store
    file: Path
    runtime: Runtime

    async def run(self) -> None:
        """Log revocations until cancelled; `doctor` reports a folder that is not writable."""
        try:
            endings = RevocationLog(self.file)
        except OperatorError:
            return
        mark = None
        while True:
            await rest(_EVERY)
            now = self.store.engine.mark()
            if now is not None and now == mark:
                continue
            try:
                await log_revocations(self.store, endings)
                mark = now
            except (DatabaseUnavailable, Overloaded, OSError) as failure:
                cause = f"RevocationLogWriter.run: {type(failure).__name__}: {failure}"
                log.throttled("error", "background.failed", cause, job="RevocationLogWriter.run")


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
                    *(gauge for gauges in self.more for gauge in gauges.metrics),
                ):
                    gauge.replace({})
            await rest(_READ_EVERY)

    async def read(self) -> None:
        """Read the metrics now."""
        now = self.runtime.now()
        await self.store.scan(lambda tx: self._read(tx, now))

    def _read(self, tx: Transaction, now: Instant) -> None:
        _read(tx, now, self.destinations)
        for gauges in self.more:
            gauges.read(tx, now)


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


_MEASURE_EVERY = 10.0


class ResponseTimeCounter(Struct, frozen=True):
    """Count response times in one process; at most a few dozen numbers are buffered."""

    waiting: Counter[Key] = field(default_factory=Counter[Key])

    def count(self, at: Instant, status: int, seconds: float) -> None:
        """Count one response and the time it took."""
        self.waiting[key_of(at, status, seconds)] += 1

    async def run(self, store: Store) -> None:
        """Write the counts every ten seconds."""
        while True:
            await rest(_MEASURE_EVERY)
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
