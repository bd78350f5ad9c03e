"""The client's address behind trusted proxies, and rate limits with token buckets."""

from collections import OrderedDict
from collections.abc import Collection, Hashable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from valetkey.kernel.moment import AHEAD, Instant

Network = IPv4Network | IPv6Network

_HOPS = 16
_LONGEST = 45  # characters of an IPv6 address that ends in an IPv4 address
_REMEMBERED = 1_024


class Proxies:
    """The trusted proxies; for any other peer only the connection's own address is used."""

    __slots__ = ("_networks", "trusts")

    def __init__(self, trusted: Collection[Network] = ()) -> None:
        """Trust the networks in `trusted`; with none, no forwarded address is believed."""
        self._networks = tuple(trusted)
        self.trusts = lru_cache(_REMEMBERED)(self._look_up)

    def client(self, peer: str, forwarded: str | None) -> str:
        """Return the client's address: `peer`, or the address that trusted proxies forwarded.

        The field is read from the right, because only its end was written by trusted proxies. Empty
        if the address is unknown: an invalid value, a claim of loopback, only proxies named, or
        more than 16 hops.
        """
        if not self._networks or not self.trusts(peer):
            return peer
        if forwarded is None:
            return ""
        hops = forwarded.split(",", _HOPS)
        if len(hops) > _HOPS:
            return ""
        for hop in reversed(hops):
            address = _parse(hop.strip(" \t"))
            if address is None:
                return ""
            if not self._holds(address):
                return "" if _is_nobody(address) else str(address)
        return ""

    def _look_up(self, peer: str) -> bool:
        address = _parse(peer)
        return address is not None and self._holds(address)

    def _holds(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


@lru_cache(_REMEMBERED)
def network_of(address: str) -> str:
    """Return the /24 or /56 network of `address`, usually one customer of a provider.

    The key of rate limits by address. An empty address stays empty, so that all unknown clients
    share one bucket.
    """
    parsed = _parse(address)
    if parsed is None:
        return ""
    bits = 24 if isinstance(parsed, IPv4Address) else 56
    return str(ip_network(f"{parsed}/{bits}", strict=False))


def plain_address(address: str) -> str:
    """Return the address in its shortest form; "" if it is none, or has a zone."""
    parsed = _parse(address)
    return "" if parsed is None else str(parsed)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    # A zone names an interface of another machine.
    if not text or len(text) > _LONGEST or "%" in text or not text.isascii():
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_nobody(address: IPv4Address | IPv6Address) -> bool:
    return address.is_loopback or address.is_unspecified or address.is_multicast


KEYS = 10_000


class Buckets:
    """Token buckets of `capacity` for each key; an empty bucket refills in `refill_seconds`.

    At most 10,000 keys are kept. The least recently used are evicted first, and an evicted key
    starts full again: flooding the table therefore takes 10,000 keys for one more attempt.
    """

    __slots__ = ("_buckets", "_capacity", "_keys", "_refill")

    def __init__(self, capacity: int, refill_seconds: int, *, keys: int = KEYS) -> None:
        """Start with full buckets; `capacity` and `refill_seconds` must be at least 1."""
        self._capacity = capacity
        self._refill = refill_seconds
        self._keys = keys
        # For each key the instant at which its bucket is full, in units of 1/capacity seconds:
        # integers neither drift nor round.
        self._buckets: OrderedDict[Hashable, int] = OrderedDict()

    def take(self, key: Hashable, now: Instant) -> int:
        """Take one token for `key` and return 0; or return the seconds until there is one."""
        wait = self.peek(key, now)
        if wait:
            return wait
        full_at = max(self._full_at(key, now), now * self._capacity)
        self._buckets[key] = full_at + self._refill
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._keys:
            self._buckets.popitem(last=False)
        return 0

    def peek(self, key: Hashable, now: Instant) -> int:
        """Return what `take` would return, without taking a token."""
        full_at = self._full_at(key, now)
        # A token is available if the bucket, with one more taken, would refill no later than an
        # empty one.
        excess = full_at + self._refill - now * self._capacity - self._refill * self._capacity
        return 0 if excess <= 0 else -(-excess // self._capacity)

    def give_back(self, key: Hashable) -> None:
        """Return one token to `key`, for a request that turned out not to count."""
        full_at = self._buckets.get(key)
        if full_at is not None:
            self._buckets[key] = full_at - self._refill

    def _full_at(self, key: Hashable, now: Instant) -> int:
        full_at = self._buckets.get(key, 0)
        # A bucket filled from a clock that was later set back by more counts as full.
        latest = (now + self._refill + AHEAD) * self._capacity
        return 0 if full_at > latest else full_at

    def keys(self) -> tuple[Hashable, ...]:
        """Return the keys whose buckets are kept."""
        return tuple(self._buckets)

    def __len__(self) -> int:
        return len(self._buckets)
