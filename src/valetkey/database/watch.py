"""Watch a database while its server runs: it must stay in place and never become older."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from valetkey.database.engine import DatabaseUnavailable, Engine, Overloaded, TablesMissing
from valetkey.database.identity import Seen, advance, is_older, lagging, remember
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Mistake

_LOOK_EVERY = 1.0  # seconds
_NUMBER_EVERY = 2  # checks
_MEASURE_EVERY = 15  # checks


@dataclass(slots=True)
class Watch:
    """Checks the database every second, and notes its progress in a file every two seconds.

    `tell` is called once with what is wrong, and with "" when it is resolved.
    """

    engine: Engine
    file: Path
    now: Callable[[], Instant]
    tell: Callable[[str], None]
    lag: int
    _last: Seen | None = field(default=None, init=False)
    _mark: bytes | None = field(default=None, init=False)
    _said: str = field(default="", init=False)

    async def run(self) -> None:
        """Watch until cancelled."""
        rounds = 0
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            if rounds % _MEASURE_EVERY == 0:
                await self._measure()
            rounds += 1
            if not self._look() and rounds % _NUMBER_EVERY == 0:
                with contextlib.suppress(DatabaseUnavailable, Overloaded):
                    await self._advance()

    def _look(self) -> str:
        wrong = self.engine.look()
        if wrong != self._said:
            self._said = wrong
            self.tell(wrong)
        return wrong

    async def _measure(self) -> None:
        try:
            sizes = await self.engine.sizes()
        except (DatabaseUnavailable, Overloaded, OSError):
            sizes = {}
        metrics.DATABASE_BYTES.replace({(part,): size for part, size in sizes.items()})

    async def _advance(self) -> None:
        mark = self.engine.mark()
        if mark is not None and mark == self._mark:
            # Nothing was committed since: nothing can be lost.
            return
        now = self.now()
        try:
            found, grew = await self.engine.write(lambda db: advance(db, now))
        except TablesMissing:
            found, grew = None, False
        self._mark = self.engine.mark() if grew else None
        if found is None or (self._last is not None and _went_back(found, self._last, self.lag)):
            wrong = "the database went back to an earlier state"
            if found is None:
                wrong = "the database was emptied or copied to another one"
            self.engine.refuse(f"{wrong}; restart the server")
            self._look()
            return
        self._last = found
        with contextlib.suppress(Mistake):
            remember(self.file, lagging(found, self.lag))


def _went_back(found: Seen, last: Seen, lag: int) -> bool:
    return found.database != last.database or is_older(found, lagging(last, lag))
