"""Run blocking work on threads, away from the event loop, also where the system refuses more."""

import asyncio
import contextlib
import errno
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

from valetkey.kernel import metrics
from valetkey.kernel.runtime import IssuerThread

P = ParamSpec("P")
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

        With a `niceness` they yield to other threads of the machine (Linux only).
        """
        self._niceness = niceness
        self._workers = workers
        self._name = name
        # Held by callers only. A thread that yields to others, here or on the machine, must hold
        # no lock: the event loop would wait until that thread has its turn at the processor.
        self._turn = threading.Lock()
        # One for each job that may still come.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(workers + queue):
            self._free.put(None)
        # What to do on a thread, and what to do if it is dropped; None ends a thread.
        self._queue: SimpleQueue[tuple[Callable[[], None], Callable[[], None]] | None]
        self._queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        metrics.QUEUE.read_from(lambda: max(0, queue - self._free.qsize()), name)

    @property
    def is_full(self) -> bool:
        """Return whether `run` would raise Full now."""
        return self._free.empty()

    def reserve(self) -> None:
        """Count a job that is to come: `run` it as `reserved`, or `release` it. Raises Full."""
        try:
            if not self._closed:
                self._free.get_nowait()
                return
        except Empty:
            pass
        raise Full("too much slow work is waiting")

    def release(self) -> None:
        """Stop counting a job: it was reserved and not run, or has left its thread or the queue."""
        self._free.put(None)

    def run(self, job: Callable[[], T], *, reserved: bool = False) -> "asyncio.Future[T]":
        """Run `job` on a thread and return its result or raise its exception.

        A job whose future was cancelled before it began is not run. Raises Full; one that is
        `reserved` counts as before then.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(function: Callable[..., None], *arguments: object) -> None:
            self.release()
            # A closed loop has no caller left to receive the result.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(function, answer, *arguments)

        def run_queued() -> None:
            if answer.cancelled():
                self.release()
                return
            try:
                result = job()
            except BaseException as problem:  # noqa: BLE001 - raised again where it is awaited
                settle(_fail, problem)
            else:
                settle(_succeed, result)

        if not reserved:
            self.reserve()
        with self._turn:
            problem = "it is closed" if self._closed else self._lack_of_threads()
            if not problem:
                self._queue.put((run_queued, lambda: settle(_cancel)))
                return answer
        if not reserved:
            self.release()
        raise Full(problem)

    def close(self, *, drop: bool) -> None:
        """Finish running jobs, and queued jobs unless they are to be dropped. Blocks."""
        with self._turn:
            self._closed = True
        while drop:
            try:
                dropped = self._queue.get_nowait()
            except Empty:
                break
            if dropped is not None:
                dropped[1]()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _lack_of_threads(self) -> str:
        """Start a thread if the limit allows it; return why there is none, or "" if there is."""
        if len(self._threads) < self._workers:
            thread = IssuerThread(self._serve, self._name)
            # The system may be out of threads or memory: those that run do the work.
            with contextlib.suppress(RuntimeError, MemoryError):
                thread.start()
                self._threads.append(thread)
        return "" if self._threads else "the system starts no thread"

    def _serve(self) -> None:
        if self._niceness and sys.platform == "linux":
            # Some containers forbid it; the work is done all the same.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
        while (queued := self._queue.get()) is not None:
            work, _ = queued
            # A reference kept while waiting for the next job would keep this one's result alive.
            del queued
            work()
            del work


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


class NoThread(OSError):
    """The system refuses to start a thread. An OSError, so that callers handle it as one."""

    def __init__(self) -> None:
        """Name the limits that refuse threads."""
        super().__init__(
            errno.EAGAIN, "the system starts no thread (RLIMIT_NPROC, TasksMax, pids.max or memory)"
        )


class DefaultThreads(ThreadPoolExecutor):
    """A pool that leaves work to the threads it has when the system refuses one more.

    The standard library's raises RuntimeError, which nothing expects, and runs the work later all
    the same.
    """

    def __init__(self, workers: int | None = None, name: str = "valetkey-blocking") -> None:
        """Start no thread yet; `workers` is at most as many."""
        super().__init__(workers, name, initializer=self._note)
        self._has_thread = False
        self._is_over = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `function` on a thread. Raises NoThread if there is none."""
        future: Future[T] = Future()
        try:
            super().submit(_settle, future, partial(function, *args, **kwargs))
        except (RuntimeError, MemoryError) as problem:
            if self._is_over:
                raise
            if not self._has_thread:
                # It stays in the queue of the standard library.
                future.cancel()
                raise NoThread from problem
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept nothing more."""
        self._is_over = True
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _note(self) -> None:
        self._has_thread = True


def _settle(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as problem:  # noqa: BLE001 - raised again where it is awaited
        future.set_exception(problem)
