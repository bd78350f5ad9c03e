"""Many requests from many addresses, written in batches: sending costs less than answering."""

import random
import re
import socket
from collections import Counter
from collections.abc import Iterable

from tests.support.wait import CEILING

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def address(chance: random.Random) -> str:
    """Return a random address of this machine; limits by address apply to its /24 network."""
    return f"127.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(2, 255)}"


def request(host: str, line: str, body: str = "") -> bytes:
    """Return a request, with a form if there is a `body`."""
    form = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n"
    return f"{line} HTTP/1.1\r\nHost: {host}\r\n{form if body else ''}\r\n{body}".encode()


def answers(host: str, requests: Iterable[bytes], sender: str) -> Counter[str]:
    """Send `requests` over one connection of `sender`, and count the statuses of the answers."""
    *first, last = requests
    data = b""
    name, _, port = host.partition(":")
    endpoint = (name, int(port))
    with socket.create_connection(endpoint, CEILING, source_address=(sender, 0)) as connection:
        connection.sendall(b"".join(first) + last.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        while part := connection.recv(1 << 18):
            # Statuses stand at the beginning of a line, and may be cut.
            data += part
    return Counter(status.decode() for status in _STATUS.findall(data))
