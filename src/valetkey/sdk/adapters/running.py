"""Run a gate: in the current event loop, or on a loop of its own for threads."""

import asyncio
import atexit
import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from threading import Lock, Thread
from weakref import WeakSet

from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.caller import Caller
from valetkey.sdk.protect import Protection

_CLOSE_WITHIN = 5.0  # seconds


class Running:
    """The protection of the running event loop, created and followed from the first request on."""

    def __init__(self, gate: Gate) -> None:
        """Work for `gate`; nothing starts yet."""
        self._gate = gate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._protection: Protection | None = None
        self._following: asyncio.Task[None] | None = None
        self._changes = 0

    async def admit(
        self, authorization: Sequence[str], *needs: str, roles: Collection[str] = ()
    ) -> Caller:
        """Return the caller, as `Protection.admit`. Raises Refused."""
        protection = self._protection
        if protection is None or self._is_stale():
            protection = await self.start()
        now = self._gate.runtime.now()
        return await protection.admit(authorization, now, *needs, roles=roles)

    async def start(self) -> Protection:
        """Start following keys and revocations, unless that runs already."""
        if self._protection is not None and not self._is_stale():
            return self._protection
        loop = asyncio.get_running_loop()
        # Objects of another loop can neither be used nor closed from here.
        old = self._protection if self._loop is loop else None
        following = self._following if self._loop is loop else None
        protection = self._protection = self._gate.protection()
        self._loop, self._changes = loop, self._gate.changes
        self._following = loop.create_task(protection.follow(self._gate.runtime.now))
        await _end(old, following)
        return protection

    async def close(self) -> None:
        """Stop following and close the connections; the next request starts again."""
        protection, following = self._protection, self._following
        self._protection = self._following = None
        await _end(protection, following)

    def _is_stale(self) -> bool:
        return self._loop is not asyncio.get_running_loop() or self._changes != self._gate.changes


async def _end(protection: Protection | None, following: asyncio.Task[None] | None) -> None:
    if following is not None:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    if protection is not None:
        await protection.close()


class Background:
    """A gate for threads: one event loop on one thread, started by the first request.

    Each process has its own: after a fork the child starts again. It ends with the interpreter.
    """

    def __init__(self, gate: Gate) -> None:
        """Work for `gate`; nothing starts yet."""
        self._gate = gate
        self._left: list[object] = []
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._running = Running(gate)
        _everywhere.add(self)

    def admit(
        self, authorization: Sequence[str], *needs: str, roles: Collection[str] = ()
    ) -> Caller:
        """Return the caller, as `Protection.admit`; blocks the calling thread. Raises Refused."""
        return self._begin(authorization, needs, roles).result()

    async def admit_async(
        self, authorization: Sequence[str], *needs: str, roles: Collection[str] = ()
    ) -> Caller:
        """Admit the caller of a request, from any event loop. Raises Refused."""
        return await asyncio.wrap_future(self._begin(authorization, needs, roles))

    def close(self) -> None:
        """End the thread; the next request starts again."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        # A hanging task must not keep the interpreter from ending.
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._running.close(), loop).result(_CLOSE_WITHIN)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _begin(
        self, authorization: Sequence[str], needs: Sequence[str], roles: Collection[str]
    ) -> Future[Caller]:
        loop = self._loop
        if loop is None:
            loop = self._start()
        admitted = self._running.admit(authorization, *needs, roles=roles)
        return asyncio.run_coroutine_threadsafe(admitted, loop)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = Thread(target=loop.run_forever, name="valetkey", daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    def reset_after_fork(self) -> None:
        """Start again without stopping the old loop: in the child of a fork it is the parent's."""
        # Kept, not collected: the parent still uses the descriptors of these objects.
        self._left.append((self._loop, self._thread, self._running))
        self._lock = Lock()
        self._loop = self._thread = None
        self._running = Running(self._gate)


_everywhere: WeakSet[Background] = WeakSet()


def _each(verb: Callable[[Background], None]) -> Callable[[], None]:
    def do() -> None:
        for background in tuple(_everywhere):
            verb(background)

    return do


# In the child of a fork the thread does not exist and its locks cannot be trusted.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_each(Background.reset_after_fork))
atexit.register(_each(Background.close))
