"""Slow clients, smuggled requests, floods, pipelines: real sockets, deadlines in virtual time."""

import io
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.wait import CEILING, until, wait_until
from tests.web import (
    PATIENT,
    RUNTIME,
    SECURITY,
    connect,
    exchange_bytes,
    read_all,
    refuse,
    small_app,
    statuses,
)
from tests.web.virtual import connected
from valetkey.web import log
from valetkey.web.connection.gate import Limits
from valetkey.web.connection.incoming_request import IncomingRequest
from valetkey.web.exchange import Request, Response
from valetkey.web.listen import RunningServer
from valetkey.web.router import Body, Route, RoutedApp

HEAD = b"Host: h.example\r\n"
LAST = HEAD + b"Connection: close\r\n"
GET = b"GET /none HTTP/1.1\r\n" + HEAD + b"\r\n"
GET_LAST = b"GET /none HTTP/1.1\r\n" + LAST + b"\r\n"


def post(body: bytes, *headers: bytes, path: bytes = b"/echo") -> bytes:
    """A request that closes the connection."""
    fields = b"".join(header + b"\r\n" for header in headers)
    return b"POST " + path + b" HTTP/1.1\r\n" + LAST + fields + b"\r\n" + body


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(small_app(), limits=PATIENT) as running:
        yield running


@pytest.fixture
def port(server: RunningServer) -> int:
    return server.port


def seen(heard: bytes) -> dict[str, object]:
    """What the endpoint saw, out of one answer of 200."""
    assert statuses(heard) == [200], heard
    request = json.loads(heard.partition(b"\r\n\r\n")[2])
    assert isinstance(request, dict)
    return request


def test_a_request_is_answered(port: int) -> None:
    request = seen(exchange_bytes(port, post(b"hello", b"Content-Length: 5")))
    assert request["body"] == "hello"
    assert request["address"] == "127.0.0.1"


def test_one_connection_takes_many_requests(port: int) -> None:
    with connect(port) as connection:
        for _ in range(3):
            connection.sendall(GET)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
        connection.sendall(GET_LAST)
        assert statuses(read_all(connection)) == [200]


def test_a_request_may_come_byte_by_byte(port: int) -> None:
    request = post(b"5\r\nhello\r\n0\r\n\r\n", b"Transfer-Encoding: chunked")
    parts = [request[n : n + 1] for n in range(len(request))]
    assert seen(exchange_bytes(port, *parts))["body"] == "hello"


def test_trailers_are_discarded(port: int) -> None:
    body = b"5;a=b\r\nhello\r\n0\r\nHost: evil.test\r\n\r\n"
    assert seen(exchange_bytes(port, post(body, b"Transfer-Encoding: chunked")))["body"] == "hello"


