"""Requests that come together on one connection: answers in order, whatever each endpoint does."""

import asyncio
import gc
import re

import pytest

from tests.web import PATIENT, RUNTIME, connect, exchange_bytes, read_all, refuse, statuses
from tests.web.virtual import connected
from valetkey.web.connection.exchange import Exchange
from valetkey.web.exchange import Request, Response
from valetkey.web.listen import RunningServer
from valetkey.web.router import Body, Route, RoutedApp


async def _at_once(request: Request) -> Response:
    return Response(200, b"[at once]")


async def _later(request: Request) -> Response:
    await asyncio.sleep(0.02)
    return Response(200, b"[later]")


async def _long(request: Request) -> Response:
    await asyncio.sleep(5)
    return Response(200, b"[long]")


async def _large(request: Request) -> Response:
    return Response(200, b"x" * 100_000)


async def _failing(request: Request) -> Response:
    raise RuntimeError("canary")


async def _cancelled(request: Request) -> Response:
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()
    await waiting
    return Response(200)


async def _limited(request: Request) -> Response:
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
    return Response(200, b"[limited]" + request.body)


def _asked(path: str, *fields: str, body: str = "", method: str = "GET") -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: h.example", *fields)
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def _app() -> RoutedApp:
    routes = (
        Route("/at-once", {"GET": _at_once, "HEAD": _at_once}, refuse),
        Route("/later", {"GET": _later}, refuse),
        Route("/long", {"GET": _long}, refuse),
        Route("/large", {"GET": _large}, refuse),
        Route("/failing", {"GET": _failing}, refuse),
        Route("/cancelled", {"GET": _cancelled}, refuse),
        Route("/limited", {"POST": _limited}, refuse, Body.ANY),
    )
    return RoutedApp(routes, runtime=RUNTIME, refuse=refuse, hosts=("h.example",))


def test_an_answered_request_leaves_nothing_for_the_garbage_collector() -> None:
    gc.collect()
    # Servers of other tests may be running.
    before = [exchange for exchange in gc.get_objects() if type(exchange) is Exchange]
    gc.disable()
    try:
        with RunningServer(_app(), limits=PATIENT) as running:
            requests = _asked("/later") * 3 + _asked("/at-once", "Connection: close")
            answered = exchange_bytes(running.port, requests)
        left = [exchange for exchange in gc.get_objects() if type(exchange) is Exchange]
        left = [exchange for exchange in left if not any(exchange is other for other in before)]
    finally:
        gc.enable()

    assert answered.count(b"200 OK") == 4
    assert not left


def test_pipelined_requests_are_answered_in_order() -> None:
    requests = [
        _asked("/later"),
        _asked("/at-once"),
        _asked("/failing"),
        _asked("/limited", "Content-Length: 2", body="ab", method="POST"),
        _asked("/at-once", method="HEAD"),
        _asked("/nowhere"),
        _asked("/later", "Connection: close"),
    ]
    with RunningServer(_app(), limits=PATIENT) as running:
        for _ in range(2):
            heard = exchange_bytes(running.port, b"".join(requests))
            seen = re.findall(rb"HTTP/1\.1 (\d{3}) |(\[[a-z ]+\](?:ab)?)", heard)
            assert [status or body for status, body in seen] == [
                *(b"200", b"[later]", b"200", b"[at once]", b"500", b"200", b"[limited]ab"),
                *(b"200", b"404", b"200", b"[later]"),
            ]
            assert b"canary" not in heard


def test_cancelled_request_is_answered_with_500() -> None:
    with RunningServer(_app(), limits=PATIENT) as running:
        heard = exchange_bytes(running.port, _asked("/at-once") + _asked("/cancelled"))
        assert re.findall(rb"HTTP/1\.1 (\d{3}) ", heard) == [b"200", b"500"]
        assert b" 200 " in exchange_bytes(running.port, _asked("/later", "Connection: close"))


