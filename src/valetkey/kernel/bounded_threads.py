"""Run blocking work on a few threads with a bounded queue, away from the event loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TypeVar

from valetkey.kernel import metrics

T = TypeVar("T")


class Full(Exception):
    """The maximum number of jobs is already running or queued."""


class BoundedThreads:
    """Run jobs on `workers` threads, with at most `queue` more jobs waiting for one.

    A job whose caller was cancelled counts until it has left the queue and its thread. Otherwise
    callers that connect and disconnect could queue jobs without a bound.
    """

    def __init__(self, workers: int, queue: int, name: str) -> None:
        """Create the pool without starting a thread; threads start with the first jobs."""
        self._limit = workers + queue
        self._taken = 0
        self._turn = threading.Lock()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=name)
        metrics.QUEUE.ask(lambda: max(0, self._taken - workers), name)

    @property
    def is_full(self) -> bool:
        """Return whether `run` would raise Full now."""
        return self._taken >= self._limit

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Run `job` on a thread and return its result or raise its exception.

        A job whose future was cancelled before it began is not run. Raises Full.
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
            # A closed loop has no caller left to receive the result.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, answer, done)

        # The caller cancels the result, never this future: cancelling this one would remove the job
        # from the count but leave it in the queue.
        self._threads.submit(unless_given_up).add_done_callback(tell)
        return answer

    def close(self, *, drop: bool) -> None:
        """Finish running jobs, and queued jobs unless they are to be dropped. Blocks."""
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
        # A future cannot carry StopIteration: it would end the caller's own iteration.
        answer.set_exception(RuntimeError("the job raised StopIteration"))
    else:
        answer.set_exception(problem)
