"""Answers that come piece by piece, over real sockets: framing, slow readers, and how they end."""

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.sdk.certificate import self_signed
from tests.support.wait import CEILING
from tests.web import PATIENT, QUICK, RUNTIME, connect, exchange_bytes, refuse
from tests.web.virtual import connected
from valetkey.kernel.replace import replace
from valetkey.web.connection.gate import Limits
from valetkey.web.connection.incoming_request import Message
from valetkey.web.exchange import Request, Response
from valetkey.web.listen import RunningServer
from valetkey.web.router import Route, RoutedApp

HEAD = b"Host: h.example\r\n"
GET = b"GET /three HTTP/1.1\r\n" + HEAD + b"\r\n"
LAST = b"GET /three HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n"

_FOREVER = 10 * CEILING
"""Seconds that no test waits: what ends earlier was ended."""


@dataclass
class Streams:
    """Endpoints that stream, and how many of their streams began and ended."""

    began: int = 0
    ended: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    change: threading.Condition = field(default_factory=threading.Condition)

    def _count(self, *, began: int = 0, ended: int = 0) -> None:
        with self.change:
            self.began += began
            self.ended += ended
            self.change.notify_all()

    def all_end(self) -> bool:
        with self.change:
            return self.change.wait_for(lambda: 0 < self.began == self.ended, CEILING)

    def one_begins(self) -> bool:
        with self.change:
            return self.change.wait_for(lambda: self.began > self.ended, CEILING)

    async def _three(self) -> AsyncGenerator[bytes]:
        for piece in (b"one ", b"", b"two ", b"three"):
            await asyncio.sleep(0)
            yield piece

    async def _endless(self, piece: bytes, pause: float) -> AsyncGenerator[bytes]:
        self._count(began=1)
        try:
            while True:
                yield piece
                await asyncio.sleep(pause)
        finally:
            self._count(ended=1)

    async def _failing(self) -> AsyncGenerator[bytes]:
        yield b"begun"
        raise RuntimeError("canary")

    async def _stubborn(self) -> AsyncGenerator[bytes]:
        self._count(began=1)
        yield b"first"
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(_FOREVER)
        self._count(ended=1)
        yield b"last words"

    async def stubborn(self, _: Request) -> Response:
        return Response(200, stream=self._stubborn())

    async def three(self, _: Request) -> Response:
        return Response(200, b"zero ", stream=self._three())

    async def waiting(self, _: Request) -> Response:
        return Response(200, stream=self._endless(b"first", _FOREVER))

    async def flood(self, _: Request) -> Response:
        return Response(200, stream=self._endless(b"x" * 65_536, 0))

    async def failing(self, _: Request) -> Response:
        return Response(200, stream=self._failing())

    async def late(self, _: Request) -> Response:
        self.asked.set()
        await asyncio.sleep(0.5)
        return Response(200, stream=self._endless(b"first", _FOREVER))

    def app(self) -> RoutedApp:
        endpoints = {
            "/late": self.late,
            "/stubborn": self.stubborn,
            "/three": self.three,
            "/waiting": self.waiting,
            "/flood": self.flood,
            "/failing": self.failing,
        }
        routes = [
            Route(path, {"GET": endpoint, "HEAD": endpoint}, refuse)
            for path, endpoint in endpoints.items()
        ]
        return RoutedApp(routes, runtime=RUNTIME, refuse=refuse, hosts=("h.example",))


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture
def server(streams: Streams) -> Iterator[RunningServer]:
    with RunningServer(streams.app(), limits=PATIENT) as running:
        yield running


def opened(server: RunningServer, path: str) -> socket.socket:
    """A connection on which this was asked; nothing, if it is empty."""
    connection = connect(server.port)
    if path:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: h.example\r\n\r\n".encode())
    return connection


