"""Work beside requests: background jobs, and slow work such as Argon2 in few threads."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from valetkey.kernel import metrics
from valetkey.kernel.bounded_threads import BoundedThreads, DefaultThreads, Full
from valetkey.kernel.tracing import current_span
from valetkey.web import log

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

        Raises Busy if it is full, or out of memory: the caller should retry later.
        """
        with self.slot() as slot:
            return await slot.run(function, *args, **kwargs)

    @contextmanager
    def slot(self) -> Generator["Slot"]:
        """Take a slot of the queue for one function, before the work that prepares its call.

        Raises Busy if there is none. A slot that was not used is free again after the block.
        """
        slot = Slot(self._threads, self._name)
        try:
            yield slot
        finally:
            slot.leave()

    def close(self) -> None:
        """Finish the work in progress and drop the queue."""
        self._threads.close(drop=True)


class Slot:
    """A slot of the queue of an `Offload`; see there."""

    def __init__(self, threads: BoundedThreads, name: str) -> None:
        """Take it. Raises Busy."""
        self._threads = threads
        self._name = name
        try:
            threads.reserve()
        except Full as full:
            raise Busy(str(full)) from None
        self._unused = True

    async def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call `function` on a thread; return or raise its outcome. Raises Busy: see `Offload`."""
        with current_span().child(self._name):
            try:
                running = self._threads.run(partial(function, *args, **kwargs), reserved=True)
                # From here on the thread frees the slot.
                self._unused = False
                return await running
            except Full as full:
                raise Busy(str(full)) from None
            except MemoryError:
                raise Busy("there is no memory for slow work") from None

    def leave(self) -> None:
        """Free the slot, unless it was used."""
        if self._unused:
            self._unused = False
            self._threads.release()


_RESTART = 1.0

_Job = Callable[[], Coroutine[object, object, object]]
_WITH_THREADS: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def start_background(
    jobs: Sequence[_Job], unavailable: tuple[type[Exception], ...]
) -> Sequence[asyncio.Task[None]]:
    """Start each of `jobs`, on a loop that survives refused threads: see `DefaultThreads`."""
    # Once for each loop: applications that share it share these threads.
    if (loop := asyncio.get_running_loop()) not in _WITH_THREADS:
        _WITH_THREADS.add(loop)
        loop.set_default_executor(DefaultThreads())
    return [asyncio.create_task(_keep_running(job, unavailable)) for job in jobs]


async def _keep_running(work: _Job, unavailable: tuple[type[Exception], ...]) -> None:
    """Run `work` until it returns; run it again a second after each failure.

    Each cause is logged once a minute.
    """
    named = work.func if isinstance(work, partial) else work
    job = getattr(named, "__qualname__", type(named).__name__)
    while True:
        try:
            await work()
        except unavailable as failure:
            metrics.JOB_FAILURES.add(job)
            cause = f"{job}: {type(failure).__name__}: {failure}"
            log.throttled("error", "background.failed", cause, job=job)
            await asyncio.sleep(_RESTART)
        except Exception as failure:  # noqa: BLE001 - what runs for ever must outlive its failures
            metrics.JOB_FAILURES.add(job)
            # Without its message, which may contain a secret.
            cause = f"{job}: {type(failure).__qualname__}"
            log.throttled("error", "background.failed", cause, failure, job=job)
            await asyncio.sleep(_RESTART)
        else:
            return
