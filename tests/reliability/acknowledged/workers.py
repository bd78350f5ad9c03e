"""E01: kill -9 of one of two workers under load, again and again."""

import os
import random
import signal
import time
from contextlib import nullcontext, suppress
from pathlib import Path

from bench.ports import free_port
from tests.reliability.acknowledged.everything import FINE
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
from tests.support.wait import CEILING, wait_until

_PAUSE = 0.2  # seconds between the return of a worker and the next kill
_PERCENTILE = 50  # values, below which a 99th percentile is only the worst of them
_LONGEST = 1.0
_LEAST = 0.995  # of the requests are answered


def killed_workers(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill a random worker, every 0.4 s or so, on SQLite."""
    return _kills(folder, times, chance, "SQLite")


def killed_workers_on_postgres(folder: Path, times: int, chance: random.Random) -> Outcome:
    """The same on PostgreSQL."""
    return _kills(folder, times, chance, "PostgreSQL")


def _kills(folder: Path, times: int, chance: random.Random, engine: str) -> Outcome:
    address = f"127.0.0.1:{free_port()}"
    node, verdict = Node(folder / "node"), Verdict()
    own = postgres.database() if engine == "PostgreSQL" else nullcontext("sqlite:///a/auth.db")
    back: list[float] = []
    with own as database:
        configure(node.here, url=f"http://{address}", listen=address, database=database)
        file = node.here / "valetkey.toml"
        text = file.read_text().replace("[tokens]", "workers = 2\n[tokens]", 1)
        file.write_text(text.replace('"warning"', '"info"'))
        register(node.here, rotates=True)
        with stopped_in_the_end(node):
            node.start()
            these = clients(f"http://{address}")
            with acting(these):
                for _ in range(times):
                    back.append(_killed(node, chance))
                    time.sleep(_PAUSE)
                wait_for_recovery(these)
                wait_for_actions(these, 1)
            verdict.judge(these)
    back.sort()
    late = back[min(len(back) - 1, int(len(back) * 0.99))]
    # A few kills have no percentile, and the tests share the machine with others.
    longest = _LONGEST if times >= _PERCENTILE else CEILING
    total = verdict.answers.total()
    cut = sum(count for name, count in verdict.answers.items() if not name.isdecimal())
    wrong = set(verdict.answers) - FINE
    answered = times < _PERCENTILE or cut <= (1 - _LEAST) * total
    counts = (
        f"{times} kills, back after {back[len(back) // 2]:.2f} s (median), {late:.2f} s (p99); "
        f"{verdict}; {total} requests, {cut} cut off"
        f"{f'; others: {sorted(wrong)}' if wrong else ''}"
    )
    return Outcome(
        "E01 kill -9 of workers" + (", PostgreSQL" if engine == "PostgreSQL" else ""),
        "back within 1 s at p99, nothing acknowledged is lost, nothing works twice, 99.5 % of the "
        "requests answered",
        counts,
        late < longest and verdict.is_good and not wrong and answered,
    )


def _killed(node: Node, chance: random.Random) -> float:
    """Return the seconds from the death of a worker until another one is ready."""
    log = node.here / "log"
    ready = log.read_bytes().count(b'"worker.ready"')
    workers = wait_until(lambda: _two(node))
    began = time.monotonic()
    os.kill(chance.choice(workers), signal.SIGKILL)
    wait_until(lambda: log.read_bytes().count(b'"worker.ready"') > ready)
    return time.monotonic() - began


def _two(node: Node) -> list[int]:
    with suppress(OSError):
        found = node.workers()
        return found if len(found) == 2 else []
    return []
