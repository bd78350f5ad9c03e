"""Requests as clients send them: valid, broken, and some that only a lenient server takes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

_HOST = b"Host: h.example\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"


@dataclass
class Message:
    """One request as it is sent."""

    header: bytes
    body: bytes = b""
    empty: bytes = b""
    """Empty lines before it, which h11 does not know to ignore (RFC 9112 section 2.2)."""
    is_refused: bool = False
    """We refuse it, whatever h11 makes of it: h11 is more lenient there."""
    is_broken: bool = False
    """Neither takes it; we may say so before h11 does, which waits for the end of a line."""
    ends: bool = False
    """Nothing after it is answered, for a reason that h11 does not know."""
    may_end: bool = False
    """It may be answered before its body came, and is the last one then."""


def _post(fields: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b"POST /echo " + version + b"\r\n" + _HOST + fields + b"\r\n"


BROKEN: Sequence[bytes] = (
    b"GET /echo\r\n\r\n",
    b"GET /echo HTTP/1.1\r\n\r\n",
    b"GET /echo HTTP/1.1\r\nHost : h.example\r\n\r\n",
    b"GET /echo HTTP/1.1\r\n" + _HOST + b"X Y: z\r\n\r\n",
    b"GET /echo HTTP/1.1\r\n" + _HOST + b"X: a\x00b\r\n\r\n",
    b"GET /echo HTTP/1.1\r\n" + _HOST + b": a\r\n\r\n",
    _post(b"Content-Length: 5\r\nContent-Length: 6\r\n") + b"hello",
    _post(b"Content-Length: -5\r\n") + b"hello",
    _post(b"Content-Length: +5\r\n") + b"hello",
    _post(b"Transfer-Encoding: xchunked\r\n") + b"0\r\n\r\n",
    _post(b"Transfer-Encoding: gzip\r\n" + _CHUNKED) + b"0\r\n\r\n",
    _post(_CHUNKED * 2) + b"0\r\n\r\n",
    _post(_CHUNKED) + b"zz\r\nhello\r\n0\r\n\r\n",
    _post(_CHUNKED) + b"-5\r\nhello\r\n0\r\n\r\n",
    _post(_CHUNKED) + b"3\r\nhello\r\n0\r\n\r\n",
    b"\x80\xff\x16\x03\x01\r\n\r\n",
)
LENIENT: Sequence[bytes] = (
    b"GET /echo HTTP/1.1\nHost: h.example\n\n",
    b"GET /echo HTTP/1.1\r\nHost: h.example\nX: y\r\n\r\n",
    b"GET /echo HTTP/1.1\r\n" + _HOST + b"X: a\r\n b\r\n\r\n",
    b"GET /echo HTTP/3.1\r\n" + _HOST + b"\r\n",
    b"FETCH /echo HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET http://h.example/ HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET /echo#a HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + _HOST + b"\r\n",
    _post(b"Content-Length: 5\r\n" * 2) + b"hello",
    _post(b"Content-Length: 5, 5\r\n") + b"hello",
    _post(b"Content-Length: 5\r\n" + _CHUNKED) + b"0\r\n\r\n",
    _post(_CHUNKED + b"Content-Length: 5\r\n") + b"0\r\n\r\n",
    _post(_CHUNKED, b"HTTP/1.0") + b"0\r\n\r\n",
    _post(b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n") + b"hello",
)


def make(r: random.Random) -> Message:
    """A random request."""
    kind = r.random()
    if kind < 0.08:
        return Message(r.choice(BROKEN), is_broken=True)
    if kind < 0.14:
        return Message(r.choice(LENIENT), is_refused=True)
    if kind < 0.16:
        return Message(b"GET /cancelled HTTP/1.1\r\n" + _HOST + b"\r\n", ends=True)
    path = r.choice((b"/echo", b"/echo", b"/later", b"/stream", b"/nowhere"))
    query = b"?%d" % r.randrange(1_000)
    fields = [_HOST] + [b"X-%d: %d\r\n" % (n, n) for n in range(r.randrange(3))]
    r.shuffle(fields)
    old = r.random() < 0.04
    version = b"HTTP/1.0" if old else b"HTTP/1.1"
    if r.random() < 0.06:
        fields.append(b"Connection: close\r\n")
    elif r.random() < 0.02:
        fields.append(b"Connection: upgrade\r\nUpgrade: h2c\r\n")
        return Message(
            b"GET " + path + query + b" HTTP/1.1\r\n" + b"".join(fields) + b"\r\n", ends=True
        )
    empty = b"\r\n" * r.choice((0, 0, 0, 0, 1, 2))
    if r.random() < 0.4:
        method = b"HEAD" if path == b"/echo" and r.random() < 0.2 else b"GET"
        header = method + b" " + path + query + b" " + version + b"\r\n"
        return Message(header + b"".join(fields) + b"\r\n", empty=empty)
    size = r.choice((0, 1, 5, 100, 1_000, 5_000))
    if r.random() < 0.01:
        size = 150_000
    body = r.randbytes(size)
    if old or r.random() < 0.5:
        fields.append(b"Content-Length: %d\r\n" % size)
    else:
        fields.append(_CHUNKED)
        body = _chunks(r, body)
    if r.random() < 0.1:
        fields.append(b"Expect: 100-continue\r\n")
    header = b"POST " + path + query + b" " + version + b"\r\n" + b"".join(fields) + b"\r\n"
    return Message(header, body, empty, may_end=path == b"/nowhere" and bool(body))


def _chunks(r: random.Random, body: bytes) -> bytes:
    out = bytearray()
    at = 0
    while at < len(body):
        size = r.randint(1, max(1, len(body) // r.choice((1, 2, 5))))
        piece = body[at : at + size]
        extension = r.choice((b"", b"", b";a", b";a=b", b';a="b c"'))
        out += b"%x%b\r\n%b\r\n" % (len(piece), extension, piece)
        at += size
    trailer = b"X-T: y\r\n" * r.choice((0, 0, 1, 3))
    return bytes(out + b"0\r\n" + trailer + b"\r\n")
