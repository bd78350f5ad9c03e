"""Verify that the database accepts writes, with a write larger than those of requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from valetkey.database.engine import Connection, DatabaseUnavailable, Engine
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.waiting import CALLER

_BYTES = 48 * 1024
"""Random bytes; 64 KiB as text: more pages than any request writes, and incompressible."""


async def prove_writable(engine: Engine, random: Callable[[int], bytes]) -> None:
    """Commit 64 KiB in a separate row. Raises what `Engine.write` raises."""
    if wrong := engine.look():
        raise DatabaseUnavailable(wrong)
    text = to_base64url(random(_BYTES))

    def write_probe(db: Connection) -> None:
        db.send(
            "INSERT INTO probe (name, text) VALUES ('readiness', :text)"
            " ON CONFLICT (name) DO UPDATE SET text = excluded.text",
            text=text,
        )

    await engine.write(write_probe)


@dataclass(slots=True)
class Readiness:
    """Verifies at most once a second that the database accepts writes, however many callers ask.

    A result becomes void once a write of any request failed after it.
    """

    engine: Engine
    random: Callable[[int], bytes]
    _proved: tuple[Instant, int] | None = field(default=None, init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def prove(self, now: Instant) -> None:
        """Return when the database accepts writes. Raises what `Engine.write` raises."""
        if (now, self.engine.failures()) == self._proved and not self.engine.look():
            return
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._prove(now))
            # Retrieves the exception when every caller was cancelled before the end.
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Shielded: cancelling one caller must not cancel the check that others share.
        await asyncio.shield(self._running)

    async def _prove(self, now: Instant) -> None:
        # Shared with other callers, so it does not end with the request that started it.
        CALLER.set(None)
        before = self.engine.failures()
        await prove_writable(self.engine, self.random)
        self._proved = (now, before)
