"""`python -m tests.web.model.handshakes COUNT`: new TLS connections, each with a POST or two.

The server writes its session tickets while the first request arrives: that request, and a body that
comes later, must be read and answered at once, not at their deadline. Both event loops, TLS 1.2 and
1.3, with tickets.
"""

import argparse
import asyncio
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import uvloop

from tests.sdk.certificate import self_signed
from tests.support.wait import CEILING
from tests.web import small_app, statuses
from valetkey.web.connection.bind import bind
from valetkey.web.listen import serve

SLOW = 10.0
"""Seconds. A body that is not read is answered after 15; a busy machine needs less than this."""
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
_HEAD = b" HTTP/1.1\r\nHost: h.example\r\n"
_BODY = b"hello"
_POST = b"POST /echo" + _HEAD + b"Connection: close\r\nContent-Length: 5\r\n\r\n"
_GET = b"GET /none" + _HEAD + b"\r\n"


@dataclass(frozen=True, slots=True)
class Found:
    """How one connection went."""

    answers: Sequence[int]
    expected: Sequence[int]
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether everything was answered, and soon."""
        return self.answers == self.expected and self.seconds < SLOW


@contextmanager
def server(loop: str, certificate: Path, key: Path) -> Generator[int]:
    """The port of a server on this event loop."""
    sock = bind("127.0.0.1", 0)
    ready, stop = threading.Event(), asyncio.Event()
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        main = serve(
            small_app(),
            sockets=[sock],
            tls_certificate=certificate,
            tls_key=key,
            on_ready=ready.set,
            stop=stop,
        )
        thread = threading.Thread(target=runner.run, args=(main,))
        thread.start()
        try:
            assert ready.wait(CEILING)
            yield sock.getsockname()[1]
        finally:
            runner.get_loop().call_soon_threadsafe(stop.set)
            thread.join()
            sock.close()


def connect(port: int, context: ssl.SSLContext, number: int) -> Found:
    """One new connection: what is sent in one write depends on `number`."""
    pieces, expected = (
        ([_POST + _BODY], [200]),
        ([_POST, _BODY], [200]),
        ([_GET + _POST, _BODY], [200, 200]),
        ([_GET + _POST + _BODY], [200, 200]),
    )[number % 4]
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        began = time.monotonic()
        for piece in pieces:
            connection.sendall(piece)
        heard = bytearray()
        while piece := connection.recv(65_536):
            heard += piece
    return Found(statuses(bytes(heard)), expected, time.monotonic() - began)


def run(count: int, folder: Path) -> list[Found]:
    """So many connections, shared among all combinations; what was found."""
    certificate, key = self_signed(folder)
    connections: list[Found] = []
    for loop, version in product(LOOPS, VERSIONS):
        context = ssl.create_default_context(cafile=str(certificate))
        context.minimum_version = context.maximum_version = version
        with server(loop, certificate, key) as port, ThreadPoolExecutor(8) as pool:
            connections += pool.map(partial(connect, port, context), range(count // 4))
    return connections


def main() -> None:
    """Run as many as asked, and say how many went wrong and what the slowest took."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.model.handshakes")
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        connections = run(chosen.count, Path(folder))
    bad = [connection for connection in connections if not connection.is_good]
    slowest = max(connection.seconds for connection in connections)
    sys.stdout.write(f"{len(connections):,} connections, {len(bad)} bad, slowest {slowest:.2f} s\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
