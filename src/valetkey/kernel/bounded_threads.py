"""Run blocking work on a few threads with a bounded queue, away from the event loop."""

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from valetkey.kernel import metrics

T = TypeVar("T")


class Full(Exception):
    """The maximum number of jobs is already running or queued, or no thread can be started."""


class BoundedThreads:
    """Run jobs on `workers` threads, with at most `queue` more jobs waiting for one.

    A job whose caller was cancelled counts until it has left the queue and its thread. Otherwise
    callers that connect and disconnect could queue jobs without a bound.

    Not a ThreadPoolExecutor: that one keeps a job in its queue, where nothing may ever take it,
    when the system refuses to start a thread.
    """

    def __init__(self, workers: int, queue: int, name: str, *, niceness: int = 0) -> None:
        """Create the pool without starting a thread; threads start with the first jobs.

        With a `niceness` they give way to other threads of the machine (Linux only).
        """
        self._niceness = niceness
        self._workers = workers
        self._limit = workers + queue
        self._name = name
        self._taken = 0
        self._turn = threading.Condition()
        # What to do on a thread, and what to do if it is dropped.
        self._queue: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        metrics.QUEUE.ask(lambda: max(0, self._taken - workers), name)

    @property
    def is_full(self) -> bool:
        """Return whether `run` would raise Full now."""
        return self._taken >= self._limit

    def reserve(self) -> None:
        """Count a job that is to come: `run` it as `reserved`, or `release` it. Raises Full."""
        with self._turn:
            self._require_room()
            self._taken += 1

    def release(self) -> None:
        """Stop counting a reserved job that was not run."""
        self._free()

    def run(self, job: Callable[[], T], *, reserved: bool = False) -> "asyncio.Future[T]":
        """Run `job` on a thread and return its result or raise its exception.

        A job whose future was cancelled before it began is not run. Raises Full; one that is
        `reserved` counts as before then.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(function: Callable[..., None], *arguments: object) -> None:
            self._free()
            # A closed loop has no caller left to receive the result.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(function, answer, *arguments)

        def run_queued() -> None:
            if answer.cancelled():
                self._free()
                return
            try:
                result = job()
            except BaseException as problem:  # noqa: BLE001 - raised again where it is awaited
                settle(_fail, problem)
            else:
                settle(_succeed, result)

        with self._turn:
            if not reserved:
                self._require_room()
            if not self._has_thread():
                raise Full("the system starts no thread")
            self._taken += not reserved
            self._queue.append((run_queued, lambda: settle(_cancel)))
            self._turn.notify()
        return answer

    def close(self, *, drop: bool) -> None:
        """Finish running jobs, and queued jobs unless they are to be dropped. Blocks."""
        with self._turn:
            self._closed = True
            dropped = list(self._queue) if drop else []
            if drop:
                self._queue.clear()
            self._turn.notify_all()
        for _, cancel in dropped:
            cancel()
        for thread in self._threads:
            thread.join()

    def _require_room(self) -> None:
        if self._closed or self.is_full:
            raise Full("too much slow work is waiting")

    def _has_thread(self) -> bool:
        """Start a thread if none is free and the limit allows it; return whether there is any."""
        if len(self._queue) >= self._idle and len(self._threads) < self._workers:
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            # The system may be out of threads or memory: those that run do the work.
            with contextlib.suppress(RuntimeError, MemoryError):
                thread.start()
                self._threads.append(thread)
        return bool(self._threads)

    def _serve(self) -> None:
        if self._niceness and sys.platform == "linux":
            # Some containers forbid it; the work is done all the same.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
        while True:
            with self._turn:
                while not self._queue:
                    if self._closed:
                        return
                    self._idle += 1
                    self._turn.wait()
                    self._idle -= 1
                work, _ = self._queue.popleft()
            work()

    def _free(self) -> None:
        with self._turn:
            self._taken -= 1


def _succeed(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", problem: BaseException) -> None:
    if answer.done():
        return
    if isinstance(problem, StopIteration):
        # A future cannot carry StopIteration: it would end the caller's own iteration.
        problem = RuntimeError("the job raised StopIteration")
    answer.set_exception(problem)


def _cancel(answer: "asyncio.Future[T]") -> None:
    answer.cancel()
