"""Turns: how many requests go out at one time, so that whoever is slow harms few others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from valetkey.fetch.address import read_address
from valetkey.kernel.url import Web

AT_ONCE = 64
"""Requests under way at one time."""

AT_ONCE_SITE = 16
"""The same towards all hosts of one site: whoever has a domain has any number of hosts in it."""

AT_ONCE_THERE = 6
"""The same towards one host and port."""


class Turns:
    """Who may go out now: the others wait, those to a place that is busy for that place alone."""

    def __init__(self) -> None:
        """Nobody is out yet."""
        self._all = asyncio.Semaphore(AT_ONCE)
        self._some: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, web: Web) -> AsyncGenerator[None]:
        """Wait for a turn there, and hold it."""
        there = self._of(f"host {web.host}:{web.port}", AT_ONCE_THERE)
        site = self._of(f"site {site_of(web.host)}", AT_ONCE_SITE)
        # Narrow ones first: who waits for its own place takes none that others could use.
        async with AsyncExitStack() as held:
            for semaphore in (there, site, self._all):
                await held.enter_async_context(semaphore)
            yield

    def _of(self, place: str, most: int) -> asyncio.Semaphore:
        return self._some.setdefault(place, asyncio.Semaphore(most))


def site_of(host: str) -> str:
    """What is likely to be one owner's: the last two labels of a name, an address by itself.

    Where owners have names of three labels, as below `co.uk`, some share a site: they then share
    its turns, and nothing else.
    """
    if read_address(host.strip("[]")) is not None:
        return host
    return ".".join(host.rsplit(".", 2)[-2:])
