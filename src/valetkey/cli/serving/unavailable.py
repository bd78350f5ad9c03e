"""Answer 503 to connections in the supervisor while a server has no worker that is ready."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nCache-Control: no-store\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 32\r\nConnection: close\r\n\r\n"
    b"The server is not available yet\n"
)
_LONGEST = 1.0  # seconds in which the client can read the response
_MOST = 100


class Unavailable:
    """Answers 503 to every connection that waits on a server's sockets, if they listen.

    They do not before the first worker is ready, unless a service manager opened them: a proxy is
    refused the connection and takes another node. A TLS server cannot respond before a handshake:
    its connections are closed.
    """

    __slots__ = ("_open", "_sockets", "_tls", "listening")

    def __init__(self, sockets: Sequence[int], *, tls: bool) -> None:
        """Use the sockets with these descriptors; they stay open. `listening` are those in use."""
        self._sockets: list[socket.socket] = []
        for number in sockets:
            sock = socket.socket(fileno=number)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                sock.setblocking(False)
                self._sockets.append(sock)
            else:
                sock.detach()
        self.listening = [each.fileno() for each in self._sockets]
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
