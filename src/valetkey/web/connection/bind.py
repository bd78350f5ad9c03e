"""Bind sockets in the process that starts the servers; listen on them once a server is ready."""

import socket
from errno import EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT

from valetkey.kernel.refusal import OperatorError

_OTHER_LOOPBACK = {"127.0.0.1": "::1", "::1": "127.0.0.1"}
_TRIES = 16  # attempts at a port chosen by the system, until one is free at both addresses

BACKLOG = 2_048
"""Connections that may wait to be accepted."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to `host` and `port`, for `listen`; port 0 means any free port.

    Connections are refused until `listen`, so that a proxy tries another node. SO_REUSEADDR is set,
    so that a restarted server need not wait for old connections to time out. Raises OperatorError
    if the address cannot be bound, for example because another program listens there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = None
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise _bind_error(host, port, error) from error
    return sock


def listen(sock: socket.socket) -> None:
    """Accept connections; a socket that listens already continues.

    Raises OperatorError if another program has begun to listen at this address since `bind`.
    """
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        host, port = sock.getsockname()[:2]
        raise _bind_error(host, port, error) from error


def _bind_error(host: str, port: int, error: OSError) -> OperatorError:
    address = f"[{host}]" if ":" in host else host
    return OperatorError(f"cannot listen on {address}:{port}: {error.strerror}", "listen")


def bind_named(name: str, host: str, port: int) -> tuple[socket.socket, ...]:
    """Return the sockets, bound to `host`, of a server that clients reach under `name`.

    Programs resolve `localhost` to 127.0.0.1 or to ::1. A server of that name that is bound to one
    of them is also bound to the other, at the same port, unless the system has no such address.
    Raises OperatorError if an address is in use: `localhost` must not lead to another program.
    """
    other = _OTHER_LOOPBACK.get(host) if name == "localhost" else None
    if other is None:
        return (bind(host, port),)
    for _ in range(_TRIES):
        first = bind(host, port)
        try:
            return first, bind(other, int(first.getsockname()[1]))
        except OperatorError as error:
            reason = error.__cause__
            number = reason.errno if isinstance(reason, OSError) else None
            if number in {EADDRNOTAVAIL, EAFNOSUPPORT}:
                return (first,)
            first.close()
            if port or number != EADDRINUSE:
                raise
    raise OperatorError(f"no port is free at both {host} and {other}", "listen")
