"""HTTP/1.1 on one connection, strictly, with the deadlines that servers lack (RFC 9112).

uvicorn keeps the sockets, this keeps the connections: whoever is slow, sends two lengths or hides
a second request in a first is cut off here, before the application sees anything.
"""

import asyncio
from collections import deque
from math import inf
from typing import cast

import httptools
from uvicorn.server import ServerState

from valetkey.kernel.refusal import ErrorCode
from valetkey.web import log
from valetkey.web.connection.exchange import UNREAD, Exchange, Left
from valetkey.web.connection.gate import Gate, objection
from valetkey.web.connection.refusal import COME_AGAIN, Unreadable, busy, refusal
from valetkey.web.connection.tap import Tap
from valetkey.web.connection.wording import Wording
from valetkey.web.exchange import Headers
from valetkey.web.router import TARGET_BYTES, App
from valetkey.web.security_headers import head

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpProtocol(asyncio.Protocol):
    """One connection. Requests are answered in the order in which they came."""

    def __init__(
        self, app: App, gate: Gate, state: ServerState, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Answer by `app` what comes in through `gate`."""
        self.loop = loop
        self.address = ""
        self.deadline = inf
        self._app = app
        self._gate = gate
        self._limits = gate.limits
        self._state = state
        self._wording = Wording(state)
        self._transport = cast("asyncio.Transport", None)
        self._tap = cast("Tap", None)
        self._parser = httptools.HttpRequestParser(self)
        self._tls = False
        self._pending: deque[Exchange] = deque()
        self._current: Exchange | None = None  # the one being answered
        self._incoming: Exchange | None = None  # the one whose body is being received
        self._last_words = b""
        self._idle = True
        self._stuck = False  # the client does not read
        self._stopping = False  # nothing after what was already asked
        self._over = False  # the server stops
        self._deaf = False  # what still comes is thrown away
        self._room: asyncio.Future[None] | None = None  # for who waits to write on
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_header = False
        self._fields = 0  # bytes of the header that are parsed
        self._unparsed = 0  # bytes that came for it
        self._mixed = False
        self._hasty_until = -inf  # whoever was turned away and asks again before is in haste

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, if there is room."""
        self._transport = cast("asyncio.Transport", transport)
        self._tap = Tap(self._transport, self.loop)
        peer = cast("tuple[str, int] | None", transport.get_extra_info("peername"))
        self.address = peer[0] if peer else ""
        self._tls = transport.get_extra_info("sslcontext") is not None
        if not self._gate.admit(self):
            self._deaf = True
            self._transport.abort()
            return
        cast("set[object]", self._state.connections).add(self)
        # What waits in our buffer shows that the client does not read. TLS takes 0 for "always".
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._set_deadline(self._limits.idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._deaf = True
        self._gate.release(self)
        cast("set[object]", self._state.connections).discard(self)
        if self._current is not None:
            self._current.abandon()
        self._current = self._incoming = None
        self._pending.clear()

    def eof_received(self) -> bool:
        """Whether to stay open: only for the answer to what was asked completely."""
        self._stopping = True
        current = self._current
        return current is not None and not (current.streaming or current.more or self._tls)

    def pause_writing(self) -> None:
        """From now on the client has a deadline to read."""
        self._stuck = True
        self._set_deadline(self._limits.write)

    def resume_writing(self) -> None:
        """The client has read everything."""
        self._stuck = False
        if self._room is not None:
            self.deadline = inf
            if not self._room.done():
                self._room.set_result(None)
        if self._last_words or not self._deaf:
            self._advance()

    def shutdown(self) -> None:
        """Answer what was asked, nothing more; uvicorn calls this when it stops."""
        self._stopping = self._over = True
        if self._current is not None and self._current.streaming:
            self._cut(self._current)
        self._advance()

    def expire(self) -> None:
        """Do what follows from a deadline that has passed."""
        if self._stuck or self._transport.is_closing():
            self._transport.abort()
        elif self._deaf or self._idle:
            self._close()
        else:
            late = "header" if self._current is None else "body"
            self._break(ErrorCode.REQUEST_TIMEOUT, f"the {late} took too long to arrive")

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds

    def data_received(self, data: bytes) -> None:
        """Parse it; the parser calls the methods named `on_...`."""
        if self._deaf:
            return
        rested, self._idle = self._idle, False
        # While a body is being read, or after it, most of `data` may not belong to a header.
        self._mixed = self._incoming is not None
        self._unparsed = self._unparsed + len(data) if self._in_header else len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # We stay with HTTP/1.1, but the parser is of no use any more.
            self._stopping = True
            self._tap.shut()
        except httptools.HttpParserError as error:
            self._misread(error)
        else:
            if self._in_header and self._unparsed > self._limits.header_bytes:
                self._break(ErrorCode.HEADERS_TOO_LARGE, "the header is too large")
        current = self._current
        if current is not None and not current.begun:
            self._time(current)
            self._begin(current)
        elif current is None and rested and not self._deaf:
            self._set_deadline(self._limits.header)
        if self._pending:
            self._tap.shut()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_header = True
        self._url = b""
        self._headers = []
        self._fields = 0
        if self._mixed:
            self._unparsed = 0
        self._mixed = True

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._url += url
        if len(self._url) > TARGET_BYTES:
            raise Unreadable("the request target is too long", ErrorCode.URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer, which nobody needs."""
        if not self._in_header:
            return
        self._fields += len(name) + len(value)
        if self._fields > self._limits.header_bytes:
            raise Unreadable("the header is too large", ErrorCode.HEADERS_TOO_LARGE)
        if len(self._headers) >= self._limits.header_fields:
            raise Unreadable("the header has too many fields", ErrorCode.HEADERS_TOO_LARGE)
        self._headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The header is complete: the application may start."""
        parser, url = self._parser, self._url
        version = parser.get_http_version()
        headers = Headers(self._headers)
        fields = headers.last()
        if complaint := objection(version, url, fields, known=url in self._app.paths):
            raise Unreadable(complaint)
        has_body = b"transfer-encoding" in fields or fields.get(b"content-length", b"0") != b"0"
        if has_body and parser.should_upgrade():
            raise Unreadable("a request with a body cannot ask for an upgrade")
        self._in_header = False
        method, keep = parser.get_method().decode(), parser.should_keep_alive()
        exchange = Exchange(self, method, url, headers, self.address, self._tls, keep)
        if version != "1.1":
            exchange.old, exchange.keep_alive = True, False
        if has_body and fields.get(b"expect", b"").lower() == b"100-continue":
            exchange.expects = True
        self._incoming = exchange
        if self._current is None and not self._pending and not self._stuck:
            # It is begun when all of `data` is read: mostly its body is in there.
            self._current = exchange
        else:
            self._pending.append(exchange)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if cast("Exchange", self._incoming).feed(body) > UNREAD:
            self._tap.shut()

    def on_message_complete(self) -> None:
        """The body is complete."""
        exchange, self._incoming = cast("Exchange", self._incoming), None
        exchange.finish()
        if exchange.begun and exchange is self._current:
            self._time(exchange)

    def _misread(self, error: httptools.HttpParserError) -> None:
        last = self._pending[-1] if self._pending else self._current
        if last is not None and not last.more and not last.keep_alive:
            # What follows a request that closes the connection is not one.
            self._in_header = False
            self._tap.shut()
            return
        cause = error.__context__
        if not isinstance(cause, Unreadable):
            cause = Unreadable("this is not a valid HTTP/1.1 request")
        self._break(cause.code, str(cause))

    def resume_reading(self) -> None:
        """Read on, if nothing waits to be answered first."""
        if self._tap.is_shut and not self._pending:
            self._tap.open()

    def _advance(self) -> None:
        # Answers the next request, or says the last words, or waits.
        if self._current is not None or self._stuck or self._transport.is_closing():
            return
        if self._pending:
            self._current = self._pending.popleft()
            self._time(self._current)
            # Not from within the answer before it: a pipeline may be thousands of requests deep.
            self.loop.call_soon(self._begin, self._current)
        elif self._last_words:
            words, self._last_words = self._last_words, b""
            self._transport.write(words)
            self._linger()
        elif self._stopping:
            self._close()
        else:
            self._idle = not self._in_header
            self._set_deadline(self._limits.idle if self._idle else self._limits.header)
            self.resume_reading()

    def _begin(self, exchange: Exchange) -> None:
        if exchange.begun or exchange is not self._current:
            return
        exchange.begun = True
        # Who is slow to send takes nobody's place: only complete requests are counted.
        if not exchange.more:
            if not self._gate.enter(exchange.path, self._app.vital):
                self._turn_away(exchange)
                return
            exchange.counted = True
        exchange.task = self.loop.create_task(exchange.run(self._app))
        self._state.tasks.add(exchange.task)

    def _turn_away(self, exchange: Exchange) -> None:
        top, body = busy(tls=self._tls)
        self.answered(exchange, top, len(body), b"" if exchange.method == "HEAD" else body)
        now = self.loop.time()
        # Who asks again without waiting waits here; those behind a proxy do not know of each other.
        if now < self._hasty_until and not self._app.proxies.trusts(self.address):
            self._tap.rest(COME_AGAIN)
        self._hasty_until = now + COME_AGAIN / 2

    def leave(self, exchange: Exchange) -> None:
        """Nobody is at work on `exchange` any more."""
        self._state.tasks.discard(cast("asyncio.Task[None]", exchange.task))
        self._uncount(exchange)

    def _uncount(self, exchange: Exchange) -> None:
        if exchange.counted:
            exchange.counted = False
            self._gate.leave()

    def _time(self, exchange: Exchange) -> None:
        # Once the request is complete, it is we who take the time.
        self.deadline = self.loop.time() + self._limits.body if exchange.more else inf

    def answered(self, exchange: Exchange, top: bytes, length: int | None, body: bytes) -> None:
        """Write the answer to `exchange` and go on to what comes next."""
        if exchange is not self._current:
            return
        last = self._is_last(exchange)
        self._transport.write(self._wording.whole(top, length, body, last=last))
        self._go_on(exchange, last)

    def begin(self, exchange: Exchange, top: bytes) -> None:
        """Write the head of an answer whose length nobody knows."""
        if exchange is not self._current:
            raise Left
        exchange.streaming = True
        # A stream may last for hours, and costs little while nothing comes.
        self._uncount(exchange)
        if self._over:
            self._cut(exchange)
            raise Left
        # The end of an answer to HTTP/1.0 is the end of the connection.
        exchange.keep_alive = keep = not self._is_last(exchange)
        self._transport.write(self._wording.start(top, chunked=not exchange.old, last=not keep))

    async def pour(self, exchange: Exchange, piece: bytes) -> None:
        """Write a piece of the body, and wait until the client has room for more."""
        if exchange is not self._current:
            raise Left
        if piece:
            self._transport.write(piece if exchange.old else b"%x\r\n%b\r\n" % (len(piece), piece))
        if self._stuck:
            self._room = self.loop.create_future()
            try:
                await self._room
            finally:
                self._room = None

    def end(self, exchange: Exchange) -> None:
        """Say that the pieces were all, and go on to what comes next."""
        exchange.streaming = False
        if not exchange.old:
            self._transport.write(b"0\r\n\r\n")
        self._go_on(exchange, not exchange.keep_alive)

    def _is_last(self, exchange: Exchange) -> bool:
        return exchange.more or not exchange.keep_alive or (self._stopping and not self._pending)

    def _go_on(self, exchange: Exchange, last: bool) -> None:
        self._state.total_requests += 1
        self._current = None
        self._uncount(exchange)
        if exchange.more or (last and self._tap.is_shut):
            self._linger()
        elif last:
            self._close()
        else:
            self._advance()

    def _cut(self, exchange: Exchange) -> None:
        # Without the last chunk: nobody shall take a part for the whole.
        self._current = None
        exchange.abandon()
        self._close()

    def proceed(self) -> None:
        """Ask the client for the body that it announced."""
        self._transport.write(_CONTINUE)

    def fail(self, exchange: Exchange) -> None:
        """Say that nothing answered `exchange`."""
        if exchange is not self._current:
            return
        if exchange.streaming:
            self._cut(exchange)
        else:
            self._break(ErrorCode.SERVER_ERROR, "the server failed")

    def _break(self, code: ErrorCode, description: str) -> None:
        # Answers what was asked completely, then refuses the rest and hangs up.
        said = refusal(code, description)
        log.info("connection.refused", status=said.status, reason=description, address=self.address)
        top = head(said.status, said.headers, hsts=self._tls)
        self._last_words = self._wording.whole(top, len(said.body), said.body, last=True)
        self._deaf = True
        if self._current is not None and (self._current.more or code is ErrorCode.SERVER_ERROR):
            self._current.abandon()
            self._current = None
        if self._pending and self._pending[-1].more:
            self._pending.pop()
        self._incoming = None
        self._advance()

    def _close(self) -> None:
        self._deaf = True
        self._set_deadline(self._limits.write)
        self._transport.close()

    def _linger(self) -> None:
        # A reset would take the refusal away from a client that is still sending.
        self._deaf = True
        self._set_deadline(self._limits.linger)
        self._pending.clear()
        self.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
