"""Names to addresses, through the system's resolver or a test's own."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from valetkey.fetch.turns import AT_ONCE, AT_ONCE_SITE, site_of

# Threads of its own: names whose servers never answer hold one each for half a minute, and other
# work of this process must not wait for that. Made when needed.
_THREADS = ThreadPoolExecutor(2 * AT_ONCE, thread_name_prefix="valetkey-resolve")


class Resolve(Protocol):
    """Finds the addresses of a host."""

    async def __call__(self, host: str, port: int, /) -> Sequence[str]:
        """Every address of `host`, best first. Raises OSError where there is none."""
        ...


async def resolve_by_system(host: str, port: int, /) -> Sequence[str]:
    """What the system's resolver says, files and search order included."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(
        _THREADS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return [str(entry[4][0]) for entry in found]


class Lookups:
    """Lookups under way. One goes on when nobody waits for it any more: nothing can stop it."""

    def __init__(self, resolve: Resolve) -> None:
        """None yet; they go through `resolve`."""
        self._resolve = resolve
        self._under_way: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}

    async def find(self, host: str, port: int) -> Sequence[str]:
        """What `resolve` says; who asks while another asks for the same hears the same.

        Raises OSError, also while 16 lookups of one site are under way: with no more requests
        towards it at a time, some of those were given up and still hang.
        """
        place = (host, port)
        task = self._under_way.get(place)
        if task is None:
            site = site_of(host)
            if sum(site_of(other) == site for other, _ in self._under_way) >= AT_ONCE_SITE:
                raise OSError("lookups of this site do not come back")
            task = asyncio.ensure_future(self._resolve(host, port))
            self._under_way[place] = task
            task.add_done_callback(lambda done: self._end(place, done))
        return await asyncio.shield(task)

    def _end(self, place: tuple[str, int], done: asyncio.Task[Sequence[str]]) -> None:
        del self._under_way[place]
        if not done.cancelled():
            # Reading the exception says that somebody saw it, also where all have gone.
            done.exception()
