"""A load of requests over kept connections; each answer is read whole and checked."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

_SEPARATOR = b"\r\n\r\n"
_REST = 1.0
_SHOWN = 200
"""How many bytes of a wrong answer are shown."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    status: int
    head: bytes
    body: bytes

    def check(self, status: int = 200, expected: bytes = b"") -> "Reply":
        """Return it; raise AssertionError unless it has this status and this in its body."""
        if self.status != status or expected not in self.body:
            raise AssertionError(f"status {self.status}, body {self.body[:_SHOWN]!r}")
        return self


class WorkloadError(AssertionError):
    """A worker failed: the message has what it did, and the status and the body it was sent."""


class Finished(Exception):
    """Raised by a worker that has no more to do."""


class Connection(asyncio.Protocol):
    """One kept connection: a request, its answer, the next request."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self._buffer = b""
        self._waiting: asyncio.Future[Reply] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to the server."""
        # uvloop has transports of its own kind.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Collect until the answer is whole."""
        self._buffer += data
        head, separator, rest = self._buffer.partition(_SEPARATOR)
        if not separator:
            return
        whole = _body(head.lower(), rest)
        if whole is None or self._waiting is None:
            return
        body, self._buffer = whole
        if not self._waiting.done():
            self._waiting.set_result(Reply(int(head[9:12]), head, body))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the server closed the connection"))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._transport is None or self._transport.is_closing()

    async def ask(self, request: bytes) -> Reply:
        """Send it, and wait for the answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        except asyncio.CancelledError:
            # The answer that is still on its way must not be taken for that of the next request.
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


def _body(head: bytes, rest: bytes) -> tuple[bytes, bytes] | None:
    """The body, and what came after it; None while it is not whole."""
    if b"\r\ntransfer-encoding: chunked" in head:
        return _chunks(rest)
    length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
    return (rest[:length], rest[length:]) if len(rest) >= length else None


def _chunks(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        size, line_end, rest = rest.partition(b"\r\n")
        length = int(size, 16) if line_end else 0
        if not line_end or len(rest) < length + 2:
            return None
        body, rest = body + rest[:length], rest[length + 2 :]
        if length == 0:
            return body, rest


class Line:
    """A connection that is made again where the server closed it, as servers do with idle ones."""

    def __init__(self, host: str, port: int) -> None:
        """To this server; connected at the first question."""
        self._place = (host, port)
        self._connection: Connection | None = None
        self._used = 0.0

    async def ask(self, request: bytes) -> Reply:
        """Send it, and wait for the answer."""
        if self._connection is None or self._connection.is_closed:
            self._connection = await connect(*self._place)
        rested = time.monotonic() - self._used > _REST
        try:
            return await self._connection.ask(request)
        except ConnectionError:
            # It was closed for its idleness while the question was on its way.
            if not rested:
                raise
            self._connection = await connect(*self._place)
            return await self._connection.ask(request)
        finally:
            self._used = time.monotonic()

    def close(self) -> None:
        """Hang up, if it ever asked."""
        if self._connection is not None:
            self._connection.close()


async def connect(host: str, port: int) -> Connection:
    """A new connection."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host, port)
    return connection


@dataclass(frozen=True, slots=True)
class Measured:
    """How one workload went."""

    operations: int
    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Operations in a second of the clock on the wall."""
        return self.operations / self.seconds

    def latency(self, share: float) -> float:
        """What this share of the operations stayed below, in milliseconds."""
        ordered = sorted(self.latencies)
        return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Worker:
    """One caller of a workload: `step` does the whole operation once."""

    async def step(self) -> None:
        """Do it once, and raise AssertionError unless every answer was right."""
        raise NotImplementedError


async def measure(workers: Sequence[Worker], seconds: float, what: str = "") -> Measured:
    """Let all of them work side by side, each beginning again as soon as it is done.

    The first that fails ends it: the others are cancelled, and WorkloadError is raised with `what`,
    the server and its workload.
    """
    latencies: list[float] = []
    clock: Callable[[], float] = time.perf_counter
    began = clock()
    end = began + seconds

    async def go_on(worker: Worker) -> None:
        while clock() < end:
            start = clock()
            try:
                await worker.step()
            except Finished:
                return
            latencies.append(clock() - start)

    working = [asyncio.ensure_future(go_on(worker)) for worker in workers]
    try:
        await asyncio.gather(*working)
    except Exception as error:
        reason = str(error) if isinstance(error, AssertionError) else repr(error)
        raise WorkloadError(f"{what or 'a worker'}: {reason}") from error
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    return Measured(len(latencies), clock() - began, latencies)
