"""`python -m bench.peers.trees OLD NEW…`: source trees of Valetkey, visited in turn.

Each tree is a folder with `valetkey` in it, such as `git archive HEAD~9 src` gives. What counts is
the median of the ratios to the first, visit by visit: on a machine that others use too, that is
steadier than any of the figures.

With `--metrics` there is one tree: first without a line that counts, then as it is, with its
metrics scraped every five seconds. With `--claims` the last tree issues tokens for a declared API,
with groups, a role and three claims, as in `bench.claims`.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.request import urlopen

import uvloop

from bench.claims import declared
from bench.load import measure
from bench.peers.own_peer import valetkey
from bench.peers.peer import Peer
from bench.peers.work import WORKLOADS, plan
from bench.ports import free_port


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
    parser.add_argument("--metrics", action="store_true", help="what counting and scraping cost")
    parser.add_argument("--claims", action="store_true", help="a second API and its claims")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        trees: list[Path] = chosen.trees
        if chosen.metrics:
            trees = [_mute(trees[0], Path(stack.enter_context(tempfile.TemporaryDirectory())))]
            trees += chosen.trees[:1]
        peers = [
            _started(
                tree,
                stack,
                declared if chosen.claims and turn == len(trees) - 1 else valetkey,
                on_postgresql=chosen.postgresql,
                scraped=bool(chosen.metrics and turn),
            )
            for turn, tree in enumerate(trees)
        ]
        plans = [runner.run(plan(peer)) for peer in peers]
        names = "".join(f"{tree.name[:9]:>10}{'':8}" for tree in trees)
        print(f"{'operations per CPU-second':36}{names}")
        for workload in WORKLOADS:
            if not any(part in workload for part in chosen.only.split(",")):
                continue
            # A server with a register of its own has no client that signs by RS256.
            if not all(workload in planned for planned in plans):
                continue
            rates: list[list[float]] = [[] for _ in peers]
            for turn in range(chosen.rounds + 1):
                for peer, planned, peer_rates in zip(peers, plans, rates, strict=True):
                    had = peer.worked()
                    done = runner.run(measure(planned[workload], chosen.seconds))
                    if turn:
                        peer_rates.append(done.operations / (peer.worked() - had))
            line = f"{workload:36}"
            for peer_rates in rates:
                pairs = zip(rates[0], peer_rates, strict=True)
                ratio = statistics.median(new / old for old, new in pairs)
                line += f"{statistics.median(peer_rates):10,.0f}{ratio:8.2f}"
            print(line, flush=True)


class _Start(Protocol):
    def __call__(
        self, directory: Path, /, *, on_postgresql: bool
    ) -> AbstractContextManager[Peer]: ...


def _started(
    tree: Path, stack: ExitStack, start: _Start, *, on_postgresql: bool, scraped: bool
) -> Peer:
    """A server that imports Valetkey from this tree."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    listen = f"127.0.0.1:{free_port()}" if scraped else ""
    more = {"PYTHONPATH": str(tree.resolve())}
    if scraped:
        more["VALETKEY__METRICS__LISTEN"] = listen
    with _environment(more):
        peer = stack.enter_context(start(folder, on_postgresql=on_postgresql))
    if scraped:
        stack.enter_context(_scraping(f"http://{listen}/metrics"))
    return peer


def _mute(tree: Path, folder: Path) -> Path:
    """A copy of this tree in `folder` that counts nothing."""
    copy = folder / "mute"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "valetkey/kernel/metrics.py").open("a") as file:
        file.write("\nCounter.add = Histogram.observe = lambda *_, **__: None\n")
    return copy


@contextmanager
def _scraping(url: str) -> Generator[None]:
    """Scrape every five seconds: three times as often as is usual."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(5.0):
            with urlopen(url) as answer:
                answer.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _environment(more: Mapping[str, str]) -> Generator[None]:
    """Servers that start meanwhile have these variables as well."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main()
