"""The security headers of every response, errors included, and which origins may read it (CORS).

Cookies are never accepted from them, so a page can only use credentials that it has itself.
"""

from collections.abc import Callable
from functools import lru_cache

from valetkey.web.exchange import STATUS_LINE, Pairs, Request, Response

RawPairs = list[tuple[bytes, bytes]]

_BASE: tuple[tuple[bytes, bytes], ...] = (
    # A response not marked as storable may contain personal data.
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
# Two years. No `includeSubDomains`: the rest of the operator's domain is outside our control.
_HSTS = (b"strict-transport-security", b"max-age=63072000")
_SECURE = (*_BASE, _HSTS)
_NAMES = frozenset(name for name, _ in _SECURE)
_TEXT_NAMES = frozenset(name.decode() for name in _NAMES)
# Only responses whose fields are all among these are cached: other fields may hold secrets.
_ALIKE = frozenset(
    (
        "access-control-allow-origin",
        "access-control-expose-headers",
        "cache-control",
        "content-type",
        "pragma",
    )
)


def harden(headers: Pairs, *, hsts: bool) -> RawPairs:
    """Return `headers` as bytes, plus every security header that they do not set.

    A security header set to "" is left out, for example so that a page can be framed. Raises
    ValueError for a value that is not printable ASCII, so that no input can start a header line.
    """
    for name, _ in headers:
        if name not in _ALIKE:
            return _hardened(headers, hsts)
    return [*_remembered(headers, hsts)]


def head(status: int, headers: Pairs, *, hsts: bool) -> bytes:
    """Return status line and header fields as HTTP/1.1, with the security headers of `harden`."""
    for name, _ in headers:
        if name not in _ALIKE:
            return _head(status, headers, hsts)
    return _remembered_head(status, headers, hsts)


def _head(status: int, headers: Pairs, hsts: bool) -> bytes:
    lines: list[str] = []
    names: tuple[str, ...] = ()
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be printable ASCII")
        lowered = name.lower()
        if lowered in _TEXT_NAMES:
            names = (*names, lowered)
            if not value:
                continue
        lines.append(f"{lowered}: {value}\r\n")
    return b"%b%b%b" % (STATUS_LINE[status], "".join(lines).encode("ascii"), _rest(names, hsts))


@lru_cache(maxsize=64)
def _rest(names: tuple[str, ...], hsts: bool) -> bytes:
    base = _SECURE if hsts else _BASE
    return b"".join(b"%b: %b\r\n" % pair for pair in base if pair[0].decode() not in names)


def _hardened(headers: Pairs, hsts: bool) -> RawPairs:
    own: RawPairs = []
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be printable ASCII")
        own.append((name.lower().encode("ascii"), value.encode("ascii")))
    base = _SECURE if hsts else _BASE
    names = [name for name, _ in own]
    if _NAMES.isdisjoint(names):
        own.extend(base)
        return own
    kept = [pair for pair in own if pair[1] or pair[0] not in _NAMES]
    kept.extend(pair for pair in base if pair[0] not in names)
    return kept


@lru_cache(maxsize=64)
def _remembered(headers: Pairs, hsts: bool) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(_hardened(headers, hsts))


_remembered_head = lru_cache(maxsize=128)(_head)


Cors = Callable[[Request], Pairs]
"""Returns the headers with which the origin of a request may read the response; () for none."""

ANY_ORIGIN: Pairs = (("access-control-allow-origin", "*"),)
"""Any origin may read the response: it requires a credential, and cookies are ignored."""

METHODS = "access-control-allow-methods"

# The named ones also for clients that do not know `*`, which never includes Authorization.
# Tracing libraries add theirs to every request of a page: W3C Trace Context and Baggage.
_HEADERS = (
    "authorization, content-type, dpop, idempotency-key, if-match, if-none-match,"
    " mcp-protocol-version, prefer, traceparent, tracestate, baggage, x-requested-with, *"
)
_REMEMBERED = "600"  # seconds that a browser may keep the answer


def any_origin(request: Request) -> Pairs:
    """Let any origin call."""
    del request
    return ANY_ORIGIN


def preflight(allow: str, opened: Pairs) -> Response:
    """Return the response to a preflight request: what the origin of `opened` may send."""
    headers = (("allow", allow), *opened)
    if any(name == "access-control-allow-origin" for name, _ in opened):
        headers += (
            (METHODS, allow),
            ("access-control-allow-headers", _HEADERS),
            ("access-control-max-age", _REMEMBERED),
        )
    return Response(204, b"", headers)
