"""Limit concurrent outbound requests so that one slow destination delays few others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from valetkey.fetch.address import read_address
from valetkey.kernel.url import Web

AT_ONCE = 64
"""Maximum number of concurrent requests."""

AT_ONCE_SITE = 16
"""Maximum per site, counted over all its hosts: a domain's owner can create any number of hosts."""

AT_ONCE_THERE = 6
"""Maximum per host and port."""


class RequestSlots:
    """Slots for requests; waiting for a busy host or site takes no global slot."""

    def __init__(self) -> None:
        """Start with every slot free."""
        self._all = asyncio.Semaphore(AT_ONCE)
        self._some: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, web: Web) -> AsyncGenerator[None]:
        """Wait for a slot for `web` and hold it for the duration of the block."""
        there = self._of(f"host {web.host}:{web.port}", AT_ONCE_THERE)
        site = self._of(f"site {site_of(web.host)}", AT_ONCE_SITE)
        # The narrowest limit first: a request waiting for its own host holds no slot others could
        # use.
        async with AsyncExitStack() as held:
            for semaphore in (there, site, self._all):
                await held.enter_async_context(semaphore)
            yield

    def _of(self, place: str, most: int) -> asyncio.Semaphore:
        return self._some.setdefault(place, asyncio.Semaphore(most))


def site_of(host: str) -> str:
    """Return the site of a host: the last two labels of a name, or an IP address itself.

    Approximates one owner. Under a suffix such as `co.uk`, where registered names have three
    labels, unrelated owners count as one site and share its limits.
    """
    if read_address(host.strip("[]")) is not None:
        return host
    return ".".join(host.rsplit(".", 2)[-2:])
