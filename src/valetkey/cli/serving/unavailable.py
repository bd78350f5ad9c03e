"""Answer 503 to connections in the supervisor while a server has no worker that is ready."""

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nCache-Control: no-store\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 32\r\nConnection: close\r\n\r\n"
    b"The server is not available yet\n"
)
_LONGEST = 2.0  # seconds for the handshake, the request, and for reading the response
_MOST = 100  # connections; a further one replaces the oldest
_AT_ONCE = 20
"""Connections accepted, and steps of others, in one call: a handshake costs milliseconds, in which
no worker is restarted."""
_PIECE = 64 * 1024


class Unavailable:
    """Answers 503 to each request that waits on a server's sockets, if they listen.

    They do not before the first worker is ready, unless a service manager opened them: a proxy is
    refused the connection and takes another node. `fileno` is readable when `answer` is due.
    Connections to a server with TLS are closed if its certificate cannot be used.
    """

    __slots__ = ("_open", "_selector", "_sockets", "_tls")

    def __init__(self, sockets: Sequence[int], tls: Sequence[str]) -> None:
        """Use the sockets with these descriptors, which stay open.

        `tls` are the files of certificate chain and key, none for a server without TLS.
        """
        self._selector = DefaultSelector()
        self._sockets: list[socket.socket] = []
        for number in sockets:
            sock = socket.socket(fileno=number)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                sock.setblocking(False)
                self._sockets.append(sock)
                self._selector.register(sock, EVENT_READ)
            else:
                sock.detach()
        self._tls = _Tls(*map(Path, tls)) if tls else None
        self._open: list[_Connection] = []

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._selector.fileno()

    def answer(self) -> None:
        """Go on with connections, accept others, and close those whose time has ended."""
        now = monotonic()
        for key, _ in self._selector.select(0)[:_AT_ONCE]:
            if key.data is not None:
                self._go_on(key.data)
        for sock in self._sockets:
            with suppress(OSError):
                for _ in range(_AT_ONCE):
                    self._accept(sock.accept()[0], now)
        while self._open and (now - self._open[0].since > _LONGEST or len(self._open) > _MOST):
            self._leave(self._open[0])

    def close(self) -> None:
        """Close the connections; the listening sockets stay open."""
        for connection in list(self._open):
            self._leave(connection)
        for sock in self._sockets:
            sock.detach()
        self._selector.close()

    def _accept(self, accepted: socket.socket, now: float) -> None:
        try:
            connection = _Connection(accepted, self._tls, now)
        except OSError:
            accepted.close()
            return
        self._open.append(connection)
        self._selector.register(connection.sock, EVENT_READ, connection)
        self._go_on(connection)

    def _go_on(self, connection: "_Connection") -> None:
        try:
            waits_for = connection.go_on()
        except OSError:
            # The client disconnected, or does not speak TLS.
            self._leave(connection)
        else:
            self._selector.modify(connection.sock, waits_for, connection)

    def _leave(self, connection: "_Connection") -> None:
        self._open.remove(connection)
        self._selector.unregister(connection.sock)
        connection.sock.close()


class _Connection:
    """A connection: handshake, request, response, and then what else the client sends."""

    __slots__ = ("_answered", "_tls", "_waits", "since", "sock")

    def __init__(self, accepted: socket.socket, tls: "_Tls | None", since: float) -> None:
        accepted.setblocking(False)
        self.since = since
        self.sock = accepted
        self._tls: ssl.SSLSocket | None = None
        self._waits: Mapping[type[OSError], int] = {BlockingIOError: EVENT_READ}
        self._answered = False
        if tls is not None:
            self.sock = self._tls = tls.wrap(accepted)
            self._waits = tls.waits

    def go_on(self) -> int:
        """Go on as far as possible; return the event to wait for. Raises OSError at the end."""
        try:
            if self._tls is not None and not self._answered:
                self._tls.do_handshake()
            # Closing with unread data would reset the connection, and the response be lost.
            if not self.sock.recv(_PIECE):
                raise ConnectionAbortedError
            if not self._answered:
                self._answered = True
                self.sock.send(_ANSWER)
                if self._tls is not None:
                    with suppress(OSError):
                        # Sends the notice of the end, and does not wait for the client's.
                        self._tls.unwrap()
                # With TLS, what follows is not decrypted.
                self.sock.shutdown(socket.SHUT_WR)
        except OSError as problem:
            if type(problem) not in self._waits:
                raise
            return self._waits[type(problem)]
        return EVENT_READ


class _Tls:
    """The TLS of the workers. Its modules are loaded for servers that have it."""

    __slots__ = ("_context", "waits")

    def __init__(self, certificate: Path, key: Path) -> None:
        loaded, refusal = (
            import_module("valetkey.web.listen"),
            import_module("valetkey.kernel.refusal"),
        )
        self._context: ssl.SSLContext | None = None
        with suppress(refusal.OperatorError):
            self._context = loaded.tls_context(certificate, key)
        again = import_module("ssl")
        self.waits: Mapping[type[OSError], int] = {
            BlockingIOError: EVENT_READ,
            again.SSLWantReadError: EVENT_READ,
            again.SSLWantWriteError: EVENT_WRITE,
        }

    def wrap(self, accepted: socket.socket) -> "ssl.SSLSocket":
        """Return a connection before its handshake. Raises OSError for an unusable certificate."""
        if self._context is None:
            raise ConnectionAbortedError
        return self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
