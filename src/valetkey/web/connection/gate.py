"""Admission: connection limits, deadlines, concurrent requests, and well-formed requests."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from valetkey.kernel import metrics
from valetkey.web import log
from valetkey.web.client_address import Proxies

# Path characters of RFC 3986; a query may hold any visible character but the number sign.
_TARGET = re.compile(rb"/[A-Za-z0-9\-._~!$&'()*+,;=:@/%]*(?:\?[!\"$-~]*)?")
_READY = "/health/ready"


class Limits(Struct, frozen=True):
    """Limits for clients: times in seconds, sizes and counts."""

    handshake: float = 10.0
    """To complete the TLS handshake."""
    header: float = 10.0
    """From the first byte of a request to the end of its header."""
    body: float = 15.0
    """From the end of the header to the end of the body."""
    idle: float = 30.0
    """Between requests, and before the first."""
    write: float = 30.0
    """To read a response."""
    linger: float = 1.0
    """To read a refusal, while further input is discarded."""
    connections: int = 2_000
    connections_per_address: int = 500
    requests: int = 128
    """Complete requests that may wait for their responses; the next one is answered 503."""
    patience: float = 10.0
    """For a turn at the database; work not begun by then is dropped."""
    header_fields: int = 100
    header_bytes: int = 32 * 1024


class GatedConnection(Protocol):
    """A connection, as the gate uses it."""

    address: str

    @property
    def deadline(self) -> float:
        """Return the event-loop time after which `expire` is called."""
        ...

    def expire(self) -> None:
        """Act on the deadline; called repeatedly until the connection is closed."""
        ...


class Gate:
    """Admits connections within the limits and expires those past their deadline."""

    def __init__(self, limits: Limits, proxies: Proxies) -> None:
        """Apply `limits`; connections from `proxies` are not counted by address."""
        self.limits = limits
        self._proxies = proxies
        self._open: set[GatedConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._at_work = 0
        self.closing = False
        """This process is about to end: each response is the last on its connection."""
        self.draining = False
        """The whole server is about to end: it reports that it is not ready."""
        metrics.HTTP_CONNECTIONS.read_from(lambda: len(self._open))
        metrics.HTTP_ACTIVE.read_from(lambda: self._at_work)
        metrics.HTTP_CONNECTIONS_LIMIT.set(limits.connections)
        shortest = min(limits.header, limits.body, limits.idle, limits.write, limits.linger)
        self._pause = min(0.5, shortest / 4)

    def admit(self, connection: GatedConnection) -> bool:
        """Return whether the connection is admitted; it counts until `release`, and only once."""
        if connection in self._open:
            return True
        if len(self._open) >= self.limits.connections:
            metrics.HTTP_REFUSED.add("full")
            log.throttled("warning", "connection.turned_away", "limits.connections is reached")
            return False
        address = connection.address
        if not self._proxies.trusts(address):
            if self._by_address[address] >= self.limits.connections_per_address:
                metrics.HTTP_REFUSED.add("address")
                cause = "limits.connections_per_address is reached"
                log.throttled("warning", "connection.turned_away", cause, address=address)
                return False
            self._by_address[address] += 1
        self._open.add(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pause, self._sweep, loop)
        return True

    def release(self, connection: GatedConnection) -> None:
        """Stop counting a connection; one that was not admitted is ignored."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        address = connection.address
        if address in self._by_address:
            self._by_address[address] -= 1
            if self._by_address[address] <= 0:
                del self._by_address[address]

    def enter(self, path: str, vital: Collection[str]) -> bool:
        """Return whether one more request is admitted; if so it counts until `leave`.

        A path in `vital` is always admitted: a health check answered as busy would make a load
        balancer send away requests that this server can still serve. While the server drains,
        `/health/ready` is refused, so that the load balancer stops sending them.
        """
        if self._at_work >= self.limits.requests and path not in vital:
            metrics.HTTP_REFUSED.add("busy")
            log.throttled("warning", "request.turned_away", "limits.requests is reached")
            return False
        if self.draining and path == _READY:
            return False
        self._at_work += 1
        return True

    def leave(self) -> None:
        """Stop counting a request: it was answered, or its response is streamed from now on."""
        self._at_work -= 1

    def __len__(self) -> int:
        return len(self._open)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        # One timer for all connections: arming and cancelling one for each request would cost more
        # than checking every connection twice a second.
        now = loop.time()
        for connection in [candidate for candidate in self._open if candidate.deadline <= now]:
            connection.expire()
        self._timer = loop.call_later(self._pause, self._sweep, loop) if self._open else None


def fault_of(
    version: str, target: bytes, fields: Mapping[bytes, bytes], *, is_well_formed: bool = False
) -> str:
    """Return why a request that the parser accepted is invalid (RFC 9112); empty if it is valid.

    A target that `is_well_formed`, as was found before, is not checked again.
    """
    if version not in {"1.1", "1.0"}:
        return "only HTTP/1.1 and HTTP/1.0 are supported"
    if version == "1.1" and b"host" not in fields:
        return "the header has no Host"
    if not is_well_formed and not _TARGET.fullmatch(target):
        return "the request target must be a path, percent-encoded"
    coding = fields.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
        return "the only Transfer-Encoding is chunked"
    return ""
