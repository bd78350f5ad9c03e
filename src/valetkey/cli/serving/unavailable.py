"""Answer 503 to connections in the supervisor while a server has no worker that is ready."""

import socket
from contextlib import suppress
from time import monotonic

_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nCache-Control: no-store\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 32\r\nConnection: close\r\n\r\n"
    b"The server is not available yet\n"
)
_LONGEST = 1.0  # seconds in which the client can read the response
_MOST = 100
_BACKLOG = 2_048  # equals the one of `web.connection.bind`, whose import would load far more


class Unavailable:
    """Answers 503 to every connection that waits on a server's listening sockets.

    A TLS server cannot respond before a handshake: its connections are closed.
    """

    __slots__ = ("_open", "_sockets", "_tls")

    def __init__(self, listening: tuple[int, ...], *, tls: bool) -> None:
        """Use the sockets with descriptors `listening`; they stay open."""
        self._sockets = [socket.socket(fileno=number) for number in listening]
        for sock in self._sockets:
            sock.setblocking(False)
            # No worker may have called listen() yet.
            sock.listen(_BACKLOG)
        self._tls = tls
        self._open: list[tuple[float, socket.socket]] = []

    def answer(self) -> None:
        """Answer waiting connections, and close those that had time to read."""
        now = monotonic()
        for sock in self._sockets:
            with suppress(OSError):
                while len(self._open) < _MOST:
                    self._open.append((now, self._answered(sock)))
        while self._open and (now - self._open[0][0] > _LONGEST or len(self._open) >= _MOST):
            self._open.pop(0)[1].close()

    def _answered(self, sock: socket.socket) -> socket.socket:
        connection = sock.accept()[0]
        connection.setblocking(False)
        with suppress(OSError):
            if not self._tls:
                # Received data is read first: closing with unread data would reset the connection.
                connection.recv(65536, socket.MSG_DONTWAIT)
                connection.send(_ANSWER)
            connection.shutdown(socket.SHUT_WR)
        return connection

    def close(self) -> None:
        """Close the connections; the listening sockets stay open."""
        for _, connection in self._open:
            connection.close()
        for sock in self._sockets:
            sock.detach()
