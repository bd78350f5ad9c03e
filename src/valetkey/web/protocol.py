"""HTTP/1.1 on one connection, strictly parsed and with deadlines (RFC 9112).

uvicorn runs the server; this class handles its connections. A client that is too slow, sends two
lengths or smuggles a second request is cut off before the application receives anything.
"""

import asyncio
from collections import deque
from math import inf
from typing import cast

from uvicorn.server import ServerState

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.tracing import HALF_CLOSED
from valetkey.web import log
from valetkey.web.connection.exchange import Disconnected, Exchange, ResponseFormatter
from valetkey.web.connection.gate import Gate
from valetkey.web.connection.reader import (
    HELD,
    RETRY_AFTER,
    FlowControl,
    Reader,
    Unreadable,
    busy,
    refusal,
)
from valetkey.web.router import RoutedApp
from valetkey.web.security_headers import head

_IGNORED = 1024 * 1024  # bytes discarded so that a client that is still sending reads its refusal
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpProtocol(asyncio.Protocol):
    """One connection. Requests are answered in the order in which they arrived."""

    def __init__(
        self, app: RoutedApp, gate: Gate, state: ServerState, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Answer with `app` the requests that `gate` admits."""
        self.loop = loop
        self.address = ""
        self.half_closed_at = inf
        self._due = inf  # when the client must have sent more
        self._write_due = inf  # when the client must have read more
        self._app = app
        self._gate = gate
        self._limits = gate.limits
        self._state = state
        self._wording = ResponseFormatter(state)
        self._reader = Reader(self, app, gate.limits)
        self._parsing = False
        self.tls = False
        self.certificate_host = ""
        self._transport = cast("asyncio.Transport", None)
        self._flow = cast("FlowControl", None)
        self._pending: deque[Exchange] = deque()
        self._current: Exchange | None = None  # the one being answered
        self._last_words = b""  # a refusal to write after the responses before it
        self._idle = True
        self._stuck = False  # the client does not read
        self._stopping = False  # nothing is answered after the requests already received
        self._over = False  # the server stops
        self._ignored = 0
        self._deaf = False  # further input is discarded
        self._lingering = False  # the last response is written, the client may still be sending
        self._room: asyncio.Future[None] | None = None  # set when a stream may continue writing
        self._hasty_until = -inf  # a client refused before this time that retries is delayed

    @property
    def deadline(self) -> float:
        """Return when the connection expires, in the event loop's time."""
        return min(self._due, self._write_due)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, if the limits allow it."""
        self._transport = cast("asyncio.Transport", transport)
        self._flow = FlowControl(self._transport, self.loop, self._half_close)
        peer = cast("tuple[str, int] | None", transport.get_extra_info("peername"))
        self.address = self.address or (peer[0] if peer else "")
        self.tls = transport.get_extra_info("sslcontext") is not None
        if self.tls:
            context = getattr(transport.get_extra_info("ssl_object"), "context", None)
            self.certificate_host = str(getattr(context, "host", ""))
        if not self._gate.admit(self):
            self._deaf = True
            self._transport.abort()
            return
        cast("set[object]", self._state.connections).add(self)
        # Output left in the buffer shows that the client does not read. TLS takes 0 for "always".
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._set_deadline(self._limits.idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that the connection holds."""
        self._gate.release(self)
        cast("set[object]", self._state.connections).discard(self)
        self._drop()

    def _drop(self) -> None:
        # The client is gone: pending requests are dropped, the current one is abandoned.
        self._deaf = True
        if self._current is not None:
            self._current.abandon()
        self._current = self._reader.incoming = None
        self._reader.discard_input()
        self._pending.clear()

    def eof_received(self) -> bool:
        """Return whether to stay open: for the response to a complete request, or for a refusal."""
        self._stopping = self._reader.has_all = True
        self._half_close()
        first = self._current or (self._pending[0] if self._pending else None)
        waits = first is not None and not (first.streaming or self._reader.is_short_of(first))
        stays = not self.tls and (waits or bool(self._last_words))
        if not stays:
            self._drop()
        return stays

    def _half_close(self) -> None:
        # One period for the connection, however many requests it holds, from when the client began
        # to wait.
        if self.half_closed_at == inf:
            current, now = self._current, self.loop.time()
            self.half_closed_at = now if current is None or current.more else current.timed_at

    def pause_writing(self) -> None:
        """Start the client's deadline for reading, in addition to the one for sending."""
        self._stuck = True
        self._write_due = self.loop.time() + self._limits.write

    def resume_writing(self) -> None:
        """Continue: the client has read everything."""
        self._stuck = False
        self._write_due = inf
        if self.half_closed_at < inf:
            self.half_closed_at = self.loop.time()  # it still reads
        if self._idle and not self._deaf:
            self._set_deadline(self._limits.idle)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if self._last_words or not self._deaf:
            self._advance()

    def shutdown(self) -> None:
        """Answer the requests that arrived, and close; uvicorn calls this when it stops."""
        self._stopping = self._over = True
        if self._current is not None and self._current.streaming:
            self._cut(self._current)
        self._advance()

    def expire(self) -> None:
        """Abort, close or answer 408, depending on the deadline that passed."""
        if self._write_due <= self.loop.time() or self._transport.is_closing():
            self._transport.abort()
        elif self._deaf or self._idle:
            self._close()
        else:
            late = "header" if self._current is None else "body"
            self._break(ErrorCode.REQUEST_TIMEOUT, f"the {late} took too long to arrive")

    def _set_deadline(self, seconds: float) -> None:
        self._due = self.loop.time() + seconds

    def data_received(self, data: bytes) -> None:
        """Parse input, or keep it until the requests before it are answered."""
        if self._deaf or self._reader.ended:
            self._ignored += len(data)
            if self._ignored > _IGNORED:
                self._transport.abort()
        else:
            self._reader.buffer_input(data)
        self.process_input()

    def requested(self, exchange: Exchange) -> None:
        """Queue `exchange` behind the requests before it."""
        if self._current is None and not self._pending and not self._stuck:
            # It begins when all available input is read, which usually includes its body.
            self._current = exchange
        else:
            self._pending.append(exchange)

    def completed(self, exchange: Exchange) -> None:
        """End the client's deadline: the remaining time is the server's."""
        if exchange.begun and exchange is self._current:
            self._time(exchange)

    def process_input(self) -> None:
        """Continue parsing, unless a parsed request or body waits to be taken.

        Called after everything that may change this. The body of the request being answered is
        always read: its reader would otherwise wait until the deadline. Up to `HELD` further bytes
        are read as well, because a connection that is not read does not report its end.
        """
        if self._parsing:
            return
        if self._reader.unparsed and not self._waits:
            self._parsing = True
            self._parse()
            self._parsing = False
            current = self._current
            if current is not None and not current.begun:
                self._time(current)
                self._begin(current)
            elif current is not None and not (current.more or current.is_admitted):
                self._admit(current)
        if self._reader.has_all and self._current and self._reader.is_short_of(self._current):
            self._drop()
            self._close()
        self._flow.set_reading(self._lingering or self._reader.unparsed + self._ignored <= HELD)

    @property
    def _waits(self) -> bool:
        # Whether parsed input waits to be taken, so that parsing must pause.
        return bool(self._pending) or self._reader.is_full

    def _parse(self) -> None:
        rested, self._idle = self._idle, False
        while self._reader.unparsed and not self._waits:
            try:
                self._reader.parse()
                self._stopping |= self._reader.ended
            except Unreadable as error:
                self._misread(error)
        if self._current is None and self._pending:
            self._due = inf  # it waits for the client to read, which has its own deadline
        elif self._current is None and rested and not self._deaf:
            self._set_deadline(self._limits.header)

    def _misread(self, error: Unreadable) -> None:
        last = self._pending[-1] if self._pending else self._current
        if last is None or last.more or last.keep_alive:
            self._break(error.code, str(error), error.target)
        # Otherwise, input after a request that closes the connection is not a request.

    def _advance(self) -> None:
        # Answers the next request, writes the last refusal, or waits.
        if self._current is not None or self._stuck or self._transport.is_closing():
            return
        if self._pending:
            self._current = following = self._pending.popleft()
            self._time(following)
            self.process_input()
            # Scheduled, not called: a pipeline of thousands of requests would recurse too deeply.
            self.loop.call_soon(self._begin, following)
        elif self._last_words:
            words, self._last_words = self._last_words, b""
            self._transport.write(words)
            self._discard_until_closed()
        elif self._stopping:
            self._close()

    def _begin(self, exchange: Exchange) -> None:
        if exchange.begun or exchange is not self._current:
            return
        exchange.begun = True
        # Only complete requests are counted, so a client that is slow to send takes no place.
        if exchange.more or self._admit(exchange):
            exchange.patience = self._limits.patience
            exchange.task = self.loop.create_task(exchange.run(self._app))
            self._state.tasks.add(exchange.task)

    def _admit(self, exchange: Exchange) -> bool:
        has_given_up = self.loop.time() - self.half_closed_at > HALF_CLOSED
        if has_given_up or not self._gate.enter(exchange.path, self._app.vital):
            self._refuse_busy(exchange)
            return False
        exchange.is_admitted = exchange.counted = True
        return True

    def _refuse_busy(self, exchange: Exchange) -> None:
        exchange.abandon()
        top, body = busy(tls=self.tls)
        self.answered(exchange, top, len(body), b"" if exchange.method == "HEAD" else body)
        now = self.loop.time()
        # A client that retries too early is delayed; clients behind a proxy share its connections.
        if now < self._hasty_until and not self._app.proxies.trusts(self.address):
            self._flow.delay(RETRY_AFTER)
        self._hasty_until = now + RETRY_AFTER / 2

    def leave(self, exchange: Exchange) -> None:
        """Stop counting `exchange`: its task has ended."""
        self._state.tasks.discard(cast("asyncio.Task[None]", exchange.task))
        # The task's context holds the exchange: without the cycle both are freed at once, and not
        # by the garbage collector.
        exchange.task = None
        self._uncount(exchange)

    def _uncount(self, exchange: Exchange) -> None:
        if exchange.counted:
            exchange.counted = False
            self._gate.leave()

    def _time(self, exchange: Exchange) -> None:
        # Once the request is complete, the remaining time is the server's.
        exchange.timed_at = now = self.loop.time()
        self._due = now + self._limits.body if exchange.more else inf

    def answered(self, exchange: Exchange, top: bytes, length: int | None, body: bytes) -> None:
        """Write the response to `exchange` and continue with what comes next."""
        if exchange is not self._current:
            return
        last = self._is_last(exchange)
        self._transport.write(self._wording.whole(top, length, body, last=last))
        self._go_on(exchange, last)

    def begin(self, exchange: Exchange, top: bytes) -> None:
        """Write the head of a response of unknown length. Raises Disconnected."""
        if exchange is not self._current:
            raise Disconnected
        exchange.streaming = True
        # A stream may last for hours and costs little while idle.
        self._uncount(exchange)
        if self._over:
            self._cut(exchange)
            raise Disconnected
        # The end of a response to HTTP/1.0 is the end of the connection.
        exchange.keep_alive = keep = not self._is_last(exchange)
        self._transport.write(self._wording.start(top, chunked=not exchange.old, last=not keep))

    async def write_stream(self, exchange: Exchange, piece: bytes) -> None:
        """Write a piece of the body when the client has room for it. Raises Disconnected."""
        if exchange is not self._current:
            raise Disconnected
        if piece:
            self._transport.write(piece if exchange.old else b"%x\r\n%b\r\n" % (len(piece), piece))
        if self._stuck:
            self._room = self.loop.create_future()
            try:
                await self._room
            finally:
                self._room = None

    def end(self, exchange: Exchange) -> None:
        """End the body, and continue with the next request."""
        exchange.streaming = False
        if not exchange.old:
            self._transport.write(b"0\r\n\r\n")
        self._go_on(exchange, not exchange.keep_alive)

    def _is_last(self, exchange: Exchange) -> bool:
        stops = (self._stopping or self._gate.closing) and not (self._pending or self._last_words)
        return exchange.more or not exchange.keep_alive or stops

    def _go_on(self, exchange: Exchange, last: bool) -> None:
        self._state.total_requests += 1
        self._current = None
        self._uncount(exchange)
        if exchange.more or (last and (self._reader.ended or self._flow.is_paused)):
            self._discard_until_closed()
        elif last:
            self._close()
        else:
            if not self._pending:
                self._idle = not self._reader.in_header
                self._set_deadline(self._limits.idle if self._idle else self._limits.header)
            self._advance()

    def _cut(self, exchange: Exchange) -> None:
        # Without the last chunk, so that no client takes a partial response for the whole.
        self._current = None
        exchange.abandon()
        self._close()

    def proceed(self) -> None:
        """Send 100 Continue, so that the client sends the body it announced."""
        self._transport.write(_CONTINUE)

    def fail(self, exchange: Exchange) -> None:
        """Answer 500 if `exchange` is still unanswered, or cut off its stream."""
        if exchange is not self._current:
            return
        if exchange.streaming:
            self._cut(exchange)
        else:
            self._break(ErrorCode.SERVER_ERROR, "the server failed")

    def _break(self, code: ErrorCode, description: str, target: str = "") -> None:
        # Answers the complete requests, then refuses the rest and closes.
        answer = refusal(code, description)
        if target:
            # In the form of the route that it would have reached.
            answer = self._app.refusal_of(target, Refusal(code, description, "http.target"))
        log.info(
            "connection.refused", status=answer.status, reason=description, address=self.address
        )
        top = head(answer.status, answer.headers, hsts=self.tls)
        self._last_words = self._wording.whole(top, len(answer.body), answer.body, last=True)
        self._deaf = True
        if self._current is not None and (self._current.more or code is ErrorCode.SERVER_ERROR):
            self._current.abandon()
            self._current = None
        if code is ErrorCode.SERVER_ERROR:
            # This refusal answers the failed request; those behind it get no response.
            self._pending.clear()
        if self._pending and self._pending[-1].more:
            self._pending.pop()
        self._reader.incoming = None
        self._reader.discard_input()
        self._advance()

    def _close(self) -> None:
        self._deaf = True
        self._set_deadline(self._limits.write)
        self._transport.close()

    def _discard_until_closed(self) -> None:
        # A reset would discard the refusal if the client is still sending.
        self._deaf = self._lingering = True
        self._set_deadline(self._limits.linger)
        self._pending.clear()
        self.process_input()
        if self._transport.can_write_eof():
            self._transport.write_eof()
