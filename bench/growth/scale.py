"""`python -m bench.growth.scale`: one, two and four workers on PostgreSQL, on all cores there are.

Each has a PostgreSQL of its own and 32 callers for each worker; they are visited in turn. The load
takes its part of the same cores. So three things are told apart for each operation: the CPU of our
workers, that of PostgreSQL, that of the load.

With --slice each worker may use so much of a core and no more: what PostgreSQL and the load need is
then free, as it is where they have cores of their own, and the ratio of two workers to one is that
of two free cores.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import psycopg
import uvloop

from bench.growth.slices import sliced
from bench.load import Worker, measure
from bench.peers.own_peer import valetkey
from bench.peers.peer import Peer, worked
from bench.peers.work import (
    CALLERS,
    FLOW,
    INTROSPECTION,
    JWT,
    MIX,
    REFERENCE,
    REFRESH,
    USERINFO,
    plan,
)
from bench.processes import ended_together
from valetkey.kernel.replace import replace

RESULTS = Path(__file__).parents[1] / "results/scale.json"
WORKLOADS = (JWT, REFERENCE, INTROSPECTION, USERINFO, REFRESH, FLOW, MIX)
_COUNTERS = """
    SELECT (SELECT sum(xact_commit) FROM pg_stat_database),
           (SELECT wal_sync FROM pg_stat_wal), (SELECT wal_bytes FROM pg_stat_wal),
           (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
           (SELECT sum(pg_database_size(oid)) FROM pg_database)
"""
_REPORTED = 1.2
"""Seconds after which PostgreSQL's processes have said what they counted."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What one visit found, for each operation.

    `rate` is operations a second by the clock; `own`, `database` and `load` microseconds of CPU;
    `commits`, `syncs` (of the write-ahead log to the disk) and `log` (its bytes) are PostgreSQL's;
    `stored` are the bytes by which its databases grew, old versions of rows included.
    """

    rate: float
    own: float
    database: float
    load: float
    commits: float = 0.0
    syncs: float = 0.0
    log: float = 0.0
    connections: float = 0.0
    stored: float = 0.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Medians by workload and number of workers; `slice_` is the share of a core, 0 for all."""

    cores: int
    callers: int
    rounds: int
    seconds: float
    slice_: float
    visits: dict[str, dict[str, Visit]]


@dataclass(frozen=True, slots=True)
class Kept:
    """The committed runs: with all of every core, and with a slice of one for each worker.

    `shared` was made while other programs used the machine: it counts in CPU, not by the clock.
    """

    whole: Scale | None = None
    sliced: Scale | None = None
    shared: Scale | None = None


def read() -> Kept:
    """The committed runs."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Kept) if RESULTS.exists() else Kept()


@dataclass(frozen=True, slots=True)
class Running:
    """One number of workers, while they answer."""

    workers: int
    peer: Peer
    asked: Mapping[str, Sequence[Worker]]

    def cpu(self) -> tuple[float, float]:
        """Seconds of CPU of our processes and of PostgreSQL's, so far."""
        sums = [0.0, 0.0]
        for pid in self.peer.pids():
            sums[_is_of_database(pid)] += worked(pid)
        return sums[0], sums[1]

    def answering(self) -> list[int]:
        """The processes of the authorization server that answer."""
        return [pid for pid in self.peer.pids() if ".serving.authorization" in _command(pid)]

    def counters(self) -> Sequence[int]:
        """PostgreSQL's commits, syncs and bytes of its log so far; connections and size now."""
        url = _socket(self.peer)
        if url is None:
            return 0, 0, 0, 1, 0
        with psycopg.connect(url) as raw:
            row = raw.execute(_COUNTERS).fetchone()
        assert row is not None
        return [int(counter) for counter in row]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _is_of_database(pid: int) -> bool:
    return "postgres" in _command(pid).partition(" ")[0]


def _socket(peer: Peer) -> str | None:
    """The URL of the database server: the postmaster's command line says where it lives."""
    for pid in peer.pids():
        words = _command(pid).split("\0")
        if _is_of_database(pid) and "-D" in words:
            folder = Path(words[words.index("-D") + 1]).parent
            return f"postgresql://valetkey@/postgres?host={folder}"
    return None


async def visit(running: Running, workload: str, seconds: float) -> Visit:
    """Ask for `seconds`, and say what an operation cost whom."""
    await asyncio.sleep(_REPORTED)
    counted = running.counters()
    own, database = running.cpu()
    load = time.process_time()
    done = await measure(running.asked[workload], seconds)
    load = time.process_time() - load
    own_after, database_after = running.cpu()
    await asyncio.sleep(_REPORTED)
    after = running.counters()
    operations = done.operations
    commits, syncs, log = (b - a for a, b in zip(counted[:3], after[:3], strict=True))
    return Visit(
        done.rate,
        1e6 * (own_after - own) / operations,
        1e6 * (database_after - database) / operations,
        1e6 * load / operations,
        commits / operations,
        syncs / operations,
        log / operations,
        after[3] - 1,
        (after[4] - counted[4]) / operations,
    )


def median(visits: Sequence[Visit]) -> Visit:
    """The median of each figure."""
    return Visit(*map(statistics.median, zip(*map(astuple, visits), strict=True)))


async def measured(
    up: Sequence[Running], workloads: Sequence[str], rounds: int, seconds: float
) -> dict[str, dict[str, Visit]]:
    """Visit all in turn, once to warm up and then `rounds` times."""
    medians: dict[str, dict[str, Visit]] = {}
    for workload in workloads:
        visits: dict[str, list[Visit]] = {str(running.workers): [] for running in up}
        for turn in range(rounds + 1):
            for running in up:
                seen = await visit(running, workload, seconds if turn else seconds / 2)
                if turn:
                    visits[str(running.workers)].append(seen)
        medians[workload] = {
            workers: median(measurements) for workers, measurements in visits.items()
        }
        _show(workload, medians[workload])
    return medians


def _show(workload: str, medians: Mapping[str, Visit]) -> None:
    print(workload, flush=True)
    first = next(iter(medians.values()))
    for workers, figures in medians.items():
        print(
            f"  {workers:>2}{figures.rate:9,.0f}{figures.rate / first.rate:8.2f}{figures.own:8.0f}"
            f"{figures.database:8.0f}{figures.load:8.0f}"
            f"{figures.rate * (figures.own + figures.database + figures.load) / 1e6:8.2f}"
            f"{figures.commits:9.2f}{figures.syncs:9.2f}{figures.log / 1_000:8.1f}"
            f"{figures.connections:8.0f}{figures.stored:8.0f}",
            flush=True,
        )


async def _planned(
    peer: Peer, workers: int, works: Sequence[str]
) -> Mapping[str, Sequence[Worker]]:
    """So many callers for each worker: with as many for two as for one, each would have half."""
    plans = [await plan(peer, only=works) for _ in range(workers)]
    return {work: [caller for planned in plans for caller in planned[work]] for work in works}


def main() -> None:
    """Start them, visit them, print and perhaps keep what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth.scale", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--sqlite", action="store_true", help="on SQLite instead")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each visit")
    parser.add_argument("--slice", type=float, default=0.0, help="of a core, for each worker")
    parser.add_argument("--only", nargs="+", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--shared", action="store_true", help="keep it beside the quiet run")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    chosen = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        up: list[Running] = []
        for workers in chosen.workers:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            peer = stack.enter_context(
                valetkey(folder, on_postgresql=not chosen.sqlite, workers=workers)
            )
            up.append(Running(workers, peer, runner.run(_planned(peer, workers, chosen.only))))
        if chosen.slice:
            for running in up:
                stack.enter_context(sliced(running.answering(), chosen.slice))
        print(
            f"{'workers':>4}{'per s':>6}{'times':>8}{'own us':>8}{'PG us':>8}{'load us':>8}"
            f"{'cores':>8}{'commits':>9}{'syncs':>9}{'WAL kB':>8}{'conns':>8}{'stored':>8}"
        )
        medians = runner.run(measured(up, chosen.only, chosen.rounds, chosen.seconds))
    if chosen.keep:
        scale = Scale(cores, CALLERS, chosen.rounds, chosen.seconds, chosen.slice, medians)
        name = "shared" if chosen.shared else "sliced" if chosen.slice else "whole"
        kept = replace(read(), **{name: scale})
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(kept))) + b"\n")


if __name__ == "__main__":
    with ended_together():
        main()
