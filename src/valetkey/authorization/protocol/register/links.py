"""Rules for a client's URLs other than redirect URIs."""

import re
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network

from valetkey.fetch.address import is_in, may_be_reached, read_address
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.kernel.url import LONGEST, check_redirect_uri, origin, parse_url

Network = IPv4Network | IPv6Network

# No quote, bracket, space or backslash, which pages, headers and browsers read differently.
_REST = r"(?:[A-Za-z0-9\-._~!$&()*+,;=:@/?#]|%[0-9A-Fa-f]{2})*"
_LINK = re.compile(
    rf"https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?([/?#]{_REST})?"
)
_HTTPS = 443
_PORT = re.compile(r":[0-9]+\Z")


def is_link(uri: str) -> bool:
    """Return whether pages may link to it or show it as an image: a plain https URL."""
    return len(uri) <= LONGEST and _LINK.fullmatch(uri) is not None


def return_refusal(
    uri: str, *, native: bool, own_origins: Collection[str], answered_by: Collection[str]
) -> Refusal | None:
    """Return why browsers may not be redirected there; None if they may.

    `answered_by` are the parameters that they bring.
    """
    try:
        check_redirect_uri(uri, native=native, own_origins=own_origins, answered_by=answered_by)
    except Refused as refused:
        return refused.refusal
    return None


def fetch_fault(uri: str, allowed: Collection[Network], *, fragment: bool = False) -> str:
    """Return why this server would not fetch that address; "" if it would.

    https on port 443, and no private address; http, other ports and private addresses only in
    networks the operator lists. What a name resolves to is checked when it is fetched. A `fragment`
    is allowed where the specification gives it a meaning.
    """
    bare = uri.partition("#")[0] if fragment else uri
    web = parse_url(bare) if len(uri) <= LONGEST and uri.isascii() and uri.isprintable() else None
    if web is None or any(letter in uri for letter in " \"'<>\\^`{|}"):
        return "an absolute https address in lower case, without user name and fragment"
    host = web.host.strip("[]")
    address = read_address(host)
    if address is None:
        # A host name: what it resolves to is checked when it is fetched.
        inside, listed = host == "localhost" or host.endswith(".localhost"), bool(allowed)
    else:
        inside, listed = not may_be_reached(address), is_in(address, allowed)
    if listed:
        return ""
    if inside:
        return "a public address, or one in the networks that this server's fetch.allow lists"
    if web.scheme == "http":
        return "https: http is only for the networks that this server's fetch.allow lists"
    if web.port != _HTTPS:
        return "port 443: others are only for the networks that this server's fetch.allow lists"
    return ""


def host_of(uri: str) -> str:
    """Return the host of a web address without its port; "" if it has none."""
    try:
        _, separator, place = origin(uri).partition("://")
    except Refused:
        return ""
    return _PORT.sub("", place) if separator else ""
