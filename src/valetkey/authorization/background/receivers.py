"""What deliveries to receivers share: a task for each receiver, and pauses after failures."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable
from functools import partial

from valetkey.fetch.outbound import Fetched
from valetkey.kernel.moment import Lifetime, minutes, seconds
from valetkey.web import log

LONGEST_PAUSE = minutes(30)
"""The longest pause between attempts, also if the receiver asks for more."""

PAUSES = (seconds(5), seconds(30), minutes(2), minutes(10), LONGEST_PAUSE)
"""Longest pauses after the first, second, … failed attempt; each is shortened by up to half."""

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def pause_after(failures: int, asked: int, random: Callable[[int], bytes]) -> Lifetime:
    """Return the pause after so many failed attempts; at least what the receiver `asked` for."""
    longest = PAUSES[min(failures, len(PAUSES)) - 1]
    jitter = int.from_bytes(random(2), "big") / 65_536
    return Lifetime(max(int(longest * (1 - jitter / 2)), asked))


def asked_pause(found: Fetched) -> int:
    """Return the seconds in the Retry-After of a response; 0 for none or another form."""
    text = found.retry_after
    return min(int(text), LONGEST_PAUSE) if _SECONDS.fullmatch(text) else 0


class ReceiverTasks:
    """A task for each receiver that has due messages, so that a slow one delays no other.

    `deliver` attempts a few messages of one receiver and returns whether there may be more;
    `failed` is what a failure of the program itself is called in the log.
    """

    def __init__(
        self, deliver: Callable[[str], Coroutine[object, object, bool]], failed: str
    ) -> None:
        """Start without tasks."""
        self._deliver = deliver
        self._failed = failed
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def begin(self, receivers: Iterable[str]) -> None:
        """Start a task for each of these receivers that has none here."""
        for each in receivers:
            if each not in self._under_way:
                task = asyncio.create_task(self._deliver_all(each))
                self._under_way[each] = task
                task.add_done_callback(partial(self._end, each))

    async def close(self) -> None:
        """Cancel all tasks; another process retries when their leases have expired."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver_all(self, receiver: str) -> None:
        while await self._deliver(receiver):
            pass

    def _end(self, receiver: str, task: "asyncio.Task[None]") -> None:
        del self._under_way[receiver]
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            log.error(self._failed, failure)
