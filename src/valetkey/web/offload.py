"""Slow work, such as Argon2, off the event loop: a few threads, a short queue, then Busy."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Busy(Exception):
    """The queue is full: whoever asks is told at once instead of waiting for an answer too late."""


class Offload:
    """Runs functions on `workers` threads, and lets at most `queue` more wait for one."""

    def __init__(self, workers: int, queue: int) -> None:
        """Start no thread yet; they start with the work."""
        self._limit = workers + queue
        self._taken = 0
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="offload")

    @property
    def is_full(self) -> bool:
        """Whether `run` would raise Busy now: nothing need be prepared for it."""
        return self._taken >= self._limit

    async def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What `function` returns or raises. Raises Busy if the queue is full."""
        if self.is_full:
            raise Busy("too much slow work is waiting")
        self._taken += 1
        future = self._threads.submit(function, *args, **kwargs)
        # Counted until the thread is free again, even if nobody waits for it any more.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: self._free(loop))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish what is running, drop what waits."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _free(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._taken -= 1
