"""Waiting for the outcome of a write, so that what it wrote is neither lost nor written twice."""

import asyncio
from collections.abc import Callable, Coroutine


async def written_or(
    give_back: Callable[[], None], write: Coroutine[object, object, object]
) -> None:
    """Await `write`; if it fails, call `give_back` and raise what it raised.

    A caller that is cancelled waits for the outcome all the same: a write that is under way may
    still be committed, and what it wrote must not be written again.
    """
    task = asyncio.ensure_future(write)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            give_back()
        raise
    try:
        task.result()
    except BaseException:
        give_back()
        raise
