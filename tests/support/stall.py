"""A database that stands still for a while."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from subprocess import PIPE, Popen

import psycopg

_HOLD = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
raw.execute("ROLLBACK")
"""


@contextmanager
def stalled(database_url: str) -> Generator[None]:
    """Hold the database as another program would: the servers write nothing meanwhile."""
    if database_url.startswith("sqlite"):
        # Another process: who closes a file here takes away the locks of the server's thread.
        command = [sys.executable, "-c", _HOLD, database_url.removeprefix("sqlite:///")]
        with Popen(command, stdin=PIPE, stdout=PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == b"held\n"
            yield
            holder.stdin.close()
            assert holder.wait(30) == 0
        return
    with psycopg.connect(database_url) as raw_:
        raw_.execute("LOCK TABLE vouchers IN ACCESS EXCLUSIVE MODE")
        yield
        raw_.rollback()
