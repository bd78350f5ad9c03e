"""The request interface that the App reads and answers, and its implementation for ASGI."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from math import inf
from typing import Protocol, cast

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.tracing import CALLER, OFF, Span
from valetkey.web.exchange import Headers, Response
from valetkey.web.security_headers import harden

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class IncomingRequest(Protocol):
    """A request received, and how it is answered."""

    method: str
    path: str
    """The path as sent, not decoded."""
    query: str
    headers: Headers
    peer: str
    """The address at the other end of the connection; empty if unknown."""
    tls: bool
    """Whether the connection itself is TLS."""

    @property
    def certificate_host(self) -> str:
        """The host whose certificate the connection has; "" if it was not chosen by host."""
        ...

    more: bool
    """Whether the body is incomplete."""
    request_id: str
    """See `Caller`; the App sets it."""
    complete_at: float
    """See `Caller`; the App sets it."""
    reference: str
    """See `Caller`."""
    span: Span
    """See `Caller`; the App sets it."""
    streaming: bool
    """Whether the head of a streamed response is written and its body is incomplete."""

    def whole(self) -> bytes:
        """Return the complete body; a second call returns nothing."""
        ...

    async def receive(self) -> Message:
        """Return the next part of an incomplete body as an ASGI message."""
        ...

    def send(self, response: Response, *, hsts: bool, bare: bool) -> None:
        """Send the response, without its body if `bare`.

        Raises ValueError, before anything is sent, for a header field that is not printable ASCII.
        """
        ...

    async def write_stream(
        self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool
    ) -> None:
        """Send the response's body, then each of `pieces`. Raises ValueError as `say` does."""
        ...


async def send_stream(
    request: IncomingRequest,
    response: Response,
    stream: AsyncGenerator[bytes],
    *,
    hsts: bool,
    bare: bool,
) -> None:
    """Send a streamed response, or only its head if `bare`."""
    # Always closed, so that a generator waiting for events stops.
    async with aclosing(stream) as pieces:
        if bare:
            request.send(response, hsts=hsts, bare=True)
        else:
            await request.write_stream(response, pieces, hsts=hsts)


_BODILESS = frozenset(("GET", "HEAD"))
_SLOW = 1.0  # seconds
_WITHOUT_LENGTH = frozenset((204, 304))


def length_of(response: Response) -> int | None:
    """Return the Content-Length of a response, None if it has none (RFC 9110 section 8.6)."""
    if response.stream is not None or response.status in _WITHOUT_LENGTH:
        return None
    return len(response.body)


class AsgiRequest:
    """A request received by an ASGI server; `finish` sends the response."""

    request_id = ""
    certificate_host = ""
    complete_at = 0.0
    reference = ""
    span = OFF
    gone = False
    """Whether the server reported a disconnect; checked once the response takes over a second."""
    half_closed_at = inf
    patience = 10.0
    streaming = False

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Remove the query from `scope`, so that no other code can read, keep or log it there."""
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
        self._complete: tuple[Message, bytes] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_SLOW, self._watch)
        CALLER.set(self)

    def whole(self) -> bytes:
        """Return b"": the body arrives only through `receive`."""
        return b""

    async def receive(self) -> Message:
        """Return the server's next message."""
        message = await self._receive()
        self.more = bool(message.get("more_body"))
        return message

    def _watch(self) -> None:
        # The code that reads the body also receives the disconnect.
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

    def send(self, response: Response, *, hsts: bool, bare: bool) -> None:
        """Keep the response for `finish`."""
        self._complete = (_start(response, hsts=hsts), b"" if bare else response.body)

    async def write_stream(
        self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool
    ) -> None:
        """Send each piece as it comes, until the client disconnects."""
        self._unwatch()
        # Some servers silently accept data for a closed connection: only `receive` reports the end.
        pouring = asyncio.ensure_future(self._send_stream(response, pieces, hsts=hsts))
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
            await asyncio.sleep(0)  # A server that repeats a message must not starve the response.
            message = await self._receive()

    async def _send_stream(
        self, response: Response, pieces: AsyncGenerator[bytes], *, hsts: bool
    ) -> None:
        await self._send(_start(response, hsts=hsts))
        await self._send({"type": "http.response.body", "body": response.body, "more_body": True})
        async for piece in pieces:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def finish(self) -> None:
        """Send the response, if there is one."""
        self._unwatch()
        if self._complete is not None:
            start, body = self._complete
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})


def _start(response: Response, *, hsts: bool) -> Message:
    headers = harden(response.headers, hsts=hsts)
    length = length_of(response)
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": response.status, "headers": headers}


_KIB = 1024

SMALL = 64 * _KIB
"""Bytes of a body that need no room in the budget: every form, and nearly all JSON."""

_NO_ROOM = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "too many large bodies are on their way here; try again in a moment",
    "http.room",
    retry_after=1,
)


class BodyMemory:
    """The memory budget for request bodies beyond `SMALL` bytes, shared by a worker's requests.

    A body arrives before the client is authenticated. Without a bound, a client could exhaust
    memory by opening many connections and holding back the last byte of each body.
    """

    __slots__ = ("left",)

    def __init__(self, size: int = 64 * _KIB * _KIB) -> None:
        """Allow `size` bytes in total; `left` is what is free."""
        self.left = size


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


def take_body(headers: Headers, body: bytes, limit: int, room: BodyMemory) -> bytes:
    """Return a body that is complete: at most `limit` bytes. Raises Refused (413, 415, 503)."""
    if headers.raw(b"content-encoding") is not None:
        _check_encoding(headers)
    if len(body) > limit:
        raise Refused(_too_large(limit))
    # The body is already complete, so its room is not held, but it must be available.
    if len(body) - SMALL > room.left:
        raise Refused(_NO_ROOM)
    return body


async def read_body(headers: Headers, receive: Receive, limit: int, room: BodyMemory) -> bytes:
    """Return the body: at most `limit` bytes. Raises Refused (400, 413, 415, 503)."""
    _check_encoding(headers)
    length = headers.get("content-length")
    if length is not None:
        if not (length.isascii() and length.isdigit()):
            description = "Content-Length must be a number"
            raise Refused.because(ErrorCode.INVALID_REQUEST, description, "http.content_length")
        # Digits are counted first: int() is slow for thousands of digits and then fails.
        if len(length) > len(str(limit)) or int(length) > limit:
            raise Refused(_too_large(limit))
    return await _read(receive, limit, room)


def _check_encoding(headers: Headers) -> None:
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        raise Refused.because(
            ErrorCode.UNSUPPORTED_MEDIA_TYPE,
            "a body must not have a Content-Encoding",
            "http.content_encoding",
        )


async def _read(receive: Receive, limit: int, room: BodyMemory) -> bytes:
    body = bytearray()
    held = 0
    try:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            body += cast("bytes", message.get("body", b""))
            if len(body) > limit:
                raise Refused(_too_large(limit))
            more = max(0, len(body) - SMALL) - held
            if more > room.left:
                raise Refused(_NO_ROOM)
            room.left -= more
            held += more
            if not message.get("more_body"):
                return bytes(body)
    finally:
        room.left += held


def _too_large(limit: int) -> Refusal:
    description = f"the body has more than {limit // _KIB} KiB"
    return Refusal(ErrorCode.CONTENT_TOO_LARGE, description, "http.body")
