"""Addresses that a client registers beside its redirect URIs, and what each may be."""

import re
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network, ip_address

from valetkey.kernel.refusal import Refused
from valetkey.kernel.url import LONGEST, check_redirect_uri, origin

Network = IPv4Network | IPv6Network

# No quote, bracket, space or backslash: nothing that a page, a header or a browser reads otherwise.
_REST = r"(?:[A-Za-z0-9\-._~!$&()*+,;=:@/?#]|%[0-9A-Fa-f]{2})*"
_LINK = re.compile(
    rf"https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?([/?#]{_REST})?"
)
_PORT = re.compile(r":[0-9]+\Z")


def is_link(uri: str) -> bool:
    """Whether people may be offered it as a link, and browsers as a picture: https, plainly."""
    return len(uri) <= LONGEST and _LINK.fullmatch(uri) is not None


def return_fault(uri: str, *, native: bool, own_origins: Collection[str]) -> str:
    """Why browsers may not be sent there, held to what holds for redirect URIs; "" if they may."""
    try:
        check_redirect_uri(uri, native=native, own_origins=own_origins)
    except Refused as refused:
        return refused.refusal.description
    return ""


def fetch_fault(uri: str, allowed: Collection[Network], *, fragment: bool = False) -> str:
    """Why this server would not ask that address; "" if it would.

    https; http only where the operator lists networks to which it may go. Where the name leads is
    judged when it is asked. A `fragment` may follow where the specification gives it a meaning.
    """
    bare = uri.partition("#")[0] if fragment else uri
    expected = "an absolute https address in lower case, without user name and fragment"
    if len(uri) > LONGEST or not uri.isascii() or not uri.isprintable():
        return expected
    try:
        place = origin(bare)
    except Refused:
        return expected
    scheme, separator, host = place.partition("://")
    if not separator or any(letter in uri for letter in " \"'<>\\^`{|}"):
        return expected
    if scheme == "http" and not _may_be_plain(_PORT.sub("", host), allowed):
        return "https: http is only for the networks that the operator of this server lists"
    return ""


def host_of(uri: str) -> str:
    """The host of a web address without its port; "" for an address that has none."""
    try:
        _, separator, place = origin(uri).partition("://")
    except Refused:
        return ""
    return _PORT.sub("", place) if separator else ""


def _may_be_plain(host: str, allowed: Collection[Network]) -> bool:
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        # A name: where it leads is known when it is looked up.
        return bool(allowed)
    return any(address in network for network in allowed)
