"""The guard: what Valetkey keeps of the ceiling, beside what it kept when that was committed.

Processors differ in what they do well: where the shares were committed on another machine, measure
an older commit on this one (`make bench-quick AGAINST=COMMIT`).

A share is the median of the ratios of visits that followed each other, so that a slow minute hits
both. What seems to have fallen is measured again, and has fallen if it is low three times.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.commit import ROOT, extract
from bench.peers.ceiling import NAME as CEILING
from bench.peers.compare import Figures
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.peers.work import FLOW, INTROSPECTION, REFERENCE, REFRESH

KEPT = Path(__file__).with_name("quick.json")
ON_POSTGRESQL_TOO = (REFERENCE, INTROSPECTION, FLOW, REFRESH)
"""The workloads that are guarded on PostgreSQL too: few, because the guard has to be quick."""

_ENGINES = {"": ON_SQLITE, ", PostgreSQL": ON_POSTGRESQL}
_LOSS = 0.15
_LOOKS = 3

Shares = Mapping[str, float]


def shares(figures: Figures) -> Shares:
    """Return the share of each workload; of one on PostgreSQL, the name says so."""
    return {
        workload + engine: statistics.median(
            own / ceiling for own, ceiling in zip(rates[server], rates[CEILING], strict=False)
        )
        for workload, rates in figures.rates.items()
        for engine, server in _ENGINES.items()
        if rates.get(server) and rates.get(CEILING)
    }


def judge(
    then: Shares, measure: Callable[[Sequence[str]], Figures], workloads: Sequence[str]
) -> int:
    """Measure, print the shares then and now; 1 if one fell by more than 15 %, each time."""
    first = measure(workloads)
    now = dict(shares(first))
    for _ in range(0 if first.failed else _LOOKS - 1):
        if low := _fallen(then, now):
            workloads = list(dict.fromkeys(name.removesuffix(", PostgreSQL") for name in low))
            again = shares(measure(workloads))
            now |= {name: max(now.get(name, 0.0), share) for name, share in again.items()}
    fallen = _fallen(then, now)
    print(f"{'share of the ceiling':54}{'before':>10}{'now':>10}")
    for workload, share in now.items():
        before = f"{then[workload]:10.0%}" if workload in then else f"{'-':>10}"
        print(f"{workload:54}{before}{share:10.0%}{'  FELL' if workload in fallen else ''}")
    print("\n".join(first.missing))
    return 1 if fallen or first.failed else 0


def read(file: Path = KEPT) -> Shares:
    """The shares in a file, the committed ones by default."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, float])


def shares_of(commit: str, rounds: int, seconds: float) -> Shares:
    """Measure the shares of another commit with its own benchmark, on this machine."""
    with tempfile.TemporaryDirectory(prefix="vk-bench-") as folder:
        extract(commit, Path(folder))
        arguments = ("--quick", "--keep", "--rounds", str(rounds), "--seconds", str(seconds))
        subprocess.run(
            (sys.executable, "-m", "bench", *arguments),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{folder}/src"},
            check=True,
        )
        return read(Path(folder) / KEPT.relative_to(ROOT))


def keep(figures: Figures) -> None:
    """Commit to these."""
    rounded = {workload: round(share, 3) for workload, share in shares(figures).items()}
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(rounded)) + b"\n")


def _fallen(then: Shares, now: Shares) -> Sequence[str]:
    return [w for w, share in now.items() if share < then.get(w, 0.0) * (1 - _LOSS)]
