"""Resolve host names to addresses with the system's resolver or one supplied by a test."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol
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


# A separate pool: a lookup whose name server does not respond occupies a thread for half a minute
# and must not delay other work of this process. Its threads start when needed.
_THREADS = ThreadPoolExecutor(2 * AT_ONCE, thread_name_prefix="valetkey-resolve")


class Resolve(Protocol):
    """A function that finds the addresses of a host."""

    async def __call__(self, host: str, port: int, /) -> Sequence[str]:
        """Return every address of `host`, best first. Raises OSError if there is none."""
        ...


async def resolve_by_system(host: str, port: int, /) -> Sequence[str]:
    """Resolve through getaddrinfo, including the hosts file and search domains."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(
        _THREADS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return [str(entry[4][0]) for entry in found]


class Lookups:
    """Lookups in progress; one without callers continues because it cannot be cancelled."""

    def __init__(self, resolve: Resolve) -> None:
        """Resolve through `resolve`."""
        self._resolve = resolve
        self._under_way: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}

    async def find(self, host: str, port: int) -> Sequence[str]:
        """Return what `resolve` finds; concurrent calls for one host and port share one lookup.

        Raises OSError, also while 16 lookups of one site are in progress: since no more requests
        than that go to a site at a time, some of the lookups were given up by their callers and
        still hang.
        """
        place = (host, port)
        task = self._under_way.get(place)
        if task is None:
            site = site_of(host)
            if sum(site_of(other) == site for other, _ in self._under_way) >= AT_ONCE_SITE:
                raise OSError("DNS lookups of this host do not return")
            task = asyncio.ensure_future(self._resolve(host, port))
            self._under_way[place] = task
            task.add_done_callback(lambda done: self._end(place, done))
        return await asyncio.shield(task)

    def _end(self, place: tuple[str, int], done: asyncio.Task[Sequence[str]]) -> None:
        del self._under_way[place]
        if not done.cancelled():
            # Reading the exception keeps asyncio from logging it as never retrieved.
            done.exception()
