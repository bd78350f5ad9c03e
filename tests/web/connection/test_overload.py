"""More requests than there is time for: those beyond the limit are told at once to come again."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from ipaddress import ip_network

import pytest

from tests.support.wait import wait_until
from tests.web import PATIENT, RUNTIME, connect, read_all, refuse, statuses
from tests.web.virtual import connected
from valetkey.kernel.replace import replace
from valetkey.web.client_address import Network
from valetkey.web.connection.gate import Limits
from valetkey.web.exchange import Request, Response
from valetkey.web.listen import RunningServer
from valetkey.web.router import Body, Route, RoutedApp

AT_WORK = 2


class Slow:
    """An application whose answers wait until they are let go."""

    def __init__(self) -> None:
        self.waiting = 0
        self.free = False

    async def wait(self, request: Request) -> Response:
        self.waiting += 1
        while not self.free:  # noqa: ASYNC110 - another thread lets go
            await asyncio.sleep(0.005)
        return Response(200, b"done")

    async def at_once(self, request: Request) -> Response:
        return Response(200, b"alive")

    async def stream(self, request: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes]:
            yield b"one"
            while not self.free:  # noqa: ASYNC110 - another thread lets go
                await asyncio.sleep(0.005)

        return Response(200, b"", stream=pieces())

    def app(self, *trusted: Network) -> RoutedApp:
        routes = (
            Route("/slow", {"GET": self.wait, "HEAD": self.wait}, refuse),
            Route("/form", {"POST": self.wait}, refuse, Body.FORM),
            Route("/stream", {"GET": self.stream}, refuse),
            Route("/fast", {"GET": self.at_once}, refuse),
            Route("/health/live", {"GET": self.at_once}, refuse, quiet=True),
        )
        return RoutedApp(
            routes,
            runtime=RUNTIME,
            refuse=refuse,
            hosts=("h.example",),
            trusted_proxies=trusted,
        )


@contextmanager
def served(*trusted: Network) -> Generator[tuple[Slow, int]]:
    slow = Slow()
    with RunningServer(
        slow.app(*trusted),
        limits=replace(PATIENT, requests=AT_WORK),
    ) as running:
        try:
            yield slow, running.port
        finally:
            slow.free = True


def asks(port: int, line: str, fields: str = "", body: str = "") -> socket.socket:
    """A connection on which this was asked."""
    connection = connect(port)
    connection.sendall(f"{line} HTTP/1.1\r\nHost: h.example\r\n{fields}\r\n{body}".encode())
    return connection


def full(slow: Slow, port: int) -> list[socket.socket]:
    """As many requests as there is time for, all at work."""
    busy = [asks(port, "GET /slow") for _ in range(AT_WORK)]
    wait_until(lambda: slow.waiting == AT_WORK)
    return busy


def hears(connection: socket.socket) -> bytes:
    """One answer that is there already."""
    heard = connection.recv(65_536)
    while b"\r\n\r\n" not in heard:
        heard += connection.recv(65_536)
    return heard


def test_request_over_the_limit_gets_503_and_keeps_its_connection() -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        late = asks(port, "GET /fast")
        heard = hears(late)
        assert statuses(heard) == [503]
        assert b"retry-after: 1\r\n" in heard
        assert b'"error":"temporarily_unavailable"' in heard
        assert b"content-security-policy" in heard

        slow.free = True
        for connection in busy:
            assert statuses(hears(connection)) == [200]
        late.sendall(b"GET /fast HTTP/1.1\r\nHost: h.example\r\n\r\n")
        assert statuses(hears(late)) == [200]
        for connection in (*busy, late):
            connection.close()


def test_refused_form_is_read_whole_and_its_connection_is_kept() -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        fields = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n"
        late = asks(port, "POST /form", fields, "a=b")
        assert statuses(hears(late)) == [503]
        late.sendall(b"GET /health/live HTTP/1.1\r\nHost: h.example\r\n\r\n")
        assert statuses(hears(late)) == [200]
        for connection in (*busy, late):
            connection.close()


def test_liveness_check_is_answered_under_overload() -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        for _ in range(5):
            with asks(port, "GET /health/live", "Connection: close\r\n") as connection:
                assert statuses(read_all(connection)) == [200]
        for connection in busy:
            connection.close()


def test_refused_head_request_is_answered_without_a_body() -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        with asks(port, "HEAD /slow", "Connection: close\r\n") as connection:
            heard = read_all(connection)
        assert heard.startswith(b"HTTP/1.1 503 ")
        assert heard.endswith(b"\r\n\r\n")
        for connection in busy:
            connection.close()


def test_slow_sender_occupies_no_slot() -> None:
    with served() as (_, port):
        fields = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 300\r\n"
        fields += "Expect: 100-continue\r\n"
        slow_ones = [asks(port, "POST /form", fields) for _ in range(5 * AT_WORK)]
        for connection in slow_ones:
            assert statuses(hears(connection)) == [100]
            connection.sendall(b"a=")
        with asks(port, "GET /fast", "Connection: close\r\n") as connection:
            assert statuses(read_all(connection)) == [200]
        for connection in slow_ones:
            connection.close()


def test_requests_whose_bodies_come_late_are_counted_and_refused() -> None:
    fields = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n"
    with served() as (slow, port):
        busy = [asks(port, "POST /form", fields) for _ in range(AT_WORK)]
        late = asks(port, "POST /form", fields)
        for connection in busy:
            connection.sendall(b"a=b")
        wait_until(lambda: slow.waiting == AT_WORK)
        late.sendall(b"a=b")
        assert statuses(hears(late)) == [503]
        assert slow.waiting == AT_WORK
        slow.free = True
        for connection in busy:
            assert statuses(hears(connection)) == [200]
        late.sendall(FAST)
        assert statuses(hears(late)) == [200]
        for connection in (*busy, late):
            connection.close()


def test_running_stream_occupies_no_slot() -> None:
    with served() as (_, port):
        streams = [asks(port, "GET /stream") for _ in range(5 * AT_WORK)]
        for connection in streams:
            assert statuses(hears(connection)) == [200]
        with asks(port, "GET /fast", "Connection: close\r\n") as connection:
            assert statuses(read_all(connection)) == [200]
        for connection in streams:
            connection.close()


def test_slot_of_a_disconnected_client_is_freed_when_the_work_is_done() -> None:
    with served() as (slow, port):
        for connection in full(slow, port):
            connection.close()
        slow.free = True

        def is_answered() -> bool:
            with asks(port, "GET /fast", "Connection: close\r\n") as connection:
                return statuses(read_all(connection)) == [200]

        wait_until(is_answered)


@pytest.mark.parametrize("count", [50])
def test_a_pipeline_beyond_the_limit_is_answered_in_order(count: int) -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        pipeline = b"GET /fast HTTP/1.1\r\nHost: h.example\r\n\r\n" * count
        with connect(port) as connection:
            connection.sendall(pipeline + b"GET /fast HTTP/1.0\r\nHost: h.example\r\n\r\n")
            assert statuses(read_all(connection)) == [503] * (count + 1)
        for client in busy:
            client.close()


def test_a_pipeline_of_thousands_beyond_the_limit_is_answered_as_well() -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        pipeline = b"GET /fast HTTP/1.1\r\nHost: h.example\r\n\r\n" * 3_000
        with connect(port) as connection:
            connection.sendall(pipeline + b"GET /fast HTTP/1.0\r\nHost: h.example\r\n\r\n")
            assert statuses(read_all(connection)) == [503] * 3_001
        for client in busy:
            client.close()


NO_ROOM = Limits(requests=0)
FAST = b"GET /fast HTTP/1.1\r\nHost: h.example\r\n\r\n"


def test_client_that_retries_too_early_is_delayed_from_the_third_answer() -> None:
    with connected(Slow().app(), NO_ROOM) as hasty:
        hasty.say(FAST)
        is_read = [hasty.transport.reading]
        hasty.say(FAST)
        assert statuses(hasty.heard) == [503] * 2
        for seconds in (0.9, 0.2):
            hasty.loop.advance(seconds)
            is_read.append(hasty.transport.reading)
        assert is_read == [True, False, True]


def test_client_that_waits_before_each_retry_is_not_delayed() -> None:
    with connected(Slow().app(), NO_ROOM) as patient:
        for count in range(1, 4):
            patient.say(FAST)
            assert statuses(patient.heard) == [503] * count
            assert patient.transport.reading
            patient.loop.advance(0.7)


def test_proxy_is_not_delayed_because_of_its_clients() -> None:
    with connected(Slow().app(ip_network("192.0.2.0/24")), NO_ROOM) as proxy:
        for count in range(1, 7):
            proxy.say(FAST)
            assert statuses(proxy.heard) == [503] * count
            assert proxy.transport.reading
        proxy.say(FAST.replace(b"/fast", b"/health/live"))
        assert statuses(proxy.heard)[-1] == 200


def test_stopping_server_does_not_wait_for_delayed_clients() -> None:
    with served() as (slow, port):
        busy = full(slow, port)
        hasty = asks(port, "GET /fast")
        assert statuses(hears(hasty)) == [503]
        hasty.sendall(FAST)
        assert statuses(hears(hasty)) == [503]
        slow.free = True
    for client in (*busy, hasty):
        client.close()
