"""What the App needs of whoever brings it a request: our own connections, or an ASGI server."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from math import inf
from typing import Protocol, cast

from valetkey.kernel.waiting import CALLER
from valetkey.web.exchange import Headers, Response
from valetkey.web.security_headers import harden

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Asked(Protocol):
    """One request, and the way back for its answer."""

    method: str
    path: str
    """As sent."""
    query: str
    headers: Headers
    peer: str
    """The address at the other end of the connection; empty if unknown."""
    tls: bool
    """Whether the connection itself is TLS."""
    more: bool
    """Whether the body is not complete."""

    def whole(self) -> bytes:
        """The body, once it is complete; it is given once."""
        ...

    async def receive(self) -> Message:
        """The next piece of a body that is not complete, as ASGI says it."""
        ...

    def say(self, response: Response, *, hsts: bool, bare: bool) -> None:
        """Answer, without the body if it is to be `bare`.

        Raises ValueError, with nothing said, for a header field that is not printable ASCII.
        """
        ...

    async def pour(self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool) -> None:
        """Answer with the body and then piece by piece. Raises ValueError as `say` does."""
        ...


_BODILESS = frozenset(("GET", "HEAD"))
_SLOW = 1.0  # seconds
_WITHOUT_LENGTH = frozenset((204, 304))


def length_of(response: Response) -> int | None:
    """Its Content-Length, if it has one (RFC 9110 section 8.6)."""
    if response.stream is not None or response.status in _WITHOUT_LENGTH:
        return None
    return len(response.body)


class AsgiAsked:
    """A request as an ASGI server brings it; `finish` sends what was said."""

    gone = False
    """The server says that the client is gone; it is asked once the answer takes a second."""
    half_closed_at = inf
    patience = 10.0

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Take the query out of `scope`: from here on nothing can see, keep or log it there."""
        self.method = cast("str", scope["method"])
        self.path = cast("bytes", scope["raw_path"]).decode("latin-1")
        self.query = cast("bytes", scope["query_string"]).decode("latin-1")
        scope["query_string"] = b""
        self.headers = Headers(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        client = cast("tuple[str, int] | None", scope.get("client"))
        self.peer = client[0] if client else ""
        self.tls = scope["scheme"] == "https"
        self.more = True
        self._receive = receive
        self._send = send
        self._said: tuple[Message, bytes] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_SLOW, self._watch)
        CALLER.set(self)

    def whole(self) -> bytes:
        """Nothing is known before it is received."""
        return b""

    async def receive(self) -> Message:
        """As the server gives it."""
        message = await self._receive()
        self.more = bool(message.get("more_body"))
        return message

    def _watch(self) -> None:
        # While a body is still read its reader hears of the end.
        if self.more and self.method not in _BODILESS:
            self._timer = asyncio.get_running_loop().call_later(_SLOW, self._watch)
        else:
            self._watching = asyncio.create_task(self._notice_end())

    async def _notice_end(self) -> None:
        await self._await_end()
        self.gone = True

    def _unwatch(self) -> None:
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def say(self, response: Response, *, hsts: bool, bare: bool) -> None:
        """Keep the answer for `finish`."""
        self._said = (_start(response, hsts=hsts), b"" if bare else response.body)

    async def pour(self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool) -> None:
        """Send each piece as it comes, until the client is gone."""
        self._unwatch()
        # Some servers take what is sent to nobody without a word: only `receive` tells.
        pouring = asyncio.ensure_future(self._pour(response, pieces, hsts=hsts))
        gone = asyncio.ensure_future(self._await_end())
        try:
            await asyncio.wait((pouring, gone), return_when=asyncio.FIRST_COMPLETED)
            if pouring.done():
                pouring.result()
        finally:
            pouring.cancel()
            gone.cancel()
            await asyncio.gather(pouring, gone, return_exceptions=True)

    async def _await_end(self) -> None:
        message = await self._receive()
        while message["type"] != "http.disconnect":
            await asyncio.sleep(0)  # a server that says the same again must not stop the answer
            message = await self._receive()

    async def _pour(self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool) -> None:
        await self._send(_start(response, hsts=hsts))
        await self._send({"type": "http.response.body", "body": response.body, "more_body": True})
        async for piece in pieces:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def finish(self) -> None:
        """Send what was said, if anything was."""
        self._unwatch()
        if self._said is not None:
            start, body = self._said
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})


def _start(response: Response, *, hsts: bool) -> Message:
    headers = harden(response.headers, hsts=hsts)
    length = length_of(response)
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": response.status, "headers": headers}