@pytest.mark.parametrize("first", ["/at-once", "/later"])
@pytest.mark.parametrize("sent_with_header", [0, 1])
def test_body_after_pipelined_header_is_read(first: str, sent_with_header: int) -> None:
    fields = ("Content-Length: 2", "Connection: close")
    header = _asked("/limited", *fields, method="POST") + b"ab"[:sent_with_header]
    with (
        RunningServer(_app(), limits=PATIENT) as running,
        connect(running.port) as connection,
    ):
        connection.sendall(_asked(first) + header)
        assert statuses(connection.recv(65_536)) == [200]
        connection.sendall(b"ab"[sent_with_header:])
        heard = read_all(connection)
    assert statuses(heard) == [200]
    assert heard.endswith(b"[limited]ab")


def test_request_behind_a_failed_one_is_not_answered() -> None:
    with RunningServer(_app(), limits=PATIENT) as running:
        heard = exchange_bytes(running.port, _asked("/cancelled") + _asked("/at-once"))
    assert statuses(heard) == [500]


def test_large_body_arrives_whole() -> None:
    body = "x" * 400_000
    fields = (f"Content-Length: {len(body)}", "Connection: close")
    with connected(_app()) as connection:
        connection.say(_asked("/limited", *fields, body=body, method="POST"))
        assert statuses(connection.heard) == [200]
        assert connection.heard.endswith(b"[limited]" + body.encode())


def test_error_behind_a_request_that_waits_is_answered_last() -> None:
    body = "1000\r\n" + "x" * 4_096 + "\r\nnonsense\r\n"
    bad = _asked("/limited", "Transfer-Encoding: chunked", body=body, method="POST")
    with connected(_app()) as connection:
        connection.transport.press()
        connection.say(_asked("/at-once") + bad)
        connection.transport.release()
        connection.loop.settle()
        assert statuses(connection.heard) == [200, 400]


def test_requests_behind_one_that_was_given_up_are_refused() -> None:
    with connected(_app()) as connection:
        connection.say(_asked("/long") + _asked("/at-once"))
        connection.loop.advance(4.5)
        connection.say(_asked("/limited", "Content-Length: 2", body="ab", method="POST"))
        connection.transport.end()
        connection.loop.advance(1)
        # The client waited for 5 seconds, and was half-closed for the last half of one.
        assert statuses(connection.heard) == [200, 503, 503]
        assert b"\r\nconnection: close\r\n" in connection.heard
        assert connection.transport.closed


@pytest.mark.parametrize("sent", ["", "POST /limited HTTP/1.1\r\nHost: h.example\r\nContent-Le"])
def test_half_closed_client_is_answered_for_a_second(sent: str) -> None:
    with connected(_app()) as connection:
        connection.say(_asked("/later") + _asked("/at-once") * 100 + sent.encode())
        connection.transport.end()
        connection.loop.advance(0.1)
        assert statuses(connection.heard) == [200] * 101
        assert connection.transport.closed


def test_half_closed_client_that_reads_slowly_gets_every_answer() -> None:
    with connected(_app()) as connection:
        connection.transport.stops_at = [100_000 * number for number in range(1, 5)]
        connection.say(_asked("/large") * 4)
        connection.transport.end()
        for _ in range(4):
            assert connection.transport.pressed
            connection.loop.advance(20)
            connection.transport.release()
            connection.loop.settle()
        assert statuses(connection.heard) == [200] * 4
        assert connection.transport.closed


def test_body_that_cannot_come_any_more_is_not_waited_for() -> None:
    with connected(_app()) as connection:
        unfinished = _asked("/limited", "Content-Length: 9000", body="a" * 8_000, method="POST")
        connection.say(_asked("/later") + unfinished)
        connection.transport.end()
        connection.loop.advance(0.1)
        assert statuses(connection.heard) == [200]
        assert connection.transport.closed
