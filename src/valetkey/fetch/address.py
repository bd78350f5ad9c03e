"""Classify IP addresses as public or internal, against server-side request forgery.

The table is explicit because `ipaddress` treats as global some addresses that embed a private one.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from weakref import WeakValueDictionary

from valetkey.kernel.bounded_threads import DefaultThreads
from valetkey.kernel.url import Web

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_INSIDE = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network (RFC 791); Linux treats it as the local host
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # shared address space behind carrier-grade NAT (RFC 6598)
        "127.0.0.0/8",  # loopback (RFC 1122)
        "168.63.129.16/32",  # a cloud provider's internal service at an address that looks public
        "169.254.0.0/16",  # link-local (RFC 3927), including the cloud metadata services
        "172.16.0.0/12",  # private (RFC 1918)
        "192.0.0.0/24",  # protocol assignments (RFC 6890)
        "192.0.2.0/24",  # documentation (RFC 5737)
        "192.88.99.0/24",  # 6to4 relays (RFC 7526)
        "192.168.0.0/16",  # private (RFC 1918)
        "198.18.0.0/15",  # benchmarks (RFC 2544)
        "198.51.100.0/24",  # documentation (RFC 5737)
        "203.0.113.0/24",  # documentation (RFC 5737)
        "224.0.0.0/4",  # multicast (RFC 5771)
        "240.0.0.0/4",  # reserved, and the broadcast address (RFC 1112)
        "2001::/23",  # protocol assignments (RFC 2928), including Teredo and ORCHID
        "2001:db8::/32",  # documentation (RFC 3849)
        "2002::/16",  # 6to4 (RFC 3056): embeds an IPv4 address, and no relay remains
        "3fff::/20",  # documentation (RFC 9637)
    )
)
_UNICAST = IPv6Network("2000::/3")
"""Global IPv6 unicast; excludes loopback, mapped, unique local, link-local and multicast."""

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""The NAT64 prefix under which a network without IPv4 addresses IPv4 hosts (RFC 6052)."""


def read_address(text: str) -> Address | None:
    """Parse an address from the resolver; None for anything else and for one with a zone."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id else address


def may_be_reached(address: Address, allowed: Collection[Network] = ()) -> bool:
    """Return whether a request may go to the address: it is public or in a network of `allowed`."""
    return is_in(address, allowed) or _is_outside(_unwrapped(address))


def is_in(address: Address, networks: Collection[Network]) -> bool:
    """Return whether one of `networks` contains the address, also one that is IPv4 in IPv6 form."""
    written = {address, _unwrapped(address)}
    return any(one in network for one in written for network in networks)


def _unwrapped(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _TRANSLATED:
        return IPv4Address(int(address) & (2**32 - 1))
    return address


def _is_outside(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not any(address in network for network in _INSIDE)


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

    def _of(self, name: str, most: int) -> asyncio.Semaphore:
        return self._some.setdefault(name, asyncio.Semaphore(most))


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
_THREADS = DefaultThreads(2 * AT_ONCE, "valetkey-resolve")


Resolve = Callable[[str, int], Coroutine[object, object, Sequence[str]]]
"""Returns every address of a host, best first. Raises OSError if there is none."""


async def resolve_by_system(host: str, port: int, /) -> Sequence[str]:
    """Resolve through getaddrinfo, including the hosts file and search domains."""
    loop = asyncio.get_running_loop()
    entries = await loop.run_in_executor(
        _THREADS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return [str(entry[4][0]) for entry in entries]


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
        endpoint = (host, port)
        task = self._under_way.get(endpoint)
        if task is None:
            site = site_of(host)
            if sum(site_of(other) == site for other, _ in self._under_way) >= AT_ONCE_SITE:
                raise OSError("DNS lookups of this host do not return")
            task = asyncio.ensure_future(self._resolve(host, port))
            self._under_way[endpoint] = task
            task.add_done_callback(lambda done: self._end(endpoint, done))
        return await asyncio.shield(task)

    def _end(self, endpoint: tuple[str, int], done: asyncio.Task[Sequence[str]]) -> None:
        del self._under_way[endpoint]
        if not done.cancelled():
            # Reading the exception keeps asyncio from logging it as never retrieved.
            done.exception()
