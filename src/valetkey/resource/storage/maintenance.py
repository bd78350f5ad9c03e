"""Background work: write queued decision records, delete expired rows; no cron needed."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from valetkey.database.decisions import Decision, DecisionQueue, Decisions
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine, Overloaded
from valetkey.kernel.moment import Instant, Lifetime, days
from valetkey.kernel.runtime import Runtime, rest
from valetkey.resource.storage.events import Events
from valetkey.resource.storage.values import Sweep

T = TypeVar("T")

UNAVAILABLE = (DatabaseUnavailable, Overloaded)
"""Exceptions of a database that is temporarily unavailable."""

_EVERY = 1.0
_SWEEP_EVERY = 15  # rounds
_BATCH = 500
_YEAR = days(365)


class Maintenance(Struct, frozen=True):
    """Run in the background while the server runs."""

    engine: Engine
    runtime: Runtime
    decisions: DecisionQueue
    keep_events: Lifetime = _YEAR

    async def run(self) -> None:
        """Write decision records every second and delete expired rows, until cancelled."""
        rounds = 0
        while True:
            await rest(_EVERY)
            rounds += 1
            with contextlib.suppress(*UNAVAILABLE):
                await self.write_decisions()
                if rounds % _SWEEP_EVERY == 0:
                    await self.sweep()

    async def write_decisions(self) -> None:
        """Write queued records. Raises what `Engine.write` raises; that batch is then lost."""
        while taken := self.decisions.drain(_BATCH):
            await self.engine.write(_adding(taken))

    async def sweep(self) -> None:
        """Delete everything that expired, in batches."""
        now = self.runtime.now()
        forgotten = Instant(now - self.keep_events)
        gone = _BATCH
        while gone >= _BATCH:
            gone = await self.engine.write(lambda db: Sweep(db).everything(now, _BATCH))
        gone = _BATCH
        while gone >= _BATCH:
            gone = await self.engine.write(lambda db: Events(db).sweep(forgotten, _BATCH))


def tolerate_outage(
    engine: Engine, work: Callable[[Connection, T], None]
) -> Callable[[T], Awaitable[bool]]:
    """Return a function that runs `work` and returns False while the database is down."""

    async def write_if_available(value: T) -> bool:
        try:
            await engine.write(lambda db: work(db, value))
        except UNAVAILABLE:
            return False
        return True

    return write_if_available


def _adding(taken: Sequence[Decision]) -> Callable[[Connection], None]:
    def add_decisions(db: Connection) -> None:
        for decision in taken:
            Decisions(db).add(decision)

    return add_decisions
