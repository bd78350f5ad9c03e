"""A PostgreSQL for the bench, as its distribution sets it up: every commit on disk."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support import postgres as cluster

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "shared_buffers": "128MB",
    "max_connections": "100",
}


def postgresql_is_there() -> bool:
    """Whether this machine has its programs."""
    return cluster.binaries() is not None


@contextmanager
def postgres(port: int = 0) -> Generator[tuple[list[str], int, str]]:
    """The URLs of two empty databases, the process of the server, and what it is.

    It listens on a Unix socket, and at `port` of loopback for drivers that only know TCP.
    """
    with tempfile.TemporaryDirectory(prefix="vk-pg-", dir="/tmp") as name:
        folder = Path(name)
        listens = {"listen_addresses": "127.0.0.1", "port": str(port)} if port else {}
        try:
            cluster.create(folder)
            cluster.start(folder / "data", folder, SETTINGS | listens)
            at = f"&port={port}" if port else ""
            urls = [cluster.url(folder, name) + at for name in ("first", "second")]
            with psycopg.connect(cluster.url(folder, "postgres") + at, autocommit=True) as raw:
                for database in ("first", "second"):
                    raw.execute(f"CREATE DATABASE {database} TEMPLATE template0".encode())
                row = raw.execute("SHOW server_version").fetchone()
            assert row is not None
            parent = int((folder / "data/postmaster.pid").read_text().split()[0])
            yield urls, parent, f"PostgreSQL {str(row[0]).split()[0]}"
        finally:
            cluster.stop_if_running(folder / "data", mode="fast")
