"""A proxy in front of PostgreSQL that alters statements, as other engines interpret them."""

import re
import socket
import struct
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count

from tests.support.go_between import answering

# Messages of the client with the text of a statement: a simple query, and Parse.
_QUERY, _PARSE = b"Q", b"P"
_HEADER = struct.Struct("!cI")

Alterations = Sequence[tuple[str, str]]
"""Patterns, each with what replaces it in the text of a statement."""


@contextmanager
def altering(url: str, *alterations: tuple[str, str], others: Sequence[str] = ()) -> Generator[str]:
    """The URL of the same database through a proxy that replaces these patterns in statements.

    Every second connection reaches the first of the URLs `others`, if there is one.
    """
    name, _, home = url.partition("?host=")
    homes = (home, *(other.partition("?host=")[2] for other in others))
    numbers = count()

    def serve(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{homes[next(numbers) % len(homes)]}/.s.PGSQL.5432")
            answers = threads.submit(_pass_on, server, client)
            with suppress(OSError, EOFError):
                _alter(client, server, alterations)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            answers.result()

    with ThreadPoolExecutor(64) as threads, answering(serve, 64) as folder:
        yield f"{name}?host={folder}"


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


def _alter(client: socket.socket, server: socket.socket, alterations: Alterations) -> None:
    """Pass on the client's messages. Raises EOFError when it leaves."""
    # The first message has no type.
    start = _exactly(client, 4)
    server.sendall(start + _exactly(client, int.from_bytes(start, "big") - 4))
    while True:
        kind, length = _HEADER.unpack(_exactly(client, _HEADER.size))
        body = _exactly(client, length - 4)
        if kind in {_QUERY, _PARSE}:
            parts = body.split(b"\0")
            index = 0 if kind == _QUERY else 1
            parts[index] = _altered(parts[index], alterations)
            body = b"\0".join(parts)
        server.sendall(_HEADER.pack(kind, len(body) + 4) + body)


def _altered(statement: bytes, alterations: Alterations) -> bytes:
    text = statement.decode()
    for pattern, replacement in alterations:
        text = re.sub(pattern, replacement, text)
    return text.encode()


def _exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
