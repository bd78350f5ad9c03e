"""`python -m bench.peers.trees OLD NEW…`: source trees of Valetkey, visited in turn.

Each tree is a folder with `valetkey` in it, such as `git archive HEAD~9 src` gives. What counts is
the median of the ratios to the first, visit by visit: on a machine that others use too, that is
steadier than any of the figures.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from bench.load import measure
from bench.peers.own_peer import valetkey
from bench.peers.work import WORKLOADS, plan


def main() -> None:
    """Start both, measure in turn, print a line for each workload."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers.trees", description=__doc__)
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE", help="the old, then the new")
    parser.add_argument(
        "--only", default="", help="workloads whose names hold one of these, with commas"
    )
    parser.add_argument("--seconds", type=float, default=0.7, help="for each visit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--postgresql", action="store_true")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        peers = []
        for tree in chosen.trees:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with _imported_from(tree.resolve()):
                server = valetkey(Path(folder), on_postgresql=chosen.postgresql)
                peers.append(stack.enter_context(server))
        plans = [runner.run(plan(peer)) for peer in peers]
        names = "".join(f"{tree.name[:9]:>10}{'':8}" for tree in chosen.trees)
        print(f"{'operations per CPU-second':36}{names}")
        for workload in WORKLOADS:
            if not any(each in workload for each in chosen.only.split(",")):
                continue
            rates: list[list[float]] = [[] for _ in peers]
            for turn in range(chosen.rounds + 1):
                for peer, planned, found in zip(peers, plans, rates, strict=True):
                    had = peer.worked()
                    done = runner.run(measure(planned[workload], chosen.seconds))
                    if turn:
                        found.append(done.operations / (peer.worked() - had))
            line = f"{workload:36}"
            for found in rates:
                pairs = zip(rates[0], found, strict=True)
                ratio = statistics.median(new / old for old, new in pairs)
                line += f"{statistics.median(found):10,.0f}{ratio:8.2f}"
            print(line, flush=True)


@contextmanager
def _imported_from(tree: Path) -> Generator[None]:
    """Servers that start meanwhile import Valetkey from this tree."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(tree)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


if __name__ == "__main__":
    main()
