"""Wait for the outcome of a write, so that its data is neither lost nor written twice."""

import asyncio
from collections.abc import Callable, Coroutine


async def written_or(
    give_back: Callable[[], None], write: Coroutine[object, object, object]
) -> None:
    """Await `write`; if it fails, call `give_back` and raise its exception.

    A cancelled caller still waits for the outcome: a write in progress may be committed, and its
    data must not be written again.
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
