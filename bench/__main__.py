"""`python -m bench`: Valetkey and its peers side by side; a table, the results, their page.

All servers are up and visited in turn, on one core together with the load. What counts is
operations per second of CPU of all processes of a server, its database included: the median of the
rounds. Each answer is checked. With --quick only Valetkey and the ceiling run, and the exit code is
1 if what Valetkey keeps of the ceiling fell.
"""

import argparse
import asyncio
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import msgspec
import uvloop

from bench.peers.compare import Figures, compare, servers
from bench.peers.own_peer import ON_SQLITE
from bench.peers.work import JWT, WORKLOADS
from bench.results import page, plan
from bench.results.page import Results

_LOSS = 0.15
_KEY = tuple(workload for workload in WORKLOADS if "sign-in" not in workload)


def main() -> None:
    """Start all, measure in turn, print, and keep the results."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each visit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="compare with what is kept")
    parser.add_argument("--keep", action="store_true", help="write the results and their page")
    parser.add_argument("--note", default="", help="what else this machine was doing")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        servers(alone=chosen.quick) as (up, missing),
    ):
        figures = runner.run(
            compare(
                up,
                chosen.rounds,
                chosen.seconds,
                only=_KEY if chosen.quick else WORKLOADS,
                paced=0.0 if chosen.quick else 4.0,
            )
        )
    figures.missing.extend(missing)
    if chosen.quick:
        sys.exit(_judge(figures))
    results = Results(_machine(), chosen.note, chosen.rounds, chosen.seconds, figures)
    print(page.table(results))
    print("\n".join([*figures.versions, _machine(), *figures.missing]))
    if chosen.keep:
        page.RESULTS.parent.mkdir(exist_ok=True)
        page.RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(results))) + b"\n")
        page.write()
        plan.write()


def _machine() -> str:
    model = Path("/proc/cpuinfo").read_text().partition("model name\t: ")[2].partition("\n")[0]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1_000_000
    return (
        f"{model.strip() or platform.machine()}, {os.cpu_count()} cores, {memory} GB; "
        f"Python {platform.python_version()}, Linux {platform.release().partition('-')[0]}"
    )


def _judge(figures: Figures) -> int:
    """Print what Valetkey keeps of the ceiling, then and now; 1 if a share fell too far."""
    kept = page.read().figures
    fallen = 0
    print(f"{'share of the ceiling':44}{'committed':>10}{'now':>10}")
    for workload in _KEY:
        then, now = page.share(kept, workload), page.share(figures, workload)
        if then is None or now is None:
            continue
        low = now < then * (1 - _LOSS)
        fallen += low
        print(f"{workload:44}{then:10.0%}{now:10.0%}{'  FELL' if low else ''}")
    ceiling = figures.median(JWT, "ceiling") or 0.0
    own = figures.median(JWT, ON_SQLITE) or 0.0
    print(f"per CPU-second: ceiling {ceiling:,.0f}, Valetkey {own:,.0f} ({JWT})")
    return 1 if fallen else 0


if __name__ == "__main__":
    main()
