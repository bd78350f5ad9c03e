"""Strict URLs: registration, matching, and adding response parameters (RFC 3986).

A parser of our own: the standard library drops tabs, newlines and a bare `#`, and finds another
host than a browser does where there is a backslash.
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import quote, unquote_plus, unquote_to_bytes, urlsplit

from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode, Refused

LONGEST = 2_000
"""Maximum number of bytes in a redirect URI or a server's URL."""

ANSWERED_BY = frozenset(
    {
        "access_token",
        "code",
        "error",
        "error_description",
        "error_uri",
        "expires_in",
        "id_token",
        "iss",
        "response",
        "scope",
        "session_state",
        "state",
        "token_type",
    }
)
"""The parameters of authorization responses (RFC 6749, RFC 9207, OpenID Connect, JARM)."""

FIXED_SEGMENTS = frozenset({"new", "preview", "selected"})
"""Pages that stand beside those of objects whose names people choose."""

# Every character of RFC 3986 except `#` and `*`, each `%` followed by two digits.
_REST = r"(?:[A-Za-z0-9\-._~!$&'()+,;=:@/?]|%[0-9A-Fa-f]{2})*"
_WEB = re.compile(
    r"(https?)://([a-z0-9.-]+|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?((?:[/?]" + _REST + ")?)"
)
_PRIVATE = re.compile(
    r"([a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+):/(?:/[A-Za-z0-9\-._~]*(?=[/?]|\Z))?" + _REST
)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_LOOPBACK = frozenset({"127.0.0.1", "[::1]", "localhost"})
_LOOPBACK_URI = re.compile(
    r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::([1-9][0-9]{0,4}))?((?:[/?][^\n]*)?)", re.ASCII
)
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]*")
_LAST_PORT = 65_535
_LONGEST_NAME = 253
_WITHOUT_PATH = re.compile(r"([a-z]+://[^/?#]+)/", re.DOTALL)


class Web(Struct, frozen=True):
    """A parsed http or https URL; `rest` is its path and query, "" for neither.

    `host` is a name, an IPv4 address, or an IPv6 address in brackets.
    """

    scheme: str
    host: str
    port: int
    rest: str

    def is_loopback(self) -> bool:
        """Return whether the host is this machine."""
        return self.host in _LOOPBACK

    def origin(self) -> str:
        """Return the scheme, host and non-default port."""
        usual = 443 if self.scheme == "https" else 80
        return f"{self.scheme}://{self.host}" + ("" if self.port == usual else f":{self.port}")


def check_redirect_uri(
    text: str,
    *,
    native: bool,
    own_origins: Collection[str] = (),
    answered_by: Collection[str] = ANSWERED_BY,
) -> None:
    """Refuse a redirect URI that may not be registered (RFC 9700 section 2.1).

    Allowed: https; http on 127.0.0.1, [::1] or localhost; for native apps also a private scheme
    with a dot in it. ASCII, at most 2,000 bytes, scheme and host in lower case, no user name, no
    fragment, no wildcard, not on one of the server's `own_origins`, and no query parameter in
    `answered_by`.
    """
    _check_characters(text)
    if answer_parameters(text, answered_by):
        raise _refused("answer", "its query must not have what answers bring, such as state")
    if _PRIVATE.fullmatch(text):
        if not native:
            raise _refused("scheme", "only native apps may use a private scheme")
        return
    web = parse_url(text)
    if web is None:
        raise _refused("form", "it must be an absolute https URL in lower case, without user name")
    if web.scheme == "http" and not web.is_loopback():
        raise _refused("http", "http is only for 127.0.0.1, [::1] and localhost; use https")
    if _place(web) in {_place(own) for own in map(parse_url, own_origins) if own}:
        raise _refused("own", "it leads back to this server")


def has_private_scheme(texts: Collection[str]) -> bool:
    """Return whether one of these has a scheme that only a native app can receive."""
    return any(_PRIVATE.fullmatch(text) for text in texts)


def only_for_native(texts: Collection[str]) -> bool:
    """Return whether only a native app can receive all of these: a private scheme is among them.

    The others may be http on loopback (RFC 8252 sections 7.1 and 7.3).
    """
    return has_private_scheme(texts) and all(
        _PRIVATE.fullmatch(text) or _LOOPBACK_URI.fullmatch(text) for text in texts
    )


def answer_parameters(text: str, answered_by: Collection[str] = ANSWERED_BY) -> list[str]:
    """Return the redirect URI's query parameters that a response would repeat."""
    pairs = re.split("[&;]", text.partition("?")[2])
    # As a client decodes them: "%73tate" is state.
    names = {unquote_plus(pair.partition("=")[0]) for pair in pairs}
    return sorted(names.intersection(answered_by))


def matches_redirect_uri(registered: str, presented: str, *, native: bool) -> bool:
    """Return whether `presented` is `registered`, byte for byte.

    On loopback, an empty path is `/`, and a native app may use another port (RFC 8252 sections 7.3
    and 8.3); 127.0.0.1, [::1] and localhost are three hosts.
    """
    if registered == presented:
        return True
    ours = _loopback(registered, any_port=native)
    return ours is not None and ours == _loopback(presented, any_port=native)


