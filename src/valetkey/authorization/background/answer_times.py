"""Response times: counted in memory, written to the database in the background."""

import asyncio
from collections import Counter

from msgspec import Struct, field

from valetkey.authorization.actions.admin.latency import key_of
from valetkey.authorization.background.upkeep import written_or
from valetkey.authorization.storage.administration.answer_times import Key
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant

_WRITE_EVERY = 10.0


class AnswerClock(Struct, frozen=True):
    """Count response times in one process; at most a few dozen numbers are buffered."""

    waiting: Counter[Key] = field(default_factory=Counter[Key])

    def note(self, at: Instant, status: int, seconds: float) -> None:
        """Count one response and the time it took."""
        self.waiting[key_of(at, status, seconds)] += 1

    async def keep(self, store: Store) -> None:
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
            store.write(lambda tx: tx.answer_times.add(amounts)),
        )
