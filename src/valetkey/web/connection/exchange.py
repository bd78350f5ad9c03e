"""One request and its answer on a connection of ours."""

import asyncio
from collections.abc import AsyncGenerator
from math import inf
from typing import Protocol

from valetkey.kernel.waiting import CALLER
from valetkey.web import log
from valetkey.web.connection.asked import Asked, Message, length_of
from valetkey.web.exchange import Headers, Response
from valetkey.web.security_headers import head

UNREAD = 64 * 1024
"""Bytes of a body that may wait to be taken; beyond them nothing more is read."""


class Answering(Protocol):
    """Whoever answers."""

    async def answer(self, asked: Asked) -> None:
        """Answer one request."""
        ...


class Left(Exception):
    """The client went away, or the server stops: nobody is there for the next piece."""


class Wire(Protocol):
    """What an exchange needs of its connection."""

    loop: asyncio.AbstractEventLoop
    half_closed_at: float
    """Since when the client waits and sends nothing more; else infinite."""

    def proceed(self) -> None:
        """Ask the client for the body that it announced."""
        ...

    def process_input(self) -> None:
        """Read on, if nothing waits to be answered first."""
        ...

    def answered(self, exchange: "Exchange", top: bytes, length: int | None, body: bytes) -> None:
        """Write a whole answer: status line and fields, Content-Length if it has one, body."""
        ...

    def begin(self, exchange: "Exchange", top: bytes) -> None:
        """Write the head of an answer whose body comes piece by piece. Raises Left."""
        ...

    async def pour(self, exchange: "Exchange", piece: bytes) -> None:
        """Write a piece, and wait until the client has room. Raises Left."""
        ...

    def end(self, exchange: "Exchange") -> None:
        """The pieces were all."""
        ...

    def fail(self, exchange: "Exchange") -> None:
        """Say that nothing answered."""
        ...

    def leave(self, exchange: "Exchange") -> None:
        """Nobody is at work on it any more."""
        ...


class Exchange:
    """One request and its answer; what most of them never need is not set in each of them."""

    more = True
    """The body is not complete."""
    streaming = False
    """The head of the answer is written, its body is not complete."""
    begun = False
    """The application has it, or it was turned away."""
    is_admitted = False
    """It came completely, and was not turned away."""
    counted = False
    """It is one of those at work."""
    expects = False
    """The client waits to be asked for the body."""
    old = False
    """It is HTTP/1.0."""
    task: asyncio.Task[None] | None = None
    _body: bytes | bytearray = b""
    _taken = False
    gone = False
    """The connection is closed."""
    timed_at = inf
    """When its turn came, or its body was complete if that was later, in the event loop's time."""
    patience = inf
    _waiter: asyncio.Future[None] | None = None

    def __init__(
        self,
        connection: Wire,
        method: str,
        target: bytes,
        headers: Headers,
        peer: str,
        tls: bool,
        keep_alive: bool,
    ) -> None:
        """The header of a request came, with `target` in ASCII."""
        self._connection = connection
        self.method = method
        self.path, _, self.query = target.decode().partition("?")
        self.headers = headers
        self.peer = peer
        self.tls = tls
        self.keep_alive = keep_alive

    @property
    def unread(self) -> int:
        """Bytes of the body that wait to be taken."""
        return len(self._body)

    @property
    def half_closed_at(self) -> float:
        """Since when the client waits and sends nothing more; else infinite."""
        return self._connection.half_closed_at

    def feed(self, body: bytes) -> None:
        """A piece of the request's body came."""
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body
        self._wake()

    def finish(self) -> None:
        """The request's body is complete."""
        self.more = False
        self._wake()

    def abandon(self) -> None:
        """The client is gone. What streams to it is cancelled; anything else ends by itself."""
        self.gone = True
        self._wake()
        if self.streaming and self.task is not None:
            self.task.cancel()

    async def run(self, app: Answering) -> None:
        """Let `app` answer."""
        CALLER.set(self)
        try:
            await app.answer(self)
        except Left:
            pass  # nothing failed
        except Exception as failure:  # noqa: BLE001 - whatever failed, the client is not left waiting
            log.error("application.failed", failure)
        finally:
            self._connection.leave(self)
            self._connection.fail(self)

    def whole(self) -> bytes:
        """The body, once it is complete; it is given once."""
        body, self._body = bytes(self._body), b""
        self._taken = True
        if len(body) > UNREAD:
            self._connection.process_input()
        return body

    async def receive(self) -> Message:
        """The next piece of the body, as ASGI says it."""
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
        # After the message is made: this may bring the next piece, or the last.
        self._connection.process_input()
        return message

    def say(self, response: Response, *, hsts: bool, bare: bool) -> None:
        """Write the answer, if the client still waits for it."""
        top = head(response.status, response.headers, hsts=hsts)
        body = b"" if bare else response.body
        self._connection.answered(self, top, length_of(response), body)

    async def pour(self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool) -> None:
        """Write the answer as its pieces come. Raises Left when nobody is there for them."""
        connection = self._connection
        connection.begin(self, head(response.status, response.headers, hsts=hsts))
        await connection.pour(self, response.body)
        async for piece in pieces:
            await connection.pour(self, piece)
        await connection.pour(self, b"")
        connection.end(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
