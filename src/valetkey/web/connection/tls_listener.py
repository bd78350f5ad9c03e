"""Accept TLS connections and count each before its handshake."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from valetkey.kernel.refusal import OperatorError
from valetkey.web import log
from valetkey.web.connection.gate import Gate
from valetkey.web.protocol import HttpProtocol

_AT_ONCE = 64  # connections accepted before the event loop runs anything else
_RETRY = 1.0  # seconds until the next attempt after no file descriptor was free


ACME = ("acme-tls/1",)
"""The application protocol by which an authority asks for its challenge (RFC 8737 section 3)."""

_LONGEST_HELLO = 5 + (1 << 14)  # bytes: one TLS record
_HELLO_AGAIN = 0.01  # seconds until an incomplete ClientHello is looked at again


class Challenge(Struct, frozen=True):
    """The challenge of an authority: pending while the file exists, shown with this context."""

    file: Path
    context: Callable[[], ssl.SSLContext]


class TlsListener:
    """Accepts on one socket and hands over each connection once its TLS handshake is complete.

    An event loop reports a connection only after the handshake. Without a limit before it, clients
    that never complete a handshake could use up the process's file descriptors.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        gate: Gate,
        make: Callable[[], HttpProtocol],
        challenge: Challenge | None = None,
    ) -> None:
        """Start accepting on the running event loop."""
        self._sock = sock
        self._context = context
        self._gate = gate
        self._make = make
        self._challenge = challenge
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._listen()

    def accept_no_more(self) -> None:
        """Close the socket; handshakes in progress continue."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()
        if self._retry is not None:
            self._retry.cancel()

    def close(self) -> None:
        """Stop accepting, and abort handshakes that are not complete."""
        self.accept_no_more()
        for each in self._handshakes:
            each.cancel()

    def _listen(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                cause = failure.strerror or type(failure).__name__
                log.throttled("error", "connection.not_accepted", cause)
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(_RETRY, self._listen)
                return
            connection = self._make()
            connection.address = peer[0]
            if not self._gate.admit(connection):
                accepted.close()
                continue
            accepted.setblocking(False)
            task = self._loop.create_task(self._agree(accepted, connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _agree(self, accepted: socket.socket, connection: HttpProtocol) -> None:
        timeout = self._gate.limits.handshake
        made = False
        try:
            context = self._context
            with suppress(OSError):  # the client disconnected, was too slow, or does not speak TLS
                if self._challenge is not None and self._challenge.file.exists():
                    context = await asyncio.wait_for(
                        self._context_for(accepted, self._challenge), timeout
                    )
                await self._loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=timeout,
                    ssl_shutdown_timeout=timeout,
                )
                made = True
        finally:
            if not made:
                accepted.close()
                self._gate.release(connection)

    async def _context_for(self, accepted: socket.socket, challenge: Challenge) -> ssl.SSLContext:
        """Return the context of the challenge if the ClientHello asks for it by its protocol.

        An SSLContext chooses a certificate by name but not by protocol, so the ClientHello is read
        without being taken from the socket.
        """
        hello = await self._hello(accepted)
        if b"".join(bytes((len(name),)) + name.encode() for name in ACME) not in hello:
            return self._context
        try:
            return challenge.context()
        except OperatorError:
            # The challenge ended meanwhile.
            return self._context

    async def _hello(self, accepted: socket.socket) -> bytes:
        readable: asyncio.Future[None] = self._loop.create_future()

        def set_readable() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(accepted, set_readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(accepted)
        # Bounded by the time for a handshake; at most one record is waited for.
        while found := accepted.recv(_LONGEST_HELLO, socket.MSG_PEEK):
            if len(found) >= min(_LONGEST_HELLO, 5 + int.from_bytes(found[3:5], "big")):
                break
            await asyncio.sleep(_HELLO_AGAIN)
        return found
