"""One connection without sockets and without waiting: a loop whose time is set, and a transport."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from contextvars import Context
from itertools import count
from typing import TypeVarTuple, cast

from uvicorn.server import ServerState

from valetkey.web.connection.gate import Gate, Limits
from valetkey.web.protocol import HttpProtocol
from valetkey.web.router import RoutedApp

_Ts = TypeVarTuple("_Ts")
_DEFAULTS = Limits()


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready when it is told to, and moves its time when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._now_ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = count()

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._now_ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._number), handle))
        return handle

    def call_exception_handler(self, context: Mapping[str, object]) -> None:
        raise cast("BaseException", context.get("exception", RuntimeError(context)))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def settle(self) -> None:
        """Run everything that is ready, and what becomes ready by it."""
        while self._now_ready:
            handle = self._now_ready.popleft()
            if not handle.cancelled():
                handle._run()

    def advance(self, seconds: float) -> None:
        """Let time pass, and run everything that falls due."""
        end = self.now + seconds
        self.settle()
        while self._timers and self._timers[0][0] <= end:
            self.now, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                handle._run()
            self.settle()
        self.now = end

    @contextmanager
    def running(self) -> Generator[None]:
        """Be the loop that is running."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)


class MemoryTransport(asyncio.Transport):
    """Keeps what was written; whoever tests says when the client reads."""

    def __init__(self, loop: VirtualLoop, *, tls: bool = False) -> None:
        super().__init__()
        self.loop = loop
        self.tls = tls
        self.heard = bytearray()
        self.written_at = 0.0
        self.reading = True
        self.said_everything = False
        self.closed = False
        self.protocol: asyncio.Protocol
        self.stops_at: list[int] = []
        """Lengths of `heard` at which the client stops to read."""
        self._paused = False
        self._closing = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Name the client, and whether it speaks TLS."""
        if name == "peername":
            return ("192.0.2.1", 50_000)
        return object() if name == "sslcontext" and self.tls else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed or self._closing:
            return
        assert not self.said_everything
        self.heard += data
        self.written_at = self.loop.now
        if self.stops_at and len(self.heard) >= self.stops_at[0]:
            while self.stops_at and len(self.heard) >= self.stops_at[0]:
                self.stops_at.pop(0)
            self.press()

    def can_write_eof(self) -> bool:
        return not self.tls

    def write_eof(self) -> None:
        self.said_everything = True

    def is_closing(self) -> bool:
        return self._closing or self.closed

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._paused:
                self.loop.call_soon(self._lose)

    def abort(self) -> None:
        self._closing = True
        self.loop.call_soon(self._lose)

    @property
    def pressed(self) -> bool:
        """Whether the client does not read."""
        return self._paused

    def press(self) -> None:
        """The client stops to read."""
        if not self._paused and not self.closed:
            self._paused = True
            self.protocol.pause_writing()

    def release(self) -> None:
        """The client has read everything."""
        if self._paused and not self.closed:
            self._paused = False
            self.protocol.resume_writing()
            if self._closing:
                self.loop.call_soon(self._lose)

    def end(self) -> None:
        """The client says that it has said everything."""
        if not self.protocol.eof_received():
            self.close()

    def lose(self) -> None:
        """The client is gone."""
        self._closing = True
        self._lose()

    def _lose(self) -> None:
        if not self.closed:
            self.closed = True
            self.protocol.connection_lost(None)


class VirtualConnection:
    """A connection of ours to a client that is the test."""

    def __init__(
        self, loop: VirtualLoop, app: RoutedApp, limits: Limits, *, tls: bool = False
    ) -> None:
        self.loop = loop
        self.gate = Gate(limits, app.proxies)
        self.transport = MemoryTransport(loop, tls=tls)
        self.protocol = HttpProtocol(app, self.gate, ServerState(), loop)
        self.transport.protocol = self.protocol
        self.protocol.connection_made(self.transport)

    @property
    def heard(self) -> bytes:
        """What the server wrote."""
        return bytes(self.transport.heard)

    def say(self, data: bytes) -> None:
        """Send this, which the server reads at once."""
        self.protocol.data_received(data)
        self.loop.settle()


@contextmanager
def connected(
    app: RoutedApp, limits: Limits = _DEFAULTS, *, tls: bool = False
) -> Generator[VirtualConnection]:
    """A connection that is lost at the end, if it is not closed before."""
    loop = VirtualLoop()
    with closing(loop), loop.running():
        connection = VirtualConnection(loop, app, limits, tls=tls)
        try:
            yield connection
        finally:
            connection.transport.lose()
            loop.settle()
