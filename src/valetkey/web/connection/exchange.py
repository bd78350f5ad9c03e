"""One request and its answer on a connection, as an ASGI application sees them."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from valetkey.web import log
from valetkey.web.security_headers import RawPairs

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


_ASGI = {"version": "3.0", "spec_version": "2.3"}


def scope_of(
    version: str,
    method: str,
    scheme: str,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    peer: tuple[str, int] | None,
) -> Message:
    """The header of a request as ASGI says it."""
    raw_path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": version,
        "method": method,
        "scheme": scheme,
        "path": raw_path.decode(),
        "raw_path": raw_path,
        "query_string": query,
        "headers": headers,
        "client": peer,
    }


class Left(Exception):
    """The client went away, or the server stops: nobody is there for the next piece."""


class Wire(Protocol):
    """What an exchange needs of its connection."""

    loop: asyncio.AbstractEventLoop

    def proceed(self) -> None:
        """Ask the client for the body that it announced."""
        ...

    def resume_reading(self) -> None:
        """Read on, if nothing waits to be answered first."""
        ...

    def answered(self, exchange: "Exchange", status: int, headers: RawPairs, body: bytes) -> None:
        """Write a whole answer."""
        ...

    def begin(self, exchange: "Exchange", status: int, headers: RawPairs) -> None:
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


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and its answer."""

    connection: Wire
    scope: Message
    keep_alive: bool
    expects: bool
    """The client waits to be asked for the body."""
    more: bool = True
    """The body is not complete."""
    streaming: bool = False
    """The head of the answer is written, its body is not complete."""
    begun: bool = False
    """The application has it, or it was turned away."""
    counted: bool = False
    """It is one of those at work."""
    _task: asyncio.Task[None] | None = None
    _body: bytearray = field(default_factory=bytearray)
    _taken: bool = False
    _gone: bool = False
    _waiter: asyncio.Future[None] | None = None
    _start: Message | None = None

    def feed(self, body: bytes) -> int:
        """A piece of the request's body came; how much of it waits to be taken."""
        self._body += body
        self._wake()
        return len(self._body)

    def finish(self) -> None:
        """The request's body is complete."""
        self.more = False
        self._wake()

    def abandon(self) -> None:
        """The client is gone. What streams to it is cancelled; anything else ends by itself."""
        self._gone = True
        self._wake()
        if self.streaming and self._task is not None:
            self._task.cancel()

    def start(self, app: Application) -> asyncio.Task[None]:
        """Let `app` answer."""
        self._task = self.connection.loop.create_task(self._run(app))
        return self._task

    async def _run(self, app: Application) -> None:
        try:
            await app(self.scope, self._receive, self._send)
        except Left:
            pass  # nothing failed
        except Exception as failure:  # noqa: BLE001 - whatever failed, the client is not left waiting
            log.error("application.failed", failure)
        self.connection.fail(self)

    async def _receive(self) -> Message:
        if self.expects and self.more and not self._body:
            self.expects = False
            self.connection.proceed()
        while self.more and not self._body and not self._gone:
            self._waiter = self.connection.loop.create_future()
            await self._waiter
        if self._gone or self._taken:
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._taken = not self.more
        self.connection.resume_reading()
        return {"type": "http.request", "body": body, "more_body": self.more}

    async def _send(self, message: Message) -> None:
        if self._start is None:
            self._start = message
            return
        body = cast("bytes", message["body"])
        more = message.get("more_body")
        if not self.streaming:
            headers = cast("RawPairs", self._start["headers"])
            status = cast("int", self._start["status"])
            if not more:
                self.connection.answered(self, status, headers, body)
                return
            self.connection.begin(self, status, headers)
        await self.connection.pour(self, body)
        if not more:
            self.connection.end(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
