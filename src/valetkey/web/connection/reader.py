"""Read one connection: parse its input with a bound on what is kept, pause, notice disconnects."""

import asyncio
import select
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, cast

import httptools

from valetkey.kernel import metrics
from valetkey.kernel.refusal import ErrorCode
from valetkey.web.connection.exchange import UNREAD, Exchange, ExchangeTransport
from valetkey.web.connection.gate import Limits, fault_of
from valetkey.web.exchange import Headers, Response, json_response
from valetkey.web.router import TARGET_BYTES, RoutedApp
from valetkey.web.security_headers import head

RETRY_AFTER = 1
"""Seconds given in Retry-After to a client that is turned away."""


class Unreadable(Exception):
    """Stops the parser: the input is not for the application."""

    def __init__(
        self, description: str, code: ErrorCode = ErrorCode.INVALID_REQUEST, target: str = ""
    ) -> None:
        """Stop with the error code, its description and the beginning of a target too long."""
        super().__init__(description)
        self.code = code
        self.target = target


_REASONS = {ErrorCode.REQUEST_TIMEOUT: "late", ErrorCode.SERVER_ERROR: "failed"}


def refusal(code: ErrorCode, description: str) -> Response:
    """Return a refusal as JSON and count it."""
    if code is not ErrorCode.TEMPORARILY_UNAVAILABLE:  # the gate counts those
        metrics.HTTP_REFUSED.add(_REASONS.get(code, "malformed"))
    return json_response({"error": code, "error_description": description}, code.status)


_BUSY = refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the server has more to do than it can; try again in a moment",
)
# Readable from any origin: otherwise a script could not tell "later" from "never".
_SAID = (("retry-after", str(RETRY_AFTER)), ("access-control-allow-origin", "*"))


@lru_cache(maxsize=2)
def busy(*, tls: bool) -> tuple[bytes, bytes]:
    """Return the head and body of a 503; cached, because it must be cheap under load."""
    return head(_BUSY.status, (*_BUSY.headers, *_SAID), hsts=tls), _BUSY.body


PIECE = 4 * 1024
"""Bytes parsed at a time: input may exceed a limit, or contain waiting requests, by that much."""

HELD = 16 * 1024
"""Bytes that may wait to be parsed; beyond them reading pauses."""

_FRAMING_PER_BYTE = 8
# The smallest chunk, "1\r\nx\r\n", takes five bytes for each byte of body.


class Receiving(ExchangeTransport, Protocol):
    """The connection, as the reader reports to it."""

    address: str
    tls: bool

    def requested(self, exchange: Exchange) -> None:
        """Handle a request whose header is complete."""
        ...

    def completed(self, exchange: Exchange) -> None:
        """Handle a request that is complete."""
        ...