def test_expect_100_continue_is_answered_before_the_body(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(post(b"", b"Content-Length: 5", b"Expect: 100-continue"))
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hello")
        assert seen(read_all(connection))["body"] == "hello"


def test_unwanted_body_is_not_requested(port: int) -> None:
    request = post(b"", b"Content-Length: 5", b"Expect: 100-continue", path=b"/nowhere")
    assert statuses(exchange_bytes(port, request)) == [404]


def test_half_closed_client_still_receives_the_answer(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(GET)
        connection.shutdown(socket.SHUT_WR)
        assert statuses(read_all(connection)) == [200]


def test_http_1_0_is_answered_and_closed(port: int) -> None:
    heard = exchange_bytes(
        port, b"GET /none HTTP/1.0\r\nHost: h.example\r\nConnection: keep-alive\r\n\r\n"
    )
    assert statuses(heard) == [200]
    assert b"\r\nconnection: close\r\n" in heard


def test_an_upgrade_is_not_made(port: int) -> None:
    upgrade = b"Host: h.example\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    heard = exchange_bytes(port, b"GET /none HTTP/1.1\r\n" + upgrade + b"\r\n")
    assert statuses(heard) == [200]
    body = b"Content-Length: 5\r\n\r\nhello"
    assert statuses(exchange_bytes(port, b"POST /echo HTTP/1.1\r\n" + upgrade + body)) == [400]


ODD = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"GET /none\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.2": b"GET /none HTTP/1.2\r\n" + HEAD + b"\r\n",
    "HTTP/2.0": b"GET /none HTTP/2.0\r\n" + HEAD + b"\r\n",
    "bare LF": GET.replace(b"\r\n", b"\n"),
    "one bare LF": b"GET /none HTTP/1.1\r\nHost: h.example\nX: y\r\n\r\n",
    "bare CR": b"GET /none HTTP/1.1\r\nHost: h.example\rX: y\r\n\r\n",
    "obs-fold": b"GET /none HTTP/1.1\r\n" + HEAD + b"X: a\r\n b\r\n\r\n",
    "space before colon": b"GET /none HTTP/1.1\r\nHost : h.example\r\n\r\n",
    "NUL in a header": b"GET /none HTTP/1.1\r\n" + HEAD + b"X: a\x00b\r\n\r\n",
    "no name": b"GET /none HTTP/1.1\r\n" + HEAD + b": a\r\n\r\n",
    "no Host": b"GET /none HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /none HTTP/1.1\r\n" + HEAD + LAST + b"\r\n",
    "absolute target": b"GET http://h.example/none HTTP/1.1\r\n" + HEAD + b"\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n",
    "authority": b"CONNECT h.example:443 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "backslash": b"GET /a\\b HTTP/1.1\r\n" + HEAD + b"\r\n",
    "NUL in the target": b"GET /\x00 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "raw UTF-8 in the target": "GET /ü HTTP/1.1\r\n".encode() + HEAD + b"\r\n",
    "unknown method": b"FETCH /none HTTP/1.1\r\n" + HEAD + b"\r\n",
    "lower case method": b"get /none HTTP/1.1\r\n" + HEAD + b"\r\n",
    "negative length": post(b"hello", b"Content-Length: -5"),
    "signed length": post(b"hello", b"Content-Length: +5"),
    "hexadecimal length": post(b"hello", b"Content-Length: 0x5"),
    "empty length": post(b"hello", b"Content-Length:"),
    "huge length": post(b"hello", b"Content-Length: " + b"9" * 40),
    "list of lengths": post(b"hello", b"Content-Length: 5, 5"),
    "two lengths": post(b"hello", b"Content-Length: 5", b"Content-Length: 6"),
    "the same length twice": post(b"hello", b"Content-Length: 5", b"Content-Length: 5"),
    "length and chunks": post(b"0\r\n\r\n", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "chunks and length": post(b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Content-Length: 5"),
    "compressed chunks": post(b"0\r\n\r\n", b"Transfer-Encoding: gzip, chunked"),
    "unknown coding": post(b"hello", b"Transfer-Encoding: xchunked"),
    "two codings": post(b"0\r\n\r\n", b"Transfer-Encoding: x", b"Transfer-Encoding: chunked"),
    "no coding": post(b"hello", b"Transfer-Encoding: identity"),
    "chunks twice": post(b"0\r\n\r\n", b"Transfer-Encoding: chunked, chunked"),
    "chunk of no size": post(b"\r\nhello\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "chunk too long": post(b"5\r\nhelloXX\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "chunk of signed size": post(b"+5\r\nhello\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "chunk with bare LF": post(b"5\nhello\n0\n\n", b"Transfer-Encoding: chunked"),
}


@pytest.mark.parametrize("request_", ODD.values(), ids=ODD)
def test_malformed_request_is_refused(port: int, request_: bytes) -> None:
    heard = exchange_bytes(port, request_)
    assert statuses(heard) == [400]
    head, _, body = heard.partition(b"\r\n\r\n")
    names = {line.partition(b":")[0].decode() for line in head.split(b"\r\n")[1:]}
    assert names >= SECURITY
    assert "server" not in names
    assert json.loads(body)["error"] == "invalid_request"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"".join(b"X-%d: y\r\n" % n for n in range(100)), id="101 fields"),
        pytest.param(b"X: " + b"y" * 65_536 + b"\r\n", id="one of 64 KiB"),
        pytest.param(b"X: " + b"y" * 40_000, id="never ending"),
        pytest.param((b"X: " + b"y" * 4_000 + b"\r\n") * 10, id="ten of 4 KiB"),
        pytest.param(b"Y" * 40_000, id="never ending name"),
    ],
)
def test_too_much_header_is_refused(port: int, head: bytes) -> None:
    heard = exchange_bytes(port, b"GET /none HTTP/1.1\r\n" + HEAD + head, b"\r\n")
    assert statuses(heard) == [431]
    assert b"request_header_fields_too_large" in heard


def test_a_hundred_fields_are_read(port: int) -> None:
    head = b"".join(b"X-%d: y\r\n" % n for n in range(98))
    assert statuses(exchange_bytes(port, b"GET /none HTTP/1.1\r\n" + LAST + head + b"\r\n")) == [
        200
    ]


@pytest.mark.parametrize("target", [b"/" + b"a" * 9_216, b"/token?code=" + b"a" * 9_216])
def test_a_target_of_nine_kibibytes_is_too_long(port: int, target: bytes) -> None:
    heard = exchange_bytes(port, b"POST " + target + b" HTTP/1.1\r\n" + HEAD + b"\r\n")
    assert statuses(heard) == [414]


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(port: int) -> None:
    request = post(b"x" * 500_000, b"Content-Length: 900000000")
    heard = exchange_bytes(port, request)
    assert statuses(heard) == [413]
    assert b"content_too_large" in heard


def test_a_body_without_end_is_stopped(port: int) -> None:
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    request = post(b"", b"Transfer-Encoding: chunked")
    assert statuses(exchange_bytes(port, request, *[chunk] * 17)) == [413]


def test_a_pipeline_is_answered_in_order(port: int) -> None:
    requests = [
        b"GET /echo?%d HTTP/1.1\r\n" % n + (LAST if n == 99 else HEAD) + b"\r\n" for n in range(100)
    ]
    heard = exchange_bytes(port, b"".join(requests))
    assert statuses(heard) == [200] * 100
    assert re.findall(rb'"query":"(\d+)"', heard) == [b"%d" % n for n in range(100)]


def test_a_pipeline_of_bodies_keeps_them_apart(port: int) -> None:
    requests = [
        b"POST /echo HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\n\r\n%02d" % n for n in range(40)
    ]
    heard = exchange_bytes(port, b"".join(requests) + GET_LAST)
    assert re.findall(rb'"body":"(\d+)"', heard) == [b"%02d" % n for n in range(40)]


def test_pipeline_is_answered_up_to_the_first_malformed_request(port: int) -> None:
    heard = exchange_bytes(port, GET * 3 + b"NONSENSE\r\n\r\n" + GET * 3)
    assert statuses(heard) == [200, 200, 200, 400]


def test_a_pipeline_that_begins_with_nonsense_is_not_answered(port: int) -> None:
    assert statuses(exchange_bytes(port, b"NONSENSE\r\n\r\n" + GET * 99)) == [400]


def test_malformed_body_does_not_affect_the_request_before(port: int) -> None:
    bad = b"POST /echo HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"
    assert statuses(exchange_bytes(port, GET + bad)) == [200, 400]


def test_disconnected_clients_do_not_affect_the_server() -> None:
    arrival, left, ended = threading.Event(), threading.Event(), threading.Event()

    async def slow(request: Request) -> Response:
        arrival.set()
        await until(left.is_set)
        ended.set()
        return Response(200)

    app = small_app([Route("/slow", {"POST": slow}, refuse, Body.ANY)])
    with RunningServer(app, limits=PATIENT) as running:
        for sent in (b"", b"GET", post(b"", path=b"/slow"), post(b"x", b"Content-Length: 2")):
            socket.create_connection(("127.0.0.1", running.port)).close()
            with socket.create_connection(
                ("127.0.0.1", running.port), timeout=CEILING
            ) as connection:
                connection.sendall(sent)
                # Half a request, or one that is being answered, ends with a reset.
                linger = struct.pack("ii", 1, 0)
                assert b"/slow" not in sent or arrival.wait(CEILING)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        left.set()
        assert ended.wait(CEILING)
        assert statuses(exchange_bytes(running.port, GET_LAST)) == [404]


def test_unexpected_exception_of_the_application_is_answered_with_500() -> None:
    class Broken(RoutedApp):
        async def answer(self, incoming: IncomingRequest) -> None:
            raise RuntimeError("canary")

    app = Broken((), runtime=RUNTIME, refuse=refuse, hosts=())
    stream = io.StringIO()
    log.set_up("debug", "json", stream)
    with RunningServer(app, limits=PATIENT) as running:
        heard = exchange_bytes(running.port, GET)
    log.set_up("warning", "json")
    assert statuses(heard) == [500]
    assert "canary" not in heard.decode() + stream.getvalue()
    assert "application.failed" in stream.getvalue()


def test_request_after_connection_close_is_not_answered(port: int) -> None:
    assert statuses(exchange_bytes(port, GET_LAST + GET)) == [200]


def test_body_that_contains_a_request_is_not_executed(port: int) -> None:
    inner = b"GET /large HTTP/1.1\r\n" + HEAD + b"\r\n"
    request = seen(exchange_bytes(port, post(inner, b"Content-Length: %d" % len(inner))))
    assert request["body"] == inner.decode()


SLOW = {
    "half a request line": (b"GET /no", [408]),
    "half a header": (b"GET /none HTTP/1.1\r\nHost", [408]),
    "half a header after an answer": (GET + b"GET /none HTTP/1.1\r\nHost", [200, 408]),
    "half a body": (post(b"he", b"Content-Length: 5"), [408]),
    "half a chunk": (post(b"5\r\nhe", b"Transfer-Encoding: chunked"), [408]),
    "half a body after an answer": (GET + post(b"he", b"Content-Length: 5"), [200, 408]),
    "nothing but line ends": (b"\r\n\r\n", [408]),
    "nothing": (b"", []),
    "nothing after an answer": (GET, [200]),
}


@pytest.mark.parametrize(("sent", "expected"), SLOW.values(), ids=SLOW)
def test_a_slow_client_is_cut_off(sent: bytes, expected: list[int]) -> None:
    limits = Limits()
    with connected(small_app()) as connection:
        connection.say(sent)
        connection.loop.advance(max(limits.header, limits.body, limits.idle) + limits.linger + 1)
        assert statuses(connection.heard) == expected
        assert connection.transport.closed


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"GET /none HTTP/1.1\r\nX: ", Limits().header),
        (post(b"", b"Content-Length: 900"), Limits().body),
        (b"\r\n", Limits().header),
    ],
    ids=["header", "body", "line ends"],
)
def test_trickled_bytes_do_not_extend_the_deadline(sent: bytes, limit: float) -> None:
    drop = b"\r\n" if sent == b"\r\n" else b"x"
    with connected(small_app()) as connection:
        connection.say(sent)
        while connection.loop.now < limit - 0.5:
            connection.loop.advance(0.25)
            connection.say(drop)
            assert not connection.heard
        connection.loop.advance(1.5)
        assert statuses(connection.heard) == [408]