def test_stream_is_chunked_and_the_connection_is_kept(server: RunningServer) -> None:
    heard = exchange_bytes(server.port, GET + LAST)
    head, _, rest = heard.partition(b"\r\n\r\n")
    assert b"\r\ntransfer-encoding: chunked" in head
    assert b"content-length" not in head
    first, _, second = rest.partition(b"0\r\n\r\n")
    assert first == b"5\r\nzero \r\n4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n"
    assert second.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close" in second
    assert second.endswith(b"0\r\n\r\n")


def test_http_1_0_client_gets_a_stream_without_chunks(server: RunningServer) -> None:
    heard = exchange_bytes(server.port, b"GET /three HTTP/1.0\r\n" + HEAD + b"\r\n")
    head, _, body = heard.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert body == b"zero one two three"


def test_head_request_starts_no_stream(server: RunningServer, streams: Streams) -> None:
    request = b"HEAD /waiting HTTP/1.1\r\n" + HEAD + b"\r\n"
    heard = exchange_bytes(server.port, request + LAST)
    assert len(re.findall(rb"HTTP/1.1 200 OK", heard)) == 2
    assert b"first" not in heard
    assert streams.began == 0


def test_each_piece_of_a_stream_is_sent_at_once(server: RunningServer) -> None:
    with opened(server, "/waiting") as connection:
        heard = b""
        while b"first" not in heard:
            heard += connection.recv(4_096)


def test_the_stream_ends_at_once_when_the_client_goes(
    server: RunningServer, streams: Streams
) -> None:
    with opened(server, "/waiting") as connection:
        connection.recv(4_096)
        assert streams.one_begins()
    assert streams.all_end()


def test_half_closed_connection_ends_its_stream(server: RunningServer, streams: Streams) -> None:
    with opened(server, "/waiting") as connection:
        assert streams.one_begins()
        connection.shutdown(socket.SHUT_WR)
        assert streams.all_end()


def test_client_that_half_closed_before_still_receives_the_stream(streams: Streams) -> None:
    with connected(streams.app()) as connection:
        connection.say(b"GET /late HTTP/1.1\r\n" + HEAD + b"\r\n")
        connection.transport.end()
        connection.loop.advance(1)
        assert b"\r\nconnection: close\r\n" in connection.heard
        assert b"first" in connection.heard


