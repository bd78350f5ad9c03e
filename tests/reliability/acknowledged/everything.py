"""E04: kill -9 of every process at once, the server's and PostgreSQL's, and start again."""

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from bench.ports import free_port
from tests.reliability.acknowledged.journal import (
    Verdict,
    acting,
    clients,
    wait_for_actions,
    wait_for_recovery,
)
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support import postgres

_BEFORE = 10  # acknowledged actions of each client before the kill
_LONGEST = {"SQLite": 3.0, "PostgreSQL": 10.0}  # seconds until it is ready
_ENOUGH = 10  # rounds, below which the machine may be busy with other tests
# A client whose server is killed sees its connection end; a new one is refused. 400: a code whose
# first answer was lost.
FINE = {"200", "302", "303", "400", "503", "ConnectionError", "ChunkedEncodingError"} | {
    "ConnectionRefusedError",
    "ConnectionResetError",
    "RemoteDisconnected",
    "BrokenPipeError",
    "IncompleteRead",
    "BadStatusLine",
}


def killed_everything(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill everything under load, `times` on each engine."""
    verdict = Verdict()
    summaries: list[str] = []
    quick = True
    for name, own in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        ready: list[float] = []
        address = f"127.0.0.1:{free_port()}"
        node = Node(folder / name)
        with own() as (url, kill, start):
            configure(node.here, url=f"http://{address}", listen=address, database=url)
            register(node.here, rotates=True)
            with stopped_in_the_end(node):
                node.start()
                these = clients(f"http://{address}")
                for _ in range(times):
                    with acting(these):
                        wait_for_actions(these, _BEFORE)
                        time.sleep(chance.random() / 10)
                        node.kill()
                        kill()
                        began = time.monotonic()
                        start()
                        node.start()
                        ready.append(time.monotonic() - began)
                        wait_for_recovery(these)
                    verdict.judge(these)
        quick &= times < _ENOUGH or max(ready) < _LONGEST[name]
        middle = sorted(ready)[len(ready) // 2]
        summaries.append(
            f"{name} ready after {middle:.1f} s (median), {max(ready):.1f} s (longest)"
        )
    wrong = set(verdict.answers) - FINE
    counts = f"{times} rounds on each engine, {verdict}; {'; '.join(summaries)}"
    return Outcome(
        "E04 kill -9 of servers and PostgreSQL",
        "nothing acknowledged is lost, nothing works twice, ready within 3 s (SQLite) and 10 s",
        f"{counts}{f'; others: {sorted(wrong)}' if wrong else ''}",
        verdict.is_good and quick and not wrong,
    )


_Own = Generator[tuple[str, Callable[[], None], Callable[[], None]]]


@contextmanager
def _sqlite() -> _Own:
    """Yield the URL of a database, and how to kill and start what serves it: nothing."""

    def nothing() -> None:
        return

    yield "sqlite:///a/auth.db", nothing, nothing


@contextmanager
def _postgres() -> _Own:
    # A kill leaves everything that was written to the system, so its files need no sync.
    with postgres.own_server() as server:
        data = server / "data"
        yield (
            postgres.url(server, "postgres"),
            lambda: postgres.kill(data),
            lambda: postgres.start(data, server),
        )
