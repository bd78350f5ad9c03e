"""Where a server listens: found before there is a server, by who starts its processes."""

import socket

from valetkey.kernel.refusal import Mistake

BACKLOG = 2_048
"""Connections that may wait until somebody takes them."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that waits for connections at `host`, at a free port if `port` is 0.

    A server that restarts need not wait until the connections of the last one are forgotten.
    Raises Mistake if the address is not to be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise Mistake(f"cannot listen on {host}:{port}: {error.strerror}", "listen") from error
    return sock
