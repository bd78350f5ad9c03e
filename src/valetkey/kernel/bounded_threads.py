"""A few threads with a bounded queue, for work that must not hold up an event loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TypeVar

from valetkey.kernel import metrics

T = TypeVar("T")


class Full(Exception):
    """As many jobs run and wait as may."""


class BoundedThreads:
    """Runs jobs on `workers` threads, and lets at most `queue` more wait for one.

    A job whose caller was cancelled counts until it is out of the queue and off its thread, or
    callers that come and go would pile up jobs without a bound.
    """

    def __init__(self, workers: int, queue: int, name: str) -> None:
        """Start no thread yet; they start with the jobs."""
        self._limit = workers + queue
        self._taken = 0
        self._turn = threading.Lock()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=name)
        metrics.QUEUE.ask(lambda: max(0, self._taken - workers), name)

    @property
    def is_full(self) -> bool:
        """Whether `run` would raise Full now."""
        return self._taken >= self._limit

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """What `job` returns or raises; it is not begun once that future was cancelled.

        Raises Full.
        """
        with self._turn:
            if self.is_full:
                raise Full
            self._taken += 1
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def unless_given_up() -> T:
            if answer.cancelled():
                raise CancelledError
            return job()

        def tell(done: Future[T]) -> None:
            self._free()
            # A loop that is closed has nobody left to hear it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, answer, done)

        # The caller cancels the answer and never this: it would leave the count, not the queue.
        self._threads.submit(unless_given_up).add_done_callback(tell)
        return answer

    def close(self, *, drop: bool) -> None:
        """Finish what runs, and what waits unless it is to be dropped. Blocks."""
        self._threads.shutdown(wait=True, cancel_futures=drop)

    def _free(self) -> None:
        with self._turn:
            self._taken -= 1


def _settle(answer: "asyncio.Future[T]", done: Future[T]) -> None:
    if answer.done():
        return
    if done.cancelled():
        answer.cancel()
    elif (problem := done.exception()) is None:
        answer.set_result(done.result())
    elif isinstance(problem, StopIteration):
        # A future cannot carry it: it would end the caller's own iteration.
        answer.set_exception(RuntimeError("the job raised StopIteration"))
    else:
        answer.set_exception(problem)