@pytest.mark.parametrize("count", [1, 50])
def test_client_that_does_not_read_is_cut_off_after_one_answer(count: int) -> None:
    with connected(small_app()) as connection:
        connection.transport.stops_at = [1]
        connection.say((b"GET /large HTTP/1.1\r\n" + HEAD + b"\r\n") * count)
        connection.loop.advance(Limits().write - 1)
        assert connection.transport.pressed
        connection.loop.advance(2)
        assert connection.transport.closed
        assert len(connection.heard) < 21_000_000


def test_client_that_reads_receives_a_large_response_whole(port: int) -> None:
    heard = exchange_bytes(port, b"GET /large HTTP/1.1\r\n" + LAST + b"\r\n")
    assert len(heard.partition(b"\r\n\r\n")[2]) == 20_000_000


def test_slow_clients_do_not_affect_other_clients(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(100):
            slow = stack.enter_context(connect(port))
            slow.sendall(b"POST /echo HTTP/1.1\r\nHost")
        assert statuses(exchange_bytes(port, GET_LAST)) == [200]


def test_query_is_never_logged(port: int) -> None:
    stream = io.StringIO()
    log.set_up("debug", "json", stream)
    try:
        for target in (b"/token?canary", b"/token/?canary", b"/none?canary", b"/a#canary"):
            for method in (b"GET ", b"POST ", b"NONSENSE "):
                exchange_bytes(port, method + target + b" HTTP/1.1\r\n" + LAST + b"\r\n")
        exchange_bytes(port, b"POST /token?canary" + b"y" * 9_000 + b" HTTP/1.1\r\n" + LAST)
        exchange_bytes(port, b"GET /broken?canary HTTP/1.1\r\n" + LAST + b"\r\n")
        # The lines come in order, and this is the last request.
        wait_until(lambda: '"path":"/broken","status":500' in stream.getvalue())
    finally:
        log.set_up("warning", "json")
    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert {"request", "connection.refused", "request.failed"} <= set(events)
    assert "canary" not in stream.getvalue()