def test_stream_that_ignores_the_disconnect_is_discarded(
    server: RunningServer, streams: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(server, "/stubborn") as connection:
        connection.recv(4_096)
        assert streams.one_begins()
    assert streams.all_end()
    assert exchange_bytes(server.port, LAST).endswith(b"0\r\n\r\n")
    assert "failed" not in capsys.readouterr().err


@pytest.mark.parametrize("leaves", [True, False])
def test_stream_begins_only_for_client_that_is_still_there(
    streams: Streams, capsys: pytest.CaptureFixture[str], *, leaves: bool
) -> None:
    with connected(streams.app()) as connection:
        connection.say(b"GET /late HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert streams.asked.is_set()
        if leaves:
            connection.transport.lose()
        connection.loop.advance(1)
    assert streams.began == streams.ended == int(not leaves)
    assert "failed" not in capsys.readouterr().err


def test_stopping_server_begins_no_stream(
    streams: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    with connected(streams.app()) as connection:
        connection.say(b"GET /late HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert streams.asked.is_set()
        connection.protocol.shutdown()
        assert not connection.transport.is_closing()
        connection.loop.advance(1)
        assert connection.transport.closed
        assert connection.heard == b""
    assert streams.began == 0
    assert "failed" not in capsys.readouterr().err


def test_a_client_that_does_not_read_is_not_written_into_memory(streams: Streams) -> None:
    limits = replace(PATIENT, write=QUICK.write)
    with RunningServer(streams.app(), limits=limits) as server, opened(server, "/flood"):
        assert streams.one_begins()
        assert streams.all_end()


def test_slow_reader_keeps_its_stream_until_it_stops_reading(streams: Streams) -> None:
    limit = Limits().write
    with connected(streams.app()) as connection:
        connection.transport.stops_at = [100_000 * n for n in range(1, 12)]
        connection.say(b"GET /flood HTTP/1.1\r\n" + HEAD + b"\r\n")
        for _ in range(10):
            assert connection.transport.pressed
            connection.loop.advance(0.9 * limit)
            assert streams.ended == 0
            connection.transport.release()
            connection.loop.settle()
        connection.loop.advance(limit + 1)
        assert connection.transport.closed
    assert streams.ended == 1


def test_a_quiet_stream_outlives_every_deadline(streams: Streams) -> None:
    limits = Limits()
    with connected(streams.app()) as connection:
        connection.say(b"GET /waiting HTTP/1.1\r\n" + HEAD + b"\r\n")
        connection.loop.advance(2 * max(limits.idle, limits.write, limits.body))
        assert (streams.began, streams.ended) == (1, 0)


def test_a_stream_that_fails_does_not_look_complete(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = exchange_bytes(server.port, b"GET /failing HTTP/1.1\r\n" + HEAD + b"\r\n")
    assert heard.endswith(b"5\r\nbegun\r\n")
    output = capsys.readouterr().err
    assert "application.failed" in output
    assert "canary" not in output


def test_a_server_that_stops_does_not_wait_for_streams(streams: Streams) -> None:
    with connected(streams.app()) as waiting:
        waiting.say(b"GET /waiting HTTP/1.1\r\n" + HEAD + b"\r\n")
        waiting.protocol.shutdown()
        waiting.loop.settle()
        assert waiting.transport.closed
        assert (streams.began, streams.ended) == (1, 1)
    with RunningServer(streams.app(), limits=PATIENT) as running:
        connection = opened(running, "/waiting")
        connection.recv(4_096)
        assert streams.one_begins()
    assert streams.began == streams.ended
    with connection:
        heard = connection.recv(4_096)
        while more := connection.recv(4_096):
            heard += more
    assert not heard.endswith(b"0\r\n\r\n")


def test_stream_over_tls_is_complete(streams: Streams, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate))
    with RunningServer(
        streams.app(),
        limits=replace(PATIENT, write=QUICK.write),
        tls_certificate=certificate,
        tls_key=key,
    ) as server:
        with trust.wrap_socket(opened(server, ""), server_hostname="127.0.0.1") as connection:
            connection.sendall(GET + LAST)
            heard = b""
            while more := connection.recv(65_536):
                heard += more
            assert heard.count(b"5\r\nthree\r\n0\r\n\r\n") == 2
        with trust.wrap_socket(opened(server, ""), server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET /flood HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert streams.one_begins()
            assert streams.all_end()
        with trust.wrap_socket(opened(server, ""), server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET /waiting HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert streams.one_begins()
        assert streams.all_end()


def test_in_memory_the_pieces_come_in_order() -> None:
    streams = Streams()
    sent: list[object] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = _scope(b"/three")
    asyncio.run(streams.app()(scope, receive, send))
    start, *pieces = sent
    assert isinstance(start, dict)
    assert b"content-length" not in dict(start["headers"])
    bodies = [(p["body"], p.get("more_body", False)) for p in pieces if isinstance(p, dict)]
    assert b"".join(body for body, _ in bodies) == b"zero one two three"
    assert [more for _, more in bodies] == [True] * 5 + [False]


def test_in_memory_the_answer_ends_when_the_client_is_gone() -> None:
    streams = Streams()
    messages = ["http.request", "http.disconnect"]

    async def receive() -> Message:
        return {"type": messages.pop(0)}

    async def send(message: Message) -> None:
        """A server that takes what is sent to nobody."""

    asyncio.run(streams.app()(_scope(b"/flood"), receive, send))
    assert streams.began == streams.ended


def _scope(path: bytes) -> Message:
    return {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "raw_path": path,
        "query_string": b"",
        "headers": [(b"host", b"h.example")],
        "client": None,
    }
