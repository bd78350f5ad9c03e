"""Who is let in: how many connections, how long each may take, which requests are well-formed."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from valetkey.kernel import metrics
from valetkey.web.client_address import Proxies

# Path characters of RFC 3986; a query may hold anything visible but the number sign.
_TARGET = re.compile(rb"/[A-Za-z0-9\-._~!$&'()*+,;=:@/%]*(?:\?[!\"$-~]*)?")
_READY = "/health/ready"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a client may take, in seconds, and how much it may send."""

    handshake: float = 10.0
    """To agree on TLS."""
    header: float = 10.0
    """From the first byte of a request to the end of its header."""
    body: float = 15.0
    """From there to the end of the body."""
    idle: float = 30.0
    """Between requests, and before the first."""
    write: float = 30.0
    """To take an answer."""
    linger: float = 1.0
    """To read why it was refused, while what it still sends is thrown away."""
    connections: int = 2_000
    connections_per_address: int = 500
    requests: int = 128
    """Complete requests that wait for their answers; the next is told to come again."""
    patience: float = 10.0
    """For its turn at the database; after that it is not worth beginning."""
    header_fields: int = 100
    header_bytes: int = 32 * 1024


class Connection(Protocol):
    """What the gate must know of a connection."""

    address: str

    @property
    def deadline(self) -> float:
        """In the time of the event loop; past it, `expire` is called."""
        ...

    def expire(self) -> None:
        """Act on the deadline; it comes again until the connection is closed."""
        ...


class Gate:
    """Lets connections in while there is room, and tells those whose time is over."""

    def __init__(self, limits: Limits, proxies: Proxies) -> None:
        """Keep `limits`; `proxies` speak for many clients and are not counted by address."""
        self.limits = limits
        self._proxies = proxies
        self._open: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._at_work = 0
        self.closing = False
        """This process is about to end: each answer is the last on its connection."""
        self.draining = False
        """The whole server is: it is not ready any more."""
        metrics.HTTP_CONNECTIONS.ask(lambda: len(self._open))
        metrics.HTTP_ACTIVE.ask(lambda: self._at_work)
        metrics.HTTP_CONNECTIONS_LIMIT.set(limits.connections)
        shortest = min(limits.header, limits.body, limits.idle, limits.write, limits.linger)
        self._pause = min(0.5, shortest / 4)

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for it, or it counts already; it counts until `release`."""
        if connection in self._open:
            return True
        if len(self._open) >= self.limits.connections:
            metrics.HTTP_REFUSED.add("full")
            return False
        address = connection.address
        if not self._proxies.trusts(address):
            if self._by_address[address] >= self.limits.connections_per_address:
                metrics.HTTP_REFUSED.add("address")
                return False
            self._by_address[address] += 1
        self._open.add(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pause, self._sweep, loop)
        return True

    def release(self, connection: Connection) -> None:
        """Forget a connection; one that was never let in does no harm."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        address = connection.address
        if address in self._by_address:
            self._by_address[address] -= 1
            if self._by_address[address] <= 0:
                del self._by_address[address]

    def enter(self, path: str, vital: Collection[str]) -> bool:
        """Whether there is time for one more request; then it counts until `leave`.

        One of a path that is `vital` is always let in: who looks whether we live must not hear that
        we are busy, or what can still be done would be sent elsewhere as well. Who asks whether we
        are ready is turned away once the server drains.
        """
        if self._at_work >= self.limits.requests and path not in vital:
            metrics.HTTP_REFUSED.add("busy")
            return False
        if self.draining and path == _READY:
            return False
        self._at_work += 1
        return True

    def leave(self) -> None:
        """One of them is answered, or streams from now on."""
        self._at_work -= 1

    def __len__(self) -> int:
        return len(self._open)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        # One timer for all: to arm and cancel one for each request would cost more than a look at
        # every connection twice a second.
        now = loop.time()
        for connection in [each for each in self._open if each.deadline <= now]:
            connection.expire()
        self._timer = loop.call_later(self._pause, self._sweep, loop) if self._open else None


def objection(
    version: str, target: bytes, fields: Mapping[bytes, bytes], *, known: bool = False
) -> str:
    """What is wrong with a request that the parser could read (RFC 9112); empty if nothing is.

    A target that is `known` to be well-formed is not looked at again.
    """
    if version not in {"1.1", "1.0"}:
        return "only HTTP/1.1 and HTTP/1.0 are spoken here"
    if version == "1.1" and b"host" not in fields:
        return "the header has no Host"
    if not known and not _TARGET.fullmatch(target):
        return "the request target must be a path, percent-encoded"
    coding = fields.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
        return "the only Transfer-Encoding is chunked"
    return ""
