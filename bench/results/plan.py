"""How many cores so many requests a second take, from what one operation was measured to cost.

`python -m bench.results.plan` writes the figures of the page, and leaves the rest of it as it is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.growth import scale
from bench.growth.scale import Kept, Scale, Visit
from bench.peers.compare import Figures
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.peers.work import FLOW, INTROSPECTION, JWT, MIX, REFERENCE, REFRESH, USERINFO
from bench.results import page

PAGE = Path(__file__).parents[2] / "docs/explanation/how-much-you-need.md"
RATES = (1_000, 10_000, 100_000)
"""Operations a second that are planned for."""

FREE = 0.5
"""The share of each core that is left free: for bursts, for what else runs, for a machine lost."""

ALONE = 2
"""So many cores on SQLite were measured; more are not planned for."""

_BEGIN = "<!-- Written by `python -m bench.results.plan`, down to the next mark. -->"
_END = "<!-- End of what is written. -->"
_COSTS = (JWT, REFERENCE, INTROSPECTION, USERINFO, REFRESH, FLOW, MIX)
_PLANNED = (MIX, INTROSPECTION, JWT)


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU for one operation: on SQLite, and on PostgreSQL ours and its own.

    `commits` are PostgreSQL's, `log` the bytes that it writes ahead.
    """

    alone: float
    own: float
    database: float
    commits: float
    log: float


def cost(on_sqlite: float, on_postgresql: float, seen: Visit) -> Cost:
    """From operations per CPU-second; what PostgreSQL has of the second is as it was `seen`."""
    part = 1e6 / on_postgresql / (seen.own + seen.database)
    own, database = part * seen.own, part * seen.database
    return Cost(1e6 / on_sqlite, own, database, seen.commits, seen.log)


def cores(rate: float, microseconds: float) -> int:
    """Cores on which so many operations a second leave `FREE` of each; at least one."""
    return max(1, math.ceil(rate * microseconds / 1e6 / (1 - FREE)))


def costs(figures: Figures, run: Scale) -> Mapping[str, Cost]:
    """What each work costs that both runs have."""
    found: dict[str, Cost] = {}
    for work in _COSTS:
        alone, whole = figures.median(work, ON_SQLITE), figures.median(work, ON_POSTGRESQL)
        if alone and whole and work in run.visits:
            found[work] = cost(alone, whole, run.visits[work][min(run.visits[work], key=int)])
    return found


def rendered(figures: Figures, kept: Kept) -> str:
    """The figures of the page."""
    parts = [_BEGIN]
    if kept.whole is not None:
        found = costs(figures, kept.whole)
        parts += ["## What one costs", _costs(found)]
        parts += ["## How many cores", _needs(found)]
        parts += ["## One, two and four workers", _scaled(kept.whole)]
    if kept.sliced is not None:
        parts += ["### With a slice of a core for each worker", _sliced(kept.sliced)]
    return "\n\n".join([*parts, _END])


def written() -> dict[Path, str]:
    """The page, with the figures of the committed runs."""
    text = PAGE.read_text()
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return {PAGE: before + rendered(page.read().figures, scale.read()) + after}


def _costs(found: Mapping[str, Cost]) -> str:
    return _table(
        "microseconds of CPU for one | on SQLite | on PostgreSQL, our processes | PostgreSQL's own "
        "| its transactions | kB it writes ahead",
        [
            f"{work} | {each.alone:,.0f} | {each.own:,.0f} | {each.database:,.0f} "
            f"| {each.commits:.2f} | {each.log / 1_000:.1f}"
            for work, each in found.items()
        ],
    )


def _needs(found: Mapping[str, Cost]) -> str:
    rows: list[str] = []
    for rate in RATES:
        for work in _PLANNED:
            each = found[work]
            alone = cores(rate, each.alone)
            rows.append(
                f"{rate:,} | {work} | {alone if alone <= ALONE else '-'} "
                f"| {cores(rate, each.own)} | {cores(rate, each.database)} "
                f"| {rate * each.commits:,.0f} | {rate * each.log / 1e6:,.1f}"
            )
    return _table(
        "a second | of | cores on SQLite | or cores for us | and for PostgreSQL "
        "| its transactions a second | MB/s it writes ahead",
        rows,
    )


def _scaled(run: Scale) -> str:
    rows: list[str] = []
    for work, by_workers in run.visits.items():
        first = next(iter(by_workers.values()))
        for workers, seen in by_workers.items():
            whole = seen.own + seen.database + seen.load
            rows.append(
                f"{work} | {workers} | {seen.rate:,.0f} | {seen.rate / first.rate:.2f} "
                f"| {seen.own:,.0f} | {seen.database:,.0f} | {seen.load:,.0f} "
                f"| {seen.rate * whole / 1e6:.2f} | {int(workers) * first.own / seen.own:.2f} "
                f"| {_shared(seen)} | {seen.connections:.0f}"
            )
    return _table(
        "work | workers | a second, by the clock | times one worker | our CPU, µs | PostgreSQL's "
        "| the load's | cores in use | times, were they free | transactions for one sync "
        "| connections",
        rows,
    )


def _sliced(run: Scale) -> str:
    rows: list[str] = []
    for work, by_workers in run.visits.items():
        first = next(iter(by_workers.values()))
        rows += [
            f"{work} | {workers} | {seen.rate:,.0f} | {seen.rate / first.rate:.2f} "
            f"| {seen.rate * (seen.own + seen.database + seen.load) / 1e6:.2f}"
            for workers, seen in by_workers.items()
        ]
    head = f"work, {run.slice_:.0%} of a core each | workers | a second | times one | cores in use"
    return _table(head, rows)


def _shared(seen: Visit) -> str:
    return f"{seen.commits / seen.syncs:.1f}" if seen.syncs > 0.01 else "-"


def _table(head: str, rows: list[str]) -> str:
    ruler = "|---" * (head.count("|") + 1) + "|"
    return "\n".join([f"| {head} |", ruler, *(f"| {row} |" for row in rows)])


def write() -> None:
    """Write it."""
    for path, text in written().items():
        path.write_text(text)


if __name__ == "__main__":
    write()