class Reader:
    """The parser of one connection; it calls the methods named `on_...`.

    httptools has no limits of its own: it keeps a header or trailer field until the field ends, and
    reads chunk extensions, leading zeros and empty lines indefinitely. The reader counts all of
    these as bytes received that are not body.
    """

    def __init__(self, connection: Receiving, app: RoutedApp, limits: Limits) -> None:
        """Read for `connection`."""
        self.in_header = False
        self.incoming: Exchange | None = None
        """The request whose body is being received."""
        self.ended = False
        """Whether nothing after the last request can be parsed."""
        self.has_all = False
        """Whether the client has closed its sending half."""
        self.unparsed = 0
        """Bytes that wait to be parsed."""
        self._unparsed = b""
        self._at = 0  # position in `_unparsed`
        self._later = bytearray()  # input that came after `_unparsed`
        self._connection = connection
        self._paths = app.paths
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._fields = 0  # bytes of the header that are parsed
        self._turned = False  # whether a request began or was completed in this piece
        self._body = 0  # bytes of the incoming request's body
        self._framing = 0  # bytes without the body since a request last began or was completed

    @property
    def is_full(self) -> bool:
        """Return whether so much of the body is unread that parsing must pause."""
        return self.incoming is not None and self.incoming.unread > UNREAD

    def is_short_of(self, exchange: Exchange) -> bool:
        """Return whether the body is incomplete and the rest will never come."""
        return exchange.more and self.has_all and not self.unparsed

    def buffer_input(self, data: bytes) -> None:
        """Add input to be parsed; each byte is copied at most twice."""
        self.unparsed += len(data)
        if self._unparsed:
            self._later += data
        else:
            self._unparsed = data

    def discard_input(self) -> None:
        """Discard the input that waits to be parsed."""
        self.unparsed = self._at = 0
        self._unparsed = b""
        self._later.clear()

    def parse(self) -> None:
        """Parse up to `PIECE` bytes. Raises Unreadable, after which nothing can be parsed."""
        start, self._at = self._at, self._at + PIECE
        piece = self._unparsed[start : self._at]
        self.unparsed -= len(piece)
        if self._at >= len(self._unparsed):
            self._unparsed, self._at = bytes(self._later), 0
            self._later.clear()
        try:
            self._feed(piece)
        finally:
            if self.ended:
                self.discard_input()

    def _feed(self, piece: bytes) -> None:
        self._turned = False
        body = self._body
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # The connection stays with HTTP/1.1, but the parser cannot be used any more.
            self.ended = True
            return
        except httptools.HttpParserError as error:
            self.in_header, self.ended = False, True
            cause = error.__context__
            if isinstance(cause, Unreadable):
                raise cause from None
            raise Unreadable("this is not a valid HTTP/1.1 request") from None
        if self._turned:
            self._framing = 0
            return
        self._framing += len(piece) - (self._body - body)
        if self._framing > self._limits.header_bytes + _FRAMING_PER_BYTE * self._body:
            self.ended = True
            part = "header" if self.incoming is None else "chunked framing or the trailer"
            raise Unreadable(f"the {part} is too large", ErrorCode.HEADERS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.in_header = self._turned = True
        self._url = b""
        self._headers = []
        self._fields = self._body = 0

    def on_url(self, url: bytes) -> None:
        """Add a piece of the request target."""
        self._url += url
        if len(self._url) > TARGET_BYTES:
            target = self._url[:TARGET_BYTES].decode("latin-1")
            raise Unreadable("the request target is too long", ErrorCode.URI_TOO_LONG, target)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header field; trailer fields are ignored."""
        if not self.in_header:
            return
        self._fields += len(name) + len(value)
        if self._fields > self._limits.header_bytes:
            raise Unreadable("the header is too large", ErrorCode.HEADERS_TOO_LARGE)
        if len(self._headers) >= self._limits.header_fields:
            raise Unreadable("the header has too many fields", ErrorCode.HEADERS_TOO_LARGE)
        self._headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """Start the exchange: the header is complete."""
        parser, url, connection = self._parser, self._url, self._connection
        version = parser.get_http_version()
        headers = Headers(self._headers)
        fields = headers.last()
        if complaint := fault_of(version, url, fields, is_well_formed=url in self._paths):
            raise Unreadable(complaint)
        # Two fields form one list: an unknown coding in the first must not hide behind the last.
        if b"transfer-encoding" in fields and len(headers.all("transfer-encoding")) > 1:
            raise Unreadable("the only Transfer-Encoding is chunked")
        has_body = b"transfer-encoding" in fields or fields.get(b"content-length", b"0") != b"0"
        if has_body and parser.should_upgrade():
            raise Unreadable("a request with a body cannot ask for an upgrade")
        self.in_header = False
        method, keep = parser.get_method().decode(), parser.should_keep_alive()
        address, tls = connection.address, connection.tls
        exchange = Exchange(connection, method, url, headers, address, tls, keep)
        if version != "1.1":
            exchange.old, exchange.keep_alive = True, False
        if has_body and fields.get(b"expect", b"").lower() == b"100-continue":
            exchange.expects = True
        self.incoming = exchange
        connection.requested(exchange)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body."""
        self._body += len(body)
        cast("Exchange", self.incoming).feed(body)

    def on_message_complete(self) -> None:
        """Mark the body as complete."""
        exchange, self.incoming = cast("Exchange", self.incoming), None
        self._turned = True
        self._body = 0
        exchange.finish()
        self._connection.completed(exchange)


_LOOK = 0.25  # seconds between two checks of a connection that is paused
_RESET = select.POLLERR | select.POLLHUP
# Only Linux reports that the peer closed before everything it sent is read.
_HALF_CLOSED: int = getattr(select, "POLLRDHUP", 0)


class FlowControl:
    """Pauses and resumes reading from one transport.

    A transport that is not read reports no disconnect. The socket is therefore polled four times a
    second while reading is paused. A connection that was reset is aborted.
    """

    __slots__ = (
        "_delayed",
        "_looking",
        "_loop",
        "_on_half_close",
        "_paused",
        "_transport",
        "_wanted",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        on_half_close: Callable[[], None],
    ) -> None:
        """Control a reading transport; `on_half_close` is called for a close noticed in a pause."""
        self._transport = transport
        self._loop = loop
        self._on_half_close = on_half_close
        self._wanted = True
        self._paused = False
        self._delayed = False
        self._looking = False

    @property
    def is_paused(self) -> bool:
        """Return whether reading is paused."""
        return self._paused

    def set_reading(self, is_reading: bool) -> None:
        """Read if `wanted`, after any delay in progress; otherwise pause."""
        if is_reading != self._wanted:
            self._wanted = is_reading
            self._apply()

    def delay(self, seconds: float) -> None:
        """Pause reading for `seconds`; `set_reading` has no effect until then."""
        if not self._delayed:
            self._delayed = True
            self._loop.call_later(seconds, self._end_delay)
            self._apply()

    def _end_delay(self) -> None:
        self._delayed = False
        self._apply()

    def _apply(self) -> None:
        paused = self._delayed or not self._wanted
        if paused == self._paused or self._transport.is_closing():
            return
        self._paused = paused
        if not paused:
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        if not self._looking:
            self._looking = True
            self._loop.call_later(_LOOK, self._look)

    def _look(self) -> None:
        self._looking = self._paused and not self._transport.is_closing()
        if not self._looking:
            return
        sock = cast("socket.socket | None", self._transport.get_extra_info("socket"))
        events = _events(sock.fileno()) if sock is not None else 0
        if events & _RESET:
            self._transport.abort()
            return
        if events & _HALF_CLOSED:
            self._on_half_close()
        self._loop.call_later(_LOOK, self._look)


def _events(descriptor: int) -> int:
    # POLLIN is left out: unread data does not matter here.
    poll = select.poll()
    poll.register(descriptor, _HALF_CLOSED)
    return next((events for _, events in poll.poll(0)), 0)