@lru_cache(maxsize=1_024)
def origin(url: str) -> str:
    """Return scheme, host and non-default port; for a private scheme the scheme and colon (CSP).

    Refused with `invalid_redirect_uri` when `url` is neither.
    """
    private = _PRIVATE.fullmatch(url)
    if private is not None:
        return f"{private[1]}:"
    web = parse_url(url)
    if web is None:
        raise _refused("form", "it must be an absolute URL")
    return web.origin()


def masked(url: str) -> str:
    """Return a URL without its path and query, which may hold credentials; "" for ""."""
    if not url:
        return ""
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.netloc}/"
    return bare if url in {bare, bare[:-1]} else f"{bare}…"


def append_query(url: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Append the pairs to the query of `url`, each percent-encoded once (a space is %20)."""
    query = encode_pairs(pairs)
    if not query:
        return url
    if "?" not in url:
        return f"{url}?{query}"
    return f"{url}{query}" if url.endswith(("?", "&")) else f"{url}&{query}"


def with_fragment(url: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Add the pairs as fragment (RFC 6749 section 4.2.2); `url` must not have one yet."""
    return f"{url}#{encode_pairs(pairs)}"


def encode_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Encode pairs as `name=value&…` in UTF-8, all but letters, digits, `-._~` percent-encoded."""
    return "&".join([f"{_quoted(name)}={_quoted(value)}" for name, value in pairs])


def _quoted(text: str) -> str:
    # Codes and names need no encoding, and checking is cheaper than encoding.
    return text if _UNRESERVED.fullmatch(text) else quote(text, safe="")


def path_segment(name: str) -> str:
    """Return a name that people choose as a segment of a path, never that of a page beside it.

    Paths are compared as sent: `new` and `%6Eew` are different ones.
    """
    return f"%{ord(name[0]):02X}{name[1:]}" if name in FIXED_SEGMENTS else _quoted(name)


def segment_name(segment: str) -> str:
    """Return the name in a segment of a path as it was sent; "" unless it is printable ASCII."""
    name = unquote_to_bytes(segment).decode("latin-1")
    return name if name.isascii() and name.isprintable() else ""


def parse_url(text: str) -> Web | None:
    """Parse an http or https URL; return None unless every parser reads it alike.

    Lower case, no user name, no fragment, a port up to 65535, only canonical addresses.
    """
    match = _WEB.fullmatch(text)
    if match is None or not _is_host(match[2]):
        return None
    port = int(match[3] or (443 if match[1] == "https" else 80))
    if port > _LAST_PORT:
        return None
    return Web(match[1], match[2], port, match[4])


def canonical(identifier: str) -> str:
    """Return the form in which identifiers of APIs are compared (RFC 8707).

    An identifier without a path is the same with and without a slash at its end. Everything else is
    compared byte by byte.
    """
    if not identifier.endswith("/"):
        return identifier
    match = _WITHOUT_PATH.fullmatch(identifier)
    return identifier if match is None else match[1]


def same_identifiers(identifier: str) -> frozenset[str]:
    """Return all identifiers that are the same as this one by `canonical`."""
    bare = canonical(identifier)
    return frozenset(spelling for spelling in (bare, f"{bare}/") if canonical(spelling) == bare)


def _check_characters(text: str) -> None:
    if not text or len(text) > LONGEST:
        raise _refused("length", f"it must have between 1 and {LONGEST} bytes")
    if not text.isascii():
        raise _refused("ascii", "it must be ASCII: write international names as xn--")
    if "#" in text:
        raise _refused("fragment", "it must not have a fragment")
    if "*" in text:
        raise _refused("wildcard", "wildcards are not known: register each address, or use state")
    if re.search(r"[\x00-\x20\x7f\\]", text):
        raise _refused("characters", "it must not contain spaces, controls or backslashes")


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            # Canonical only: each address has one spelling.
            return f"[{IPv6Address(host[1:-1])}]" == host
        except AddressValueError:
            return False
    # Browsers read a name whose last label is a number as an IPv4 address: 127.1, 2130706433.
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return _IPV4.fullmatch(host) is not None
    return len(host) <= _LONGEST_NAME and _NAME.fullmatch(host) is not None


def _place(web: Web) -> tuple[str, int]:
    # All loopback names lead to one listener.
    return ("localhost" if web.is_loopback() else web.host, web.port)


def _loopback(text: str, *, any_port: bool) -> tuple[str, str, str] | None:
    match = _LOOPBACK_URI.fullmatch(text)
    if match is None or int(match[2] or 1) > _LAST_PORT:
        return None
    rest = match[3] if match[3].startswith("/") else f"/{match[3]}"
    return match[1], "" if any_port else match[2] or "", rest


def _refused(check: str, description: str) -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REDIRECT_URI,
        f"this redirect URI cannot be used: {description}",
        f"redirect_uri.{check}",
    )
