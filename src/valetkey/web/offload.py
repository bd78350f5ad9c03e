"""Run slow work such as Argon2 off the event loop: few threads, a short queue, then Busy."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from valetkey.kernel.bounded_threads import BoundedThreads, Full
from valetkey.kernel.waiting import current_span

_NICENESS = 10

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Busy(Exception):
    """The queue or the memory is full: the caller is refused rather than served too late."""


class Offload:
    """Runs functions on `workers` threads; at most `queue` more may wait for one."""

    def __init__(self, workers: int, queue: int, name: str = "offload") -> None:
        """Start no thread yet; they start with the first work. `name` is for metrics and spans."""
        # The event loop comes first: it answers everyone else meanwhile.
        self._threads = BoundedThreads(workers, queue, name, niceness=_NICENESS)
        self._name = f"offload {name}"

    @property
    def is_full(self) -> bool:
        """Return whether `run` would raise Busy now, to skip preparing work for it."""
        return self._threads.is_full

    async def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call `function` on a thread; return or raise its outcome.

        Raises Busy if it is full, or out of memory: the caller is told to try again later.
        """
        with current_span().child(self._name):
            try:
                return await self._threads.run(partial(function, *args, **kwargs))
            except Full:
                raise Busy("too much slow work is waiting") from None
            except MemoryError:
                raise Busy("there is no memory for slow work") from None

    def close(self) -> None:
        """Finish the work in progress and drop the queue."""
        self._threads.close(drop=True)
