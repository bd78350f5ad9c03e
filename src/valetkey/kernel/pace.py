"""The pace of background work: slower for an issuer without requests."""

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar

_AWAKE = 10.0  # seconds after a request in which background work looks as often as it wants
_SLOWER, _SLOWEST = 10, 60.0
"""By how much its pauses are longer after that, and their longest, in seconds."""


class Pace:
    """The pace of an issuer's background work: slower while no requests come.

    Where a process serves many issuers, most of them are idle, and what each of them looks for
    several times a second would keep the processor busy.
    """

    def __init__(self) -> None:
        """Begin awake."""
        self._awake_until = asyncio.get_running_loop().time() + _AWAKE
        self._request: asyncio.Future[None] | None = None

    def requested(self) -> None:
        """Note a request, which ends longer pauses."""
        self._awake_until = asyncio.get_running_loop().time() + _AWAKE
        if self._request is not None:
            self._request.set_result(None)
            self._request = None

    def pause(self, seconds: float) -> Awaitable[object]:
        """Wait so many seconds; while no requests come, up to ten times as long."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._awake_until:
            return asyncio.sleep(seconds)
        if self._request is None:
            self._request = loop.create_future()
        longest = max(seconds, min(seconds * _SLOWER, _SLOWEST))
        return asyncio.wait([self._request], timeout=longest)


PACE: ContextVar[Pace | None] = ContextVar("pace", default=None)
"""The pace of this background work; None where a process serves only one issuer."""


def rest(seconds: float) -> Awaitable[object]:
    """Wait until background work is to look again: `seconds`, unless its `PACE` is slower."""
    pace = PACE.get()
    return asyncio.sleep(seconds) if pace is None else pace.pause(seconds)
