"""The threads behind `asyncio.to_thread` and name lookups, on a system that may refuse more."""

import errno
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


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

    def submit(
        self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Run `function` on a thread. Raises NoThread if there is none."""
        future: Future[_T] = Future()
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


def _settle(future: "Future[_T]", work: Callable[[], _T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as problem:  # noqa: BLE001 - raised again where it is awaited
        future.set_exception(problem)
