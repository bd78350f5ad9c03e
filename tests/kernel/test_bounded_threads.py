"""Threads with a bounded queue."""

import asyncio
import threading

import pytest

from tests.support.wait import until
from valetkey.kernel.bounded_threads import BoundedThreads, Full


def test_cancelled_jobs_count_while_they_are_queued_and_are_never_begun() -> None:
    door, begun = threading.Event(), list[str]()

    async def main() -> None:
        held = threads.run(door.wait)
        queued = [threads.run(lambda: begun.append("x")) for _ in range(3)]
        for task in queued:
            task.cancel()
        await asyncio.wait(queued)
        with pytest.raises(Full):
            threads.run(lambda: None)
        door.set()
        assert await held
        await until(lambda: not threads.is_full)
        assert await threads.run(lambda: 7) == 7
        assert begun == []

    threads = BoundedThreads(1, 3, "test")
    try:
        asyncio.run(main())
    finally:
        threads.close(drop=True)


def test_a_cancelled_job_that_runs_counts_until_its_thread_is_free() -> None:
    door, running = threading.Event(), threading.Event()

    def job() -> None:
        running.set()
        door.wait()
        raise ValueError("nobody hears it")

    async def main() -> None:
        task = threads.run(job)
        await asyncio.to_thread(running.wait)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert threads.is_full
        door.set()
        await until(lambda: not threads.is_full)

    threads = BoundedThreads(1, 0, "test")
    try:
        asyncio.run(main())
    finally:
        threads.close(drop=True)


def test_without_a_thread_jobs_are_refused_and_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        with monkeypatch.context() as system:
            system.setattr(threading.Thread, "start", refuse)
            for _ in range(5):
                with pytest.raises(Full):
                    threads.run(lambda: 7)
        # Refused jobs do not count: there is room for two.
        both = await asyncio.gather(threads.run(lambda: 7), threads.run(lambda: 8))
        assert list(both) == [7, 8]

    threads = BoundedThreads(1, 1, "test")
    try:
        asyncio.run(main())
    finally:
        threads.close(drop=True)
