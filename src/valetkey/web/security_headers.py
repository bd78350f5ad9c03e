"""The headers that every response carries, refusals included: framing, sniffing, CSP, HSTS."""

from functools import lru_cache

from valetkey.web.exchange import STATUS_LINE, Pairs

RawPairs = list[tuple[bytes, bytes]]

_BASE: tuple[tuple[bytes, bytes], ...] = (
    # What nobody marked as storable may hold an identity.
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
# Two years. No `includeSubDomains`: the rest of the operator's domain is not ours to decide.
_HSTS = (b"strict-transport-security", b"max-age=63072000")
_SECURE = (*_BASE, _HSTS)
_NAMES = frozenset(name for name, _ in _SECURE)
_TEXT_NAMES = frozenset(name.decode() for name in _NAMES)
# Fields that many answers share: what is made of them is remembered. Others may be secret.
_ALIKE = frozenset(("access-control-allow-origin", "cache-control", "content-type"))


def harden(headers: Pairs, *, hsts: bool) -> RawPairs:
    """`headers` as bytes, and every security header that they do not set themselves.

    One that they set to "" is left out: a page made to be framed cannot say that it must not be.
    Raises ValueError for a value that is not printable ASCII: no input may start a header line.
    """
    for name, _ in headers:
        if name not in _ALIKE:
            return _hardened(headers, hsts)
    return [*_remembered(headers, hsts)]


def head(status: int, headers: Pairs, *, hsts: bool) -> bytes:
    """The same as HTTP/1.1 writes it: status line and fields, each with its line end."""
    for name, _ in headers:
        if name not in _ALIKE:
            return _head(status, headers, hsts)
    return _remembered_head(status, headers, hsts)


def _head(status: int, headers: Pairs, hsts: bool) -> bytes:
    lines: list[str] = []
    given: tuple[str, ...] = ()
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be printable ASCII")
        lowered = name.lower()
        if lowered in _TEXT_NAMES:
            given = (*given, lowered)
            if not value:
                continue
        lines.append(f"{lowered}: {value}\r\n")
    return b"%b%b%b" % (STATUS_LINE[status], "".join(lines).encode("ascii"), _rest(given, hsts))


@lru_cache(maxsize=64)
def _rest(given: tuple[str, ...], hsts: bool) -> bytes:
    base = _SECURE if hsts else _BASE
    return b"".join(b"%b: %b\r\n" % each for each in base if each[0].decode() not in given)


def _hardened(headers: Pairs, hsts: bool) -> RawPairs:
    own: RawPairs = []
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be printable ASCII")
        own.append((name.lower().encode("ascii"), value.encode("ascii")))
    base = _SECURE if hsts else _BASE
    given = [name for name, _ in own]
    if _NAMES.isdisjoint(given):
        own.extend(base)
        return own
    kept = [pair for pair in own if pair[1] or pair[0] not in _NAMES]
    kept.extend(pair for pair in base if pair[0] not in given)
    return kept


@lru_cache(maxsize=64)
def _remembered(headers: Pairs, hsts: bool) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(_hardened(headers, hsts))


_remembered_head = lru_cache(maxsize=128)(_head)
