"""Stands between a client and PostgreSQL, and loses the connection when that hurts most."""

import select
import socket
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress


@contextmanager
def cutting_at_commit(url: str) -> Generator[str]:
    """The URL of a go-between that lets COMMIT through, swallows the answer and hangs up."""
    name, _, home = url.partition("?host=")

    def serve(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{home}/.s.PGSQL.5432")
            committing = False
            while True:
                source = select.select([client, server], [], [])[0][0]
                data = source.recv(65536)
                if not data or (committing and source is server):
                    return
                # Not what BEGIN says of READ COMMITTED: here the statement ends.
                committing |= b"COMMIT\0" in data
                (server if source is client else client).sendall(data)

    with answering(serve) as folder:
        yield f"{name}?host={folder}"


@contextmanager
def answering(serve: Callable[[socket.socket], None], most: int | None = None) -> Generator[str]:
    """A folder with a socket at which `serve` answers each client, `most` tasks at a time."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        socket.socket(socket.AF_UNIX) as door,
        ThreadPoolExecutor(most) as threads,
    ):
        door.bind(f"{folder}/.s.PGSQL.5432")
        door.listen()

        def welcome() -> None:
            with suppress(OSError):
                while True:
                    threads.submit(serve, door.accept()[0])

        threads.submit(welcome)
        try:
            yield folder
        finally:
            door.shutdown(socket.SHUT_RDWR)
