"""E11: thousands of connections that send slowly or nothing, beside clients that ask for tokens."""

import random
import select
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from bench.ports import free_port
from tests.reliability.floods.flood import address
from tests.reliability.load import asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support.wait import CEILING, wait_until
from valetkey.web.connection.gate import Limits

_LIMITS = Limits()
_SLACK = 5.0
"""Seconds beyond the limit: the server looks at deadlines now and then, and this process too."""

_BEFORE = 200  # requests before the slow clients come
_ENOUGH = 1_000  # connections, below which the machine may be busy with other tests
_BODY = b"POST /oauth/token HTTP/1.1\r\nHost: %b\r\nContent-Length: 500\r\n\r\n"
_KINDS: Mapping[str, tuple[bytes, float]] = MappingProxyType(
    {
        "header": (b"GET / HTTP/1.1\r\nX: ", _LIMITS.header),
        "body": (_BODY, _LIMITS.body),
        "idle": (b"", _LIMITS.idle),
    }
)
"""What each sends first, and the seconds after which it is to be cut off."""


def slow_clients(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Open `times` connections; those that send go on with a byte a second."""
    host = f"127.0.0.1:{free_port()}"
    node = Node(folder / "node")
    more = f"[limits]\nconnections = {2 * times + 100}\n"
    configure(
        node.here, url=f"http://{host}", listen=host, database="sqlite:///a/auth.db", more=more
    )
    register(node.here)
    with stopped_in_the_end(node):
        node.start()
        with asking(host, host) as load:
            wait_until(lambda: load.total >= _BEFORE)
            with _opened(host, times, chance) as slow:
                took = _until_closed(slow)
            wait_until(lambda: load.total >= 2 * _BEFORE)
    late = [name for name, (_, limit) in _KINDS.items() if took[name] > limit + _SLACK]
    closed = ", ".join(f"{name} after {seconds:.0f} s" for name, seconds in took.items())
    counts = (
        f"{times} connections, the last of each kind cut off: {closed}; {load.total} tokens "
        f"meanwhile, {load.failed} failed, longest {load.longest:.1f} s"
    )
    return Outcome(
        "E11 slow clients",
        f"cut off within {_LIMITS.header:.0f} s (header), {_LIMITS.body:.0f} s (body) and "
        f"{_LIMITS.idle:.0f} s (idle); other clients are served",
        counts,
        not load.failed and (not late or times < _ENOUGH),
    )


@contextmanager
def _opened(host: str, times: int, chance: random.Random) -> Generator[dict[socket.socket, str]]:
    """Open the connections, from many addresses, and send what each kind begins with."""
    name, _, port = host.partition(":")
    # The shortest run leaves out the longest wait.
    kinds = [kind for kind in _KINDS if kind != "idle" or times >= _ENOUGH]
    slow: dict[socket.socket, str] = {}
    with ExitStack() as stack:
        for number in range(times):
            sender = (address(chance), 0)
            endpoint = (name, int(port))
            opened = stack.enter_context(socket.create_connection(endpoint, CEILING, sender))
            kind = kinds[number % len(kinds)]
            first = _KINDS[kind][0]
            opened.sendall(first % host.encode() if kind == "body" else first)
            opened.setblocking(False)
            slow[opened] = kind
        yield slow


def _until_closed(slow: dict[socket.socket, str]) -> dict[str, float]:
    """Send a byte a second until all are closed; the seconds of the last one of each kind."""
    began = time.monotonic()
    took = dict.fromkeys(_KINDS, 0.0)
    looked = select.poll()
    by_number = {connection.fileno(): connection for connection in slow}
    for number in by_number:
        looked.register(number, select.POLLIN)
    due = began + 1
    while by_number:
        assert time.monotonic() - began < CEILING, f"{len(by_number)} are still open"
        for number, _ in looked.poll(200):
            if _is_closed(by_number[number]):
                looked.unregister(number)
                took[slow[by_number.pop(number)]] = time.monotonic() - began
        if time.monotonic() > due:
            due += 1
            for connection in by_number.values():
                if slow[connection] != "idle":
                    _drip(connection)
    return took


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _drip(connection: socket.socket) -> None:
    try:
        connection.send(b"x")
    except OSError:
        # Closed meanwhile, which the next look finds.
        return
