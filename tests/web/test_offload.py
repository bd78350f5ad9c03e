"""Slow work on threads."""

import asyncio
import threading
from contextlib import closing

import pytest

from valetkey.web.offload import Busy, Offload


def test_work_runs_on_another_thread_and_gives_its_answer() -> None:
    async def main() -> None:
        assert await offload.run(divmod, 7, 2) == (3, 1)
        assert await offload.run(threading.get_ident) != threading.get_ident()

    with closing(Offload(1, 0)) as offload:
        asyncio.run(main())


def test_failed_work_raises_for_its_caller() -> None:
    with closing(Offload(1, 0)) as offload, pytest.raises(ZeroDivisionError):
        asyncio.run(offload.run(divmod, 1, 0))


def test_full_queue_refuses_work_until_a_place_is_free() -> None:
    door = threading.Event()

    async def main() -> None:
        waiting = [asyncio.create_task(offload.run(door.wait)) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(Busy):
            await offload.run(door.wait)
        door.set()
        assert await asyncio.gather(*waiting) == [True] * 3
        await asyncio.sleep(0)
        assert await offload.run(door.wait)

    with closing(Offload(1, 2)) as offload:
        asyncio.run(main())


def test_abandoned_work_counts_until_it_is_done() -> None:
    door = threading.Event()

    async def main() -> None:
        task = asyncio.create_task(offload.run(door.wait))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(Busy):
            await offload.run(door.wait)
        door.set()

    with closing(Offload(1, 0)) as offload:
        asyncio.run(main())


def test_offload_is_full_while_all_threads_and_places_are_taken() -> None:
    door = threading.Event()

    async def main() -> None:
        fullness = [offload.is_full]
        tasks = [asyncio.create_task(offload.run(door.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        fullness.append(offload.is_full)
        door.set()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
        assert fullness == [False, True]

    with closing(Offload(1, 1)) as offload:
        asyncio.run(main())
