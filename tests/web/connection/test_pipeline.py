"""Requests that come together on one connection: answers in order, whatever each endpoint does."""

import asyncio
import re

import pytest

from tests.web import PATIENT, RUNTIME, connect, exchange_bytes, read_all, refuse, statuses
from tests.web.virtual import connected
from valetkey.web.exchange import Request, Response
from valetkey.web.listen import RunningServer
from valetkey.web.router import App, Body, Route


async def _at_once(request: Request) -> Response:
    return Response(200, b"[at once]")


async def _later(request: Request) -> Response:
    await asyncio.sleep(0.02)
    return Response(200, b"[later]")


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


def _app() -> App:
    routes = (
        Route("/at-once", {"GET": _at_once, "HEAD": _at_once}, refuse),
        Route("/later", {"GET": _later}, refuse),
        Route("/failing", {"GET": _failing}, refuse),
        Route("/cancelled", {"GET": _cancelled}, refuse),
        Route("/limited", {"POST": _limited}, refuse, Body.ANY),
    )
    return App(routes, runtime=RUNTIME, refuse=refuse, hosts=("h.example",))


def test_each_is_answered_in_its_turn() -> None:
    asked = [
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
            heard = exchange_bytes(running.port, b"".join(asked))
            seen = re.findall(rb"HTTP/1\.1 (\d{3}) |(\[[a-z ]+\](?:ab)?)", heard)
            assert [status or body for status, body in seen] == [
                *(b"200", b"[later]", b"200", b"[at once]", b"500", b"200", b"[limited]ab"),
                *(b"200", b"404", b"200", b"[later]"),
            ]
            assert b"canary" not in heard


def test_one_that_is_cancelled_is_answered_for() -> None:
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
