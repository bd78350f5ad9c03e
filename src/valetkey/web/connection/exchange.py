"""One request and its response on one of the server's own connections."""

import asyncio
from collections.abc import AsyncGenerator
from math import inf
from typing import Protocol

from uvicorn.server import ServerState

from valetkey.kernel.tracing import CALLER, OFF
from valetkey.web import log
from valetkey.web.connection.incoming_request import IncomingRequest, Message, length_of
from valetkey.web.exchange import Headers, Response
from valetkey.web.security_headers import head

UNREAD = 64 * 1024
"""Bytes of a body that may wait to be taken; beyond them reading pauses."""


class Responder(Protocol):
    """The application, as an exchange sees it."""

    async def answer(self, incoming: IncomingRequest) -> None:
        """Answer one request."""
        ...


class Disconnected(Exception):
    """The client disconnected or the server stops: the next piece cannot be delivered."""


class ExchangeTransport(Protocol):
    """The connection, as an exchange uses it."""

    loop: asyncio.AbstractEventLoop
    half_closed_at: float
    """When the client closed its sending half while waiting; infinity if it has not."""
    certificate_host: str
    """See `IncomingRequest`."""

    def proceed(self) -> None:
        """Send 100 Continue, so that the client sends the body it announced."""
        ...

    def process_input(self) -> None:
        """Continue reading, unless earlier input must be answered first."""
        ...

    def answered(self, exchange: "Exchange", top: bytes, length: int | None, body: bytes) -> None:
        """Write a complete response: status line and fields, Content-Length if it has one, body."""
        ...

    def begin(self, exchange: "Exchange", top: bytes) -> None:
        """Write the head of a streamed response. Raises Disconnected."""
        ...

    async def write_stream(self, exchange: "Exchange", piece: bytes) -> None:
        """Write a piece, and wait until the client has room. Raises Disconnected."""
        ...

    def end(self, exchange: "Exchange") -> None:
        """End a streamed response."""
        ...

    def fail(self, exchange: "Exchange") -> None:
        """Answer 500 if the exchange has no response yet."""
        ...

    def leave(self, exchange: "Exchange") -> None:
        """Note that the exchange's task has ended."""
        ...


class Exchange:
    """One request and its response; rarely needed attributes are class defaults to save time."""

    more = True
    """Whether the body is incomplete."""
    streaming = False
    """Whether the head of the response is written and its body is incomplete."""
    begun = False
    """Whether the application received the request, or it was turned away."""
    is_admitted = False
    """Whether the request is complete and was not turned away."""
    counted = False
    """Whether it counts towards the limit of concurrent requests."""
    expects = False
    """Whether the client waits for 100 Continue."""
    old = False
    """Whether the request is HTTP/1.0."""
    task: asyncio.Task[None] | None = None
    _body: bytes | bytearray = b""
    _taken = False
    request_id = ""
    complete_at = 0.0
    reference = ""
    span = OFF
    gone = False
    """Whether the connection is closed."""
    timed_at = inf
    """Event-loop time at which its turn came or its body was complete, whichever was later."""
    patience = inf
    _waiter: asyncio.Future[None] | None = None

    def __init__(
        self,
        connection: ExchangeTransport,
        method: str,
        target: bytes,
        headers: Headers,
        peer: str,
        tls: bool,
        keep_alive: bool,
    ) -> None:
        """Begin an exchange whose header is complete; `target` is ASCII."""
        self._connection = connection
        self.method = method
        self.path, _, self.query = target.decode().partition("?")
        self.headers = headers
        self.peer = peer
        self.tls = tls
        self.keep_alive = keep_alive

    @property
    def unread(self) -> int:
        """Return how many bytes of the body wait to be taken."""
        return len(self._body)

    @property
    def certificate_host(self) -> str:
        """See `IncomingRequest`."""
        return self._connection.certificate_host

    @property
    def half_closed_at(self) -> float:
        """When the client closed its sending half while waiting; infinity if it has not."""
        return self._connection.half_closed_at

    def feed(self, body: bytes) -> None:
        """Add a piece of the request's body."""
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body
        self._wake()

    def finish(self) -> None:
        """Mark the request's body as complete."""
        self.more = False
        self._wake()

    def abandon(self) -> None:
        """Mark the client as gone; cancel a stream, let any other work finish."""
        self.gone = True
        self._wake()
        if self.streaming and self.task is not None:
            self.task.cancel()

    async def run(self, app: Responder) -> None:
        """Let `app` answer the request."""
        CALLER.set(self)
        try:
            await app.answer(self)
        except Disconnected:
            pass  # the client left, or the server stops
        except Exception as failure:  # noqa: BLE001 - after any error, the client gets a response
            log.error("application.failed", failure)
        finally:
            self._connection.leave(self)
            self._connection.fail(self)

    def whole(self) -> bytes:
        """Return the complete body; a second call returns nothing."""
        body, self._body = bytes(self._body), b""
        self._taken = True
        if len(body) > UNREAD:
            self._connection.process_input()
        return body

    async def receive(self) -> Message:
        """Return the next part of the body as an ASGI message."""
        if self.expects and self.more and not self._body:
            self.expects = False
            self._connection.proceed()
        while self.more and not self._body and not self.gone:
            self._waiter = self._connection.loop.create_future()
            await self._waiter
        if self.gone or self._taken:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), b""
        self._taken = not self.more
        message: Message = {"type": "http.request", "body": body, "more_body": self.more}
        # After the message is made: this call may deliver the next piece, or the last.
        self._connection.process_input()
        return message

    def send(self, response: Response, *, hsts: bool, bare: bool) -> None:
        """Write the response, if the client still waits for it."""
        top = head(response.status, response.headers, hsts=hsts)
        body = b"" if bare else response.body
        self._connection.answered(self, top, length_of(response), body)

    async def write_stream(
        self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool
    ) -> None:
        """Write a streamed response piece by piece. Raises Disconnected if the client is gone."""
        connection = self._connection
        connection.begin(self, head(response.status, response.headers, hsts=hsts))
        await connection.write_stream(self, response.body)
        async for piece in pieces:
            await connection.write_stream(self, piece)
        await connection.write_stream(self, b"")
        connection.end(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ResponseFormatter:
    """Formats responses as HTTP/1.1 (RFC 9112)."""

    __slots__ = ("_line", "_pairs", "_state")

    def __init__(self, state: ServerState) -> None:
        """Add the fields of `state` to every response; uvicorn renews them once a second."""
        self._state = state
        self._pairs: list[tuple[bytes, bytes]] = []
        self._line = b""

    def whole(self, top: bytes, length: int | None, body: bytes, *, last: bool) -> bytes:
        """Return a complete response: status line and fields, Content-Length if it has one, body.

        The `last` response announces that the connection closes.
        """
        line = self._line if self._state.default_headers is self._pairs else self._renewed()
        if length is None:
            end = b"connection: close\r\n\r\n" if last else b"\r\n"
            return b"%b%b%b%b" % (top, line, end, body)
        if last:
            end = b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b"
            return top + end % (line, length, body)
        return b"%b%bcontent-length: %d\r\n\r\n%b" % (top, line, length, body)

    def start(self, top: bytes, *, chunked: bool, last: bool) -> bytes:
        """Return the head of a response of unknown length."""
        framing = b"transfer-encoding: chunked\r\n" if chunked else b""
        return self.whole(top + framing, None, b"", last=last)

    def _renewed(self) -> bytes:
        self._pairs = self._state.default_headers
        self._line = b"".join(b"%b: %b\r\n" % pair for pair in self._pairs)
        return self._line
