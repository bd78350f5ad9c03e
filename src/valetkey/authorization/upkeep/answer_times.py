"""How long answers took: counted in memory, written down behind the requests' back."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from valetkey.authorization.deeds.admin.latency import key_of
from valetkey.authorization.storage.administration.answer_times import Key
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.upkeep.outcome import written_or
from valetkey.kernel.moment import Instant

_WRITE_EVERY = 10.0


@dataclass(frozen=True, slots=True)
class AnswerClock:
    """Counts in one process. At most a few dozen numbers wait."""

    waiting: Counter[Key] = field(default_factory=Counter[Key])

    def note(self, at: Instant, status: int, seconds: float) -> None:
        """One more answer, and how long the server took for it."""
        self.waiting[key_of(at, status, seconds)] += 1

    async def keep(self, store: Store) -> None:
        """Write down what waits, every ten seconds."""
        while True:
            await asyncio.sleep(_WRITE_EVERY)
            await self.flush(store)

    async def flush(self, store: Store) -> None:
        """Write it down now; what could not be written waits again."""
        amounts = dict(self.waiting)
        if not amounts:
            return
        self.waiting.clear()
        await written_or(
            lambda: self.waiting.update(amounts),
            store.write(lambda tx: tx.answer_times.add(amounts)),
        )
