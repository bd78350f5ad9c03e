"""Run background jobs for as long as their server runs."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial

from valetkey.kernel import metrics
from valetkey.web import log

_RESTART = 1.0


async def keep_running(
    work: Callable[[], Coroutine[object, object, object]], unavailable: tuple[type[Exception], ...]
) -> None:
    """Run `work` until it returns; run it again a second after each failure.

    The cause is logged: once a minute for those in `unavailable`, each time for others.
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
            log.error("background.failed", failure, job=job)
            await asyncio.sleep(_RESTART)
        else:
            return
