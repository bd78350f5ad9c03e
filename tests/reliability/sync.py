"""What was answered with 200 is on disk: seen in the system calls of a worker."""

import random
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.ports import free_port
from tests.reliability.changes import wait_for_more
from tests.reliability.load import asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome

_CALLS = "pwrite64,fdatasync,fsync,write,writev,sendto,sendmsg"
_ANSWER = re.compile(r"(?:write|writev|sendto|sendmsg)\(\d+<(?:socket|TCP).*HTTP/1\.1 200 ")
_WRITTEN = re.compile(r"pwrite64\(\d+<[^>]*-wal>")
_SYNCED = re.compile(
    r"(?:fdatasync|fsync)\(\d+<[^>]*-wal>\)\s+= 0|(?:fdatasync|fsync) resumed>\)\s+= 0"
)
_CLIENTS = 1  # Answers and writes belong together by their order.


@dataclass
class Trace:
    """How many answers the calls held, and how many went out before their rows were synced."""

    answers: int = 0
    unsynced: int = 0
    without_row: int = 0

    @staticmethod
    def of(lines: Iterable[str]) -> "Trace":
        """Judge the calls in their order: between two answers there are rows and then a sync.

        Rows may follow that sync before the answer: those of the background.
        """
        trace, rows, synced = Trace(), 0, False
        for line in lines:
            if _WRITTEN.search(line):
                rows += 1
            elif _SYNCED.search(line):
                synced = synced or rows > 0
            elif _ANSWER.search(line):
                trace.answers += 1
                trace.without_row += rows == 0
                trace.unsynced += not synced
                rows, synced = 0, False
        return trace


def sync_before_answer(folder: Path, times: int, chance: random.Random) -> Outcome:
    """One client asks for tokens, one after the other, while strace follows the worker."""
    address = f"127.0.0.1:{free_port()}"
    node, calls = Node(folder / "node"), folder / "calls"
    configure(node.here, url=f"http://{address}", listen=address, database="sqlite:///a/auth.db")
    register(node.here)
    with stopped_in_the_end(node):
        node.start()
        (worker,) = node.workers()
        follow = ("strace", "-f", "-y", "-s", "24", "-e", f"trace={_CALLS}", "-o", str(calls))
        with subprocess.Popen((*follow, "-p", str(worker)), stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            assert b"attached" in tracer.stderr.readline()
            with asking(address, address, clients=_CLIENTS) as load:
                while load.total < times:
                    wait_for_more(load)
            tracer.terminate()
            tracer.stderr.read()
    with calls.open(encoding="utf-8", errors="replace") as lines:
        trace = Trace.of(lines)
    counts = (
        f"{load.total} tokens, {trace.answers} answers seen: {trace.unsynced} before the sync of "
        f"the write-ahead log, {trace.without_row} without a row"
    )
    held = not (load.failed or trace.unsynced or trace.without_row)
    return Outcome(
        "E06 sync before the answer",
        "each token is on disk before it is sent",
        counts,
        held and trace.answers >= times,
    )
