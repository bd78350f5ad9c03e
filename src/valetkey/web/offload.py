"""Slow work, such as Argon2, off the event loop: a few threads, a short queue, then Busy."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from valetkey.kernel.bounded_threads import BoundedThreads, Full

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Busy(Exception):
    """The queue is full: whoever asks is told at once instead of waiting for an answer too late."""


class Offload:
    """Runs functions on `workers` threads, and lets at most `queue` more wait for one."""

    def __init__(self, workers: int, queue: int, name: str = "offload") -> None:
        """Start no thread yet; they start with the work. `name` is that of its metric."""
        self._threads = BoundedThreads(workers, queue, name)

    @property
    def is_full(self) -> bool:
        """Whether `run` would raise Busy now: nothing need be prepared for it."""
        return self._threads.is_full

    async def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What `function` returns or raises. Raises Busy if the queue is full."""
        try:
            return await self._threads.run(partial(function, *args, **kwargs))
        except Full:
            raise Busy("too much slow work is waiting") from None

    def close(self) -> None:
        """Finish what is running, drop what waits."""
        self._threads.close(drop=True)
