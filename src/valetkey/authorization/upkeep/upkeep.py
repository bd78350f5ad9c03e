"""What a server does by itself: write down refusals, sweep out what expired, renew its keys."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from valetkey.authorization.deeds.admin.latency import sweep_latency
from valetkey.authorization.deeds.developer.usage import (
    count_refusals,
    roll_up,
    sweep_counts,
    sweep_people,
)
from valetkey.authorization.deeds.endings import work_off
from valetkey.authorization.model.server.decision import Decision
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.authorization.upkeep.outcome import written_or
from valetkey.kernel.moment import Instant, Lifetime, days, hours
from valetkey.kernel.runtime import Runtime

BATCH = 50
"""Rows deleted in one transaction: a millisecond or two in which nobody else writes to SQLite, also
where there are ten million of them."""

_COUNTED_BATCH = 500
"""The same for sweeps that count to 200,000 each time: 5 ms, so let them be fewer."""

_LONGEST_REST = 0.006
_WRITE_EVERY = 0.1
_SWEEP_EVERY = 10.0
_KEYS_EVERY = 30.0
_COUNT_EVERY = 10.0
_REPLAY_MEMORY = hours(1)
"""So long after its end a code is known as used, and its replay ends the grant."""

_GRANT_MEMORY = days(3)
"""So long after its end a grant is there for those who ask why."""

_IDLE_BUCKET = days(1)
_GIVING_UP = days(1)
"""So long emails stay that could not be sent: whoever sends them gives up first, and says so."""

_YEAR = days(365)
_DECISIONS = 200_000
"""Records kept of refusals, of each kind; a flood of refusals is not worth a disk."""

Sweep = Callable[[Transaction, Instant], int]

SWEEPS: tuple[Sweep, ...] = (
    lambda tx, now: tx.vouchers.sweep(Instant(now - _REPLAY_MEMORY), BATCH),
    lambda tx, now: tx.access_tokens.sweep(now, BATCH),
    lambda tx, now: tx.grants.sweep(Instant(now - _GRANT_MEMORY), BATCH),
    lambda tx, now: tx.scope_uses.sweep(now, BATCH),
    lambda tx, now: tx.sessions.sweep(now, BATCH),
    lambda tx, now: tx.devices.sweep(now, BATCH),
    lambda tx, now: tx.administrations.sweep(now, BATCH),
    lambda tx, now: tx.api_tokens.sweep(now, BATCH),
    lambda tx, now: sweep_latency(tx, now, BATCH),
    lambda tx, now: tx.participants.sweep(now, BATCH),
    lambda tx, now: tx.revocations.sweep(now, BATCH),
    lambda tx, now: tx.decisions.sweep(now, BATCH),
    lambda tx, _: tx.decisions.sweep_nobodys(_DECISIONS, _COUNTED_BATCH),
    lambda tx, _: tx.decisions.sweep_beyond(_DECISIONS, _COUNTED_BATCH),
    lambda tx, now: tx.throttles.sweep(Instant(now - _IDLE_BUCKET), BATCH),
    lambda tx, now: tx.signing_keys.sweep(now, BATCH),
    lambda tx, now: tx.clients.sweep_secrets(now, BATCH),
    lambda tx, now: tx.invitations.sweep(now, BATCH),
    lambda tx, now: tx.mails.sweep(Instant(now - _GIVING_UP), BATCH),
    lambda tx, now: sweep_counts(tx, now, BATCH),
    lambda tx, now: sweep_people(tx, now, BATCH),
)
"""Every table whose rows end. Events end when the operator says so."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Runs beside the requests, in every worker; nothing here needs to run only once."""

    store: Store
    decisions: DecisionQueue
    keys: SigningKeyRing
    runtime: Runtime
    keep_events: Lifetime = _YEAR
    more: Sequence[Sweep] = ()

    async def write_decisions(self) -> None:
        """Write what waits, every tenth of a second."""
        while True:
            await asyncio.sleep(_WRITE_EVERY)
            await self.flush()

    async def flush(self) -> None:
        """Write down every refusal that waits, a batch at a time.

        What could not be written waits again.
        """
        while waiting := self.decisions.drain(BATCH):
            await written_or(
                partial(self.decisions.give_back, waiting),
                self.store.write(partial(_write_down, waiting)),
            )

    async def sweep(self) -> None:
        """Delete what expired, a little at a time."""
        clock = asyncio.get_running_loop().time
        took = 0.0
        while True:
            await asyncio.sleep(max(0.0, _SWEEP_EVERY - took))
            began = clock()
            await sweep_all(self.store, self.runtime.now(), self._sweeps())
            took = clock() - began

    def _sweeps(self) -> Sequence[Sweep]:
        return (work_off, *SWEEPS, _let_be_found, *self.more, self._sweep_events)

    def _sweep_events(self, tx: Transaction, now: Instant) -> int:
        return tx.events.sweep(Instant(now - self.keep_events), BATCH)

    async def count_usage(self) -> None:
        """Count what apps were used for, a little at a time."""
        while True:
            await asyncio.sleep(_COUNT_EVERY)
            await sweep_all(self.store, self.runtime.now(), (roll_up,))

    async def keep_keys(self) -> None:
        """Publish and retire signing keys when it is time."""
        while True:
            await self.keys.keep(self.runtime.now())
            await asyncio.sleep(_KEYS_EVERY)


def _write_down(waiting: Sequence[Decision], tx: Transaction) -> None:
    if tx.decisions.find(waiting[0].reference) is not None:
        # The database went away while it wrote them, and had written them.
        waiting = [each for each in waiting if tx.decisions.find(each.reference) is None]
    for decision in waiting:
        tx.decisions.add(decision)
    count_refusals(tx, waiting)


def _let_be_found(tx: Transaction, now: Instant) -> int:
    # Who had an account before people could be searched for.
    return tx.people.put_more(BATCH)


def _sweep(sweep: Sweep, now: Instant, tx: Transaction) -> int:
    return sweep(tx, now)


async def sweep_all(store: Store, now: Instant, sweeps: Sequence[Sweep]) -> int:
    """Delete everything that expired, a batch in each transaction; how many it was.

    The tables take turns: one of which a million rows have expired keeps none waiting.
    """
    swept = 0
    clock = asyncio.get_running_loop().time
    due = list(sweeps)
    while due:
        more: list[Sweep] = []
        for sweep in due:
            began = clock()
            gone = await store.write(partial(_sweep, sweep, now))
            swept += gone
            if gone >= BATCH:
                more.append(sweep)
                # Others first: half of the time is theirs alone, unless so much is going on that
                # it would never come to its end.
                await asyncio.sleep(min(_LONGEST_REST, clock() - began))
        due = more
    return swept
