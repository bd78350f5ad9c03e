"""E01: kill -9 of one of two workers under load, again and again."""

import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from bench.ports import free_port
from tests.reliability.acknowledged.everything import FINE
from tests.reliability.acknowledged.journal import (
    Client,
    Verdict,
    acting,
    clients,
    wait_for_actions,
    wait_for_recovery,
)
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome, percentile
from tests.support import postgres
from tests.support.processes import is_dying
from tests.support.wait import CEILING, wait_until

_PAUSE = 0.2  # seconds between the return of a worker and the next kill
_PERCENTILE = 50  # values, below which a 99th percentile is only the worst of them
_LONGEST = 1.0


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
    deaths: list[tuple[float, float]] = []
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
                    back.append(_killed(node, chance, deaths))
                    time.sleep(_PAUSE)
                wait_for_recovery(these)
                wait_for_actions(these, 1)
            verdict.judge(these)
    late = percentile(back, 0.99)
    # A few kills have no percentile, and the tests share the machine with others.
    longest = _LONGEST if times >= _PERCENTILE else CEILING
    total = verdict.answers.total()
    in_flight, cut, others = _cut_off(these, deaths)
    wrong = set(verdict.answers) - FINE
    counts = (
        f"{times} kills, back after {percentile(back, 0.5):.2f} s (median), {late:.2f} s (p99); "
        f"{verdict}; {total} requests, {cut} cut off of {in_flight} in flight at a kill, {others} "
        f"others"
        f"{f'; others: {sorted(wrong)}' if wrong else ''}"
    )
    return Outcome(
        "E01 kill -9 of workers" + (", PostgreSQL" if engine == "PostgreSQL" else ""),
        "back within 1 s at p99, nothing acknowledged is lost, nothing works twice, no request is "
        "cut off but those in flight at a kill",
        counts,
        late < longest and verdict.is_good and not wrong and not others,
    )


def _cut_off(
    these: Sequence[Client], deaths: Sequence[tuple[float, float]]
) -> tuple[int, int, int]:
    """Return how many requests were in flight at a kill, those cut off, and others cut off."""
    in_flight = cut = others = 0
    for client in these:
        waiting = iter(deaths)
        death = next(waiting, None)
        for began, ended, answered in client.asked:
            # Both are in the order of time.
            while death is not None and death[1] < began:
                death = next(waiting, None)
            met = death is not None and death[0] <= ended
            in_flight += met
            cut += met and not answered
            others += not met and not answered
    return in_flight, cut, others


def _killed(node: Node, chance: random.Random, deaths: list[tuple[float, float]]) -> float:
    """Return the seconds from the death of a worker until another one is ready.

    Append when it was killed, and by when its connections were closed.
    """
    log = node.here / "log"
    ready = log.read_bytes().count(b'"worker.ready"')
    workers = wait_until(lambda: _two(node))
    began = time.monotonic()
    os.kill(worker := chance.choice(workers), signal.SIGKILL)
    while is_dying(worker):
        time.sleep(0.001)
    deaths.append((began, time.monotonic()))
    wait_until(lambda: log.read_bytes().count(b'"worker.ready"') > ready)
    return time.monotonic() - began


def _two(node: Node) -> list[int]:
    workers = node.workers()
    return workers if len(workers) == 2 else []
