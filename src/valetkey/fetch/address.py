"""Which addresses are out in the world, and which lead back inside (security 30).

An explicit table: `ipaddress` calls some addresses global that carry a private one inside.
"""

from collections.abc import Collection
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_INSIDE = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network (RFC 791); Linux takes it for itself
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # shared behind a carrier's translation (RFC 6598)
        "127.0.0.0/8",  # loopback (RFC 1122)
        "168.63.129.16/32",  # a cloud's own service, on an address that looks public
        "169.254.0.0/16",  # link-local (RFC 3927), and the clouds' metadata
        "172.16.0.0/12",  # private (RFC 1918)
        "192.0.0.0/24",  # protocol assignments (RFC 6890)
        "192.0.2.0/24",  # documentation (RFC 5737)
        "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
        "192.168.0.0/16",  # private (RFC 1918)
        "198.18.0.0/15",  # benchmarks (RFC 2544)
        "198.51.100.0/24",  # documentation (RFC 5737)
        "203.0.113.0/24",  # documentation (RFC 5737)
        "224.0.0.0/4",  # multicast (RFC 5771)
        "240.0.0.0/4",  # reserved, and the broadcast address (RFC 1112)
        "2001::/23",  # protocol assignments (RFC 2928), Teredo and ORCHID among them
        "2001:db8::/32",  # documentation (RFC 3849)
        "2002::/16",  # 6to4 (RFC 3056): an IPv4 address inside, and no relay is left
        "3fff::/20",  # documentation (RFC 9637)
    )
)
_UNICAST = IPv6Network("2000::/3")
"""All of IPv6 that is out in the world: no loopback, mapped, unique local, link-local, multicast"""

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 as a network without IPv4 writes it (RFC 6052)."""


def read_address(text: str) -> Address | None:
    """The address that the resolver wrote; None for anything else, and with a zone."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id else address


def may_be_reached(address: Address, allowed: Collection[Network] = ()) -> bool:
    """Whether a request may go there: it is out in the world, or in a network of `allowed`."""
    return is_in(address, allowed) or _is_outside(_unwrapped(address))


def is_in(address: Address, networks: Collection[Network]) -> bool:
    """Whether one of `networks` has this address, also where it is IPv4 written as IPv6."""
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
