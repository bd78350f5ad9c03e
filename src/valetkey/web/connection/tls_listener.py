"""Accept TLS connections and count each before its handshake."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from valetkey.web.connection.gate import Gate
from valetkey.web.protocol import HttpProtocol

_AT_ONCE = 64  # connections accepted before the event loop runs anything else
_RETRY = 1.0  # seconds until the next attempt after no file descriptor was free


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
    ) -> None:
        """Start accepting on the running event loop."""
        self._sock = sock
        self._context = context
        self._gate = gate
        self._make = make
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
            except OSError:
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
            with suppress(OSError):  # the client disconnected, was too slow, or does not speak TLS
                await self._loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=timeout,
                    ssl_shutdown_timeout=timeout,
                )
                made = True
        finally:
            if not made:
                self._gate.release(connection)
