"""The proof that a database can be written to: a write like those of requests, and larger."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from valetkey.database.engine import Connection, DatabaseUnavailable, Engine
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.waiting import CALLER

_BYTES = 48 * 1024
"""Random, 64 KiB as text: more pages than any one request writes, and nothing that compresses."""


async def prove_writable(engine: Engine, random: Callable[[int], bytes]) -> None:
    """Commit 64 KiB in a row of its own. Raises what `Engine.write` raises."""
    if wrong := engine.look():
        raise DatabaseUnavailable(wrong)
    text = to_base64url(random(_BYTES))

    def work(db: Connection) -> None:
        db.send(
            "INSERT INTO probe (name, text) VALUES ('readiness', :text)"
            " ON CONFLICT (name) DO UPDATE SET text = excluded.text",
            text=text,
        )

    await engine.write(work)


@dataclass(slots=True)
class Readiness:
    """Proves at most once a second that the database can be written to, however many ask.

    A proof is worth nothing once a write of any request failed after it.
    """

    engine: Engine
    random: Callable[[int], bytes]
    _proved: tuple[Instant, int] | None = field(default=None, init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def prove(self, now: Instant) -> None:
        """Return when the database can be written to. Raises what `Engine.write` raises."""
        if (now, self.engine.failures()) == self._proved and not self.engine.look():
            return
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._prove(now))
            # All who asked may have gone by then.
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Shielded: a caller that goes away must not end the proof that others wait for.
        await asyncio.shield(self._running)

    async def _prove(self, now: Instant) -> None:
        # Others wait for it, too: it does not end with the request that began it.
        CALLER.set(None)
        before = self.engine.failures()
        await prove_writable(self.engine, self.random)
        self._proved = (now, before)
