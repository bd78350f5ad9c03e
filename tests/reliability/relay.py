"""A relay in front of a server that can lose its event streams."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.wait import CEILING

_STREAM = b"text/event-stream"
_CHUNK = 65_536


@dataclass
class Relay:
    """Passes bytes on. While `cut` is set, event streams deliver nothing and stay open."""

    address: str
    target: str
    cut: threading.Event = field(default_factory=threading.Event)
    withheld: int = 0
    """Requests for an event stream that were not passed on."""
    _open: list[socket.socket] = field(default_factory=list[socket.socket])

    def accept(self, listening: socket.socket) -> None:
        """Serve connections until the listening socket is shut down."""
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                host, _, port = self.target.partition(":")
                try:
                    far = socket.create_connection((host, int(port)), CEILING)
                except OSError:
                    near.close()
                    continue
                self._open += (near, far)
                threading.Thread(target=self._requests, args=(near, far), daemon=True).start()
                threading.Thread(target=_copy, args=(far, near), daemon=True).start()

    def end(self) -> None:
        """Close every connection."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(_CHUNK):
                if _STREAM in data and self.cut.is_set():
                    self.withheld += 1
                else:
                    far.sendall(data)
            far.shutdown(socket.SHUT_WR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def relaying(target: str, *, cut: bool) -> Generator[Relay]:
    """Run a relay to the address `target` until the block ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        relay = Relay(f"127.0.0.1:{listening.getsockname()[1]}", target)
        if cut:
            relay.cut.set()
        thread = threading.Thread(target=relay.accept, args=(listening,))
        thread.start()
        try:
            yield relay
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(CEILING)
            relay.end()
