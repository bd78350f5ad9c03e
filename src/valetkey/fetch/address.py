"""Classify IP addresses as public or internal, against server-side request forgery.

The table is explicit because `ipaddress` treats as global some addresses that embed a private one.
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
