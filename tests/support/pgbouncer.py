"""A real PgBouncer that pools transactions, in front of the tests' PostgreSQL."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support import postgres
from tests.support.wait import CEILING

_CONFIGURATION = """
[databases]
* = host={sockets} user={user}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
logfile = {folder}/log
"""


@contextmanager
def pooling_transactions(url: str, *, connections: int = 3) -> Generator[str]:
    """The URL of the same database through a PgBouncer that has so many server connections."""
    name, _, sockets = url.partition("?host=")
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    with tempfile.TemporaryDirectory(prefix="vk-pgb-", dir="/tmp") as place:
        folder = Path(place)
        folder.chmod(0o777)
        configuration = folder / "pgbouncer.ini"
        text = _CONFIGURATION.format(
            sockets=sockets, folder=folder, connections=connections, user=postgres.USER
        )
        configuration.write_text(text)
        with subprocess.Popen(
            (program, "-q", str(configuration)), user=postgres.unprivileged()
        ) as running:
            through = f"{name}?host={folder}&port=6432"
            try:
                _await_answer(through)
                yield through
            finally:
                running.terminate()


def _await_answer(url: str) -> None:
    deadline = time.monotonic() + CEILING
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
