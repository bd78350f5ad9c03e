"""Nothing that a client sends is kept without a limit, or costs more than its length.

The cost is counted in calls and in bytes of memory, not in time.
"""

import random
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web import PATIENT, exchange_bytes, small_app, statuses
from tests.web.virtual import VirtualConnection, connected
from valetkey.web.connection.gate import Limits
from valetkey.web.connection.reader import HELD, PIECE
from valetkey.web.listen import RunningServer

KIB = 1024
GET = b"GET /none HTTP/1.1\r\nHost: h.example\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: h.example\r\nTransfer-Encoding: chunked\r\n\r\n"

ENDLESS = {
    "trailer value": (CHUNKED + b"0\r\nX: ", b"y"),
    "trailer name": (CHUNKED + b"0\r\n", b"y"),
    "trailer space": (CHUNKED + b"0\r\nX:", b" "),
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n"),
    "trailers after a chunk": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n"),
    "chunk extension name": (CHUNKED + b"1;", b"y"),
    "chunk extension value": (CHUNKED + b"1;x=", b"y"),
    "quoted chunk extension": (CHUNKED + b'1;x="', b"y"),
    "chunk extensions": (CHUNKED + b"1", b";x=y"),
    "extension of the last chunk": (CHUNKED + b"0;", b"y"),
    "chunks with extensions": (CHUNKED, b"1;" + b"y" * 100 + b"\r\nx\r\n"),
    "zeros of a chunk size": (CHUNKED, b"0"),
    "empty lines": (b"", b"\r\n"),
    "line feeds": (b"", b"\n"),
    "carriage returns": (b"", b"\r"),
    "empty lines after a request": (GET + b"\r\n", b"\r\n"),
    "spaces before a method": (b"", b" "),
    "spaces after a method": (b"GET", b" "),
    "method": (b"", b"G"),
    "target": (b"GET /", b"y"),
    "spaces after the target": (b"GET /", b" "),
    "version": (b"GET / HTTP/1.1", b"1"),
    "header name": (GET, b"y"),
    "header value": (GET + b"X: ", b"y"),
    "space before a value": (GET + b"X:", b" "),
    "headers": (GET, b"X: y\r\n"),
    "folded header": (GET + b"X: y\r\n", b" y\r\n"),
}


@pytest.mark.parametrize("size", [1, 997, 64 * KIB], ids=["bytes", "packets", "reads"])
@pytest.mark.parametrize(("start", "again"), ENDLESS.values(), ids=ENDLESS)
def test_endless_input_is_cut(start: bytes, again: bytes, size: int) -> None:
    sent = start + again * (256 * KIB // len(again))
    at = 0
    with connected(small_app()) as connection:
        while at < len(sent) and not connection.transport.said_everything:
            assert connection.transport.reading
            connection.say(sent[at : at + size])
            at += size
        assert at <= max(size, 48 * KIB)
        assert statuses(connection.heard)[-1] in {400, 414, 431}
        connection.loop.advance(Limits().linger + 1)
        assert connection.transport.closed


def test_endless_trailer_is_cut_on_real_connection() -> None:
    with RunningServer(small_app(), limits=PATIENT) as running:
        heard = exchange_bytes(running.port, CHUNKED + b"0\r\nX: " + b"y" * 60 * KIB)
    assert statuses(heard) == [431]


def test_input_after_a_refusal_is_read_up_to_a_limit() -> None:
    with connected(small_app()) as connection:
        connection.say(b"NONSENSE\r\n\r\n")
        assert statuses(connection.heard) == [400]
        for _ in range(16):
            assert not connection.transport.is_closing()
            connection.say(b"y" * 64 * KIB)
        connection.say(b"y")
        assert connection.transport.closed


def test_tiny_chunks_are_read() -> None:
    with connected(small_app()) as connection:
        connection.say(CHUNKED + b"1\r\nx\r\n" * 60 * KIB + b"0\r\n\r\n")
        assert statuses(connection.heard) == [200]
        assert b"x" * 60 * KIB in connection.heard


FRAGMENTS = [
    GET + b"\r\n",
    CHUNKED,
    b"POST /echo HTTP/1.1\r\nHost: h.example\r\nContent-Length: 70000\r\n\r\n",
    b"GET /none HTTP/1.1\r\nHost: h.example\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    b"0\r\n\r\n",
    b"0\r\nX: y\r\n",
    b"1;a=b\r\nx\r\n",
    b"5\r\nhello\r\n",
    b"\r\n",
    b"X: y\r\n",
    b"X:\r\n",
    b"y" * 100,
    b"\x00",
]
READ = 256 * KIB
"""As much as an event loop reads at once."""
CALLS_PER_BYTE = 40
CALLS = 4_000
KEPT = READ + 256 * KIB
"""Bytes of memory of a connection that sends without end and reads nothing."""


@given(
    parts=st.lists(st.tuples(st.sampled_from(FRAGMENTS), st.integers(1, 3_000)), max_size=5),
    split=st.sampled_from([1, 2, 50, 1_460, READ]),
    reads=st.booleans(),
)
def test_calls_per_byte_are_bounded(
    parts: list[tuple[bytes, int]], split: int, reads: bool
) -> None:
    sent = b"".join(fragment * times for fragment, times in parts)[: split * 4_000]
    with connected(small_app()) as connection:
        if not reads:
            connection.transport.press()
        for at in range(0, len(sent), split):
            if not connection.transport.reading or connection.transport.is_closing():
                break
            piece = sent[at : at + split]
            calls = _calls(partial(connection.say, piece))
            assert calls <= CALLS + CALLS_PER_BYTE * len(piece)


@pytest.mark.parametrize("fragment", FRAGMENTS)
@pytest.mark.parametrize("start", [b"", CHUNKED, GET], ids=["", "chunked", "header"])
def test_kept_memory_is_bounded(start: bytes, fragment: bytes) -> None:
    sent = start + fragment * (4 * KIB * KIB // len(fragment))
    with connected(small_app()) as connection:
        connection.transport.press()
        connection.say(b"")
        tracemalloc.start()
        try:
            for at in range(0, len(sent), READ):
                if not connection.transport.reading or connection.transport.is_closing():
                    break
                connection.say(sent[at : at + READ])
                assert tracemalloc.get_traced_memory()[0] <= KEPT
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("largest", [1, 3, 200, 5_000, READ])
def test_reading_is_paused_while_unparsed_input_fills_the_buffer(largest: int) -> None:
    with connected(small_app()) as connection:
        connection.transport.press()
        tracemalloc.start()
        try:
            at = _fill(connection, (GET + b"\r\n") * 2_000, largest)
            assert tracemalloc.get_traced_memory()[0] <= KEPT
        finally:
            tracemalloc.stop()
        # Besides what waits unparsed: the first 4 KiB, in which requests were found.
        assert HELD < at <= HELD + PIECE + largest
        connection.transport.release()
        connection.loop.settle()
        assert connection.transport.reading
        assert statuses(connection.heard) == [200] * (at // len(GET + b"\r\n"))


def _fill(connection: VirtualConnection, sent: bytes, largest: int) -> int:
    """How many bytes it took, in pieces of random sizes, before it stopped reading."""
    r, at = random.Random(largest), 0
    while connection.transport.reading:
        piece = sent[at : at + r.randint(1, largest)]
        connection.say(piece)
        at += len(piece)
    return at


def _calls(work: Callable[[], None]) -> int:
    """How many functions are called by this, ours and those of C."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
