"""Ports for servers of other programs, which cannot choose one themselves."""

import contextlib
import random
import socket

# Below the ports of outgoing connections: one of these could take the port before it is bound.
_PORTS = range(10_000, 32_000)


def free_port() -> int:
    """Return a port that nobody uses."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("", port))
            return port
