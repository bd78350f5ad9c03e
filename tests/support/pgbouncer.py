"""A real PgBouncer in front of the tests' PostgreSQL, in each of its modes."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
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
pool_mode = {mode}
default_pool_size = {connections}
logfile = {folder}/log
"""


def pooling_transactions(
    url: str, *, connections: int = 3, **settings: int
) -> AbstractContextManager[str]:
    """The URL of the same database through a PgBouncer that has so many server connections."""
    return _pooling(url, "transaction", connections, settings)


def pooling_sessions(url: str, *, connections: int = 20) -> AbstractContextManager[str]:
    """The same where a client keeps its server connection until it leaves."""
    return _pooling(url, "session", connections, {})


def pooling_statements(url: str) -> AbstractContextManager[str]:
    """The same where each statement of a client may have another server connection."""
    return _pooling(url, "statement", 3, {})


@contextmanager
def _pooling(url: str, mode: str, connections: int, settings: dict[str, int]) -> Generator[str]:
    name, _, sockets = url.partition("?host=")
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    with tempfile.TemporaryDirectory(prefix="vk-pgb-", dir="/tmp") as directory:
        folder = Path(directory)
        folder.chmod(0o777)
        configuration = folder / "pgbouncer.ini"
        text = _CONFIGURATION.format(
            sockets=sockets,
            folder=folder,
            mode=mode,
            connections=connections,
            user=postgres.USER,
        )
        more = "".join(f"{key} = {value}\n" for key, value in settings.items())
        configuration.write_text(text + more)
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
