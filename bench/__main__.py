"""`python -m bench`: Valetkey and its peers side by side; a table, the results, their page.

All servers are up and visited in turn, on one core together with the load. What counts is
operations per second of CPU of all processes of a server, its database included: the median of the
rounds, shown with the lowest and the highest. Each answer is checked. With --quick only Valetkey
and the ceiling run, and the exit code is 1 if what Valetkey keeps of the ceiling fell.
"""

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
import uvloop

from bench import plan
from bench.peers.compare import Figures, compare, servers
from bench.peers.work import FULL_ACCOUNT, PAGE, WORKLOADS
from bench.processes import ended_together
from bench.results import page, quick, targets
from bench.results.page import Results

_PACED = 4.0  # seconds of each server at a fixed rate
_KEY = tuple(workload for workload in WORKLOADS if workload not in {PAGE, FULL_ACCOUNT})


def main() -> None:
    """Start all, measure in turn, print, and keep the results."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each visit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="compare with what is kept")
    parser.add_argument("--against", metavar="COMMIT", help="with --quick: measure it first")
    parser.add_argument("--keep", action="store_true", help="write the results and their page")
    parser.add_argument("--note", default="", help="what else this machine was doing")
    chosen = parser.parse_args()
    then = quick.read()
    if chosen.against:
        if not chosen.quick or chosen.keep:
            parser.error("--against compares: it needs --quick, without --keep")
        # Before this one's servers run.
        then = quick.shares_of(chosen.against, chosen.rounds, chosen.seconds)
    started = Figures()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        servers(started, alone=chosen.quick) as up,
    ):

        def measure(only: Sequence[str], paced: float = 0.0) -> Figures:
            figures = Figures(missing=[*started.missing])
            comparison = compare(
                up,
                chosen.rounds,
                chosen.seconds,
                figures,
                only=only,
                on_postgresql=quick.ON_POSTGRESQL_TOO if chosen.quick else WORKLOADS,
                paced=paced,
            )
            try:
                runner.run(comparison)
            except KeyboardInterrupt:
                figures.missing.append("Stopped by a signal: what follows was not measured")
                figures.failed = figures.stopped = True
            return figures

        if chosen.quick and chosen.keep:
            quick.keep(measure(_KEY))
            return
        if chosen.quick:
            sys.exit(quick.judge(then, measure, _KEY))
        figures = measure(WORKLOADS, _PACED)
    results = Results(_machine(), chosen.note, chosen.rounds, chosen.seconds, figures)
    print(page.table(results), targets.table(figures), sep="\n\n")
    print("\n".join([*figures.versions, _machine(), *figures.missing, *figures.falling()]))
    if chosen.keep and not figures.stopped:
        page.RESULTS.parent.mkdir(exist_ok=True)
        page.RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(results))) + b"\n")
        page.write()
        plan.write()
    elif chosen.keep:
        kept = page.RESULTS.with_suffix(".stopped.json")
        kept.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(results))) + b"\n")
        print(f"What there is, is kept in {kept}.")
    if figures.failed:
        sys.exit(1)


def _machine() -> str:
    model = Path("/proc/cpuinfo").read_text().partition("model name\t: ")[2].partition("\n")[0]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1_000_000
    return (
        f"{model.strip() or platform.machine()}, {os.cpu_count()} cores, {memory} GB; "
        f"Python {platform.python_version()}, Linux {platform.release().partition('-')[0]}"
    )


if __name__ == "__main__":
    with ended_together():
        main()
