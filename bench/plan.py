"""`python -m bench.plan --requests 10000`: what so many requests a second need, as calculated.

Nodes and their cores, those of PostgreSQL and its standbys, write-ahead log, storage and money. The
prices are arguments, and their defaults are those of no vendor. With --write the figures of the
page are written, and the rest of it is left as it is.
"""

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.growth import scale
from bench.growth.scale import Kept, Scale, Visit
from bench.peers.compare import Figures
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.peers.work import FLOW, INTROSPECTION, JWT, MIX, REFERENCE, REFRESH, USERINFO
from bench.results import page

PAGE = Path(__file__).parents[1] / "docs/explanation/how-much-you-need.md"
RATES = (1_000, 10_000, 100_000)
"""Operations a second that are planned for."""

FREE = 0.5
"""The share of each core that is left free: for bursts, for what else runs, for a machine lost."""

ALONE = 2
"""So many cores on SQLite were measured; more are not planned for."""

REQUESTS = (10, 100, 1_000, 10_000, 100_000)
"""Token requests a second whose needs the page lists."""

_HOURS = 730  # of a month
_DAY = 86_400
_GB = 1e9
_BEGIN = "<!-- Written by `python -m bench.plan --write`, down to the next mark. -->"
_END = "<!-- End of what is written. -->"
_SHARED = (
    "Made while other programs used both cores (load average 8 to 17), so nothing is said by the "
    "clock, and a microsecond of CPU does less than in the quiet run: what others put into the "
    "caches has to be read again. Above, only the bytes by which PostgreSQL grows are from here."
)
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is planned with: the size of a machine, standbys, days of events, prices.

    Prices are in any currency: for a core and an hour, and for a GB of disk and a month.
    """

    node_cores: int = 8
    replicas: int = 1
    days: int = 365
    core_hour: float = 0.04
    gb_month: float = 0.10


@dataclass(frozen=True, slots=True)
class Need:
    """What so many requests a second need; `compute` and `disks` are prices for a month.

    `log` is bytes of write-ahead log a second, `stored` GB by which PostgreSQL grows a day, `kept`
    GB after all days of events. `is_measured` says whether a run has served as many.
    """

    rate: float
    alone: int
    nodes: int
    node_cores: int
    database: int
    log: float
    stored: float
    kept: float
    compute: float
    disks: float
    is_measured: bool


def reckon(rate: float, work_cost: Cost, stored: float, fastest: float, chosen: Chosen) -> Need:
    """Return what `rate` requests a second need that each add `stored` bytes.

    At least two nodes: one of them may be lost, and half of each core is free.
    """
    own, database = cores(rate, work_cost.own), cores(rate, work_cost.database)
    nodes = max(2, math.ceil(own / chosen.node_cores))
    node_cores = math.ceil(own / nodes)
    servers = 1 + chosen.replicas
    a_day = rate * stored * _DAY / _GB
    kept = a_day * chosen.days
    paid = nodes * node_cores + servers * database
    return Need(
        rate,
        cores(rate, work_cost.alone),
        nodes,
        node_cores,
        database,
        rate * work_cost.log,
        a_day,
        kept,
        paid * chosen.core_hour * _HOURS,
        servers * kept * chosen.gb_month,
        rate <= fastest,
    )


def needs(
    rates: Sequence[float], work: str, figures: Figures, kept: Kept, chosen: Chosen
) -> Sequence[Need]:
    """Return what each of these rates needs; empty without both runs."""
    if kept.whole is None or kept.shared is None or work not in kept.shared.visits:
        return ()
    work_cost = costs(figures, kept.whole)[work]
    stored = statistics.median(seen.stored for seen in kept.shared.visits[work].values())
    fastest = max(seen.rate for seen in kept.whole.visits[work].values())
    return [reckon(rate, work_cost, stored, fastest, chosen) for rate in rates]


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
    work_costs: dict[str, Cost] = {}
    for work in _COSTS:
        alone, whole = figures.median(work, ON_SQLITE), figures.median(work, ON_POSTGRESQL)
        if alone and whole and work in run.visits:
            work_costs[work] = cost(alone, whole, run.visits[work][min(run.visits[work], key=int)])
    return work_costs


def rendered(figures: Figures, kept: Kept) -> str:
    """The figures of the page."""
    parts = [_BEGIN]
    if kept.whole is not None:
        work_costs = costs(figures, kept.whole)
        parts += ["## What one costs", _costs(work_costs)]
        parts += ["## How many cores", _needs(work_costs)]
        listed = needs(REQUESTS, JWT, figures, kept, Chosen())
        if listed:
            parts += ["## Machines, storage and money", _stated(Chosen()), listing(listed)]
        parts += ["## One, two and four workers", _scaled(kept.whole)]
    if kept.sliced is not None:
        parts += ["### With a slice of a core for each worker", _sliced(kept.sliced)]
    if kept.shared is not None:
        parts += ["### On a machine in use, by CPU time", _SHARED, _shared_run(kept.shared)]
    return "\n\n".join([*parts, _END])


def written() -> dict[Path, str]:
    """The page, with the figures of the committed runs."""
    text = PAGE.read_text()
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return {PAGE: before + rendered(page.read().figures, scale.read()) + after}


def _costs(work_costs: Mapping[str, Cost]) -> str:
    return _table(
        "microseconds of CPU for one | on SQLite | on PostgreSQL, our processes | PostgreSQL's own "
        "| its transactions | kB it writes ahead",
        [
            f"{work} | {work_cost.alone:,.0f} | {work_cost.own:,.0f} | {work_cost.database:,.0f} "
            f"| {work_cost.commits:.2f} | {work_cost.log / 1_000:.1f}"
            for work, work_cost in work_costs.items()
        ],
    )


def _needs(work_costs: Mapping[str, Cost]) -> str:
    rows: list[str] = []
    for rate in RATES:
        for work in _PLANNED:
            work_cost = work_costs[work]
            alone = cores(rate, work_cost.alone)
            rows.append(
                f"{rate:,} | {work} | {alone if alone <= ALONE else '-'} "
                f"| {cores(rate, work_cost.own)} | {cores(rate, work_cost.database)} "
                f"| {rate * work_cost.commits:,.0f} | {rate * work_cost.log / 1e6:,.1f}"
            )
    return _table(
        "a second | of | cores on SQLite | or cores for us | and for PostgreSQL "
        "| its transactions a second | MB/s it writes ahead",
        rows,
    )


def _stated(chosen: Chosen) -> str:
    return (
        f"Token requests ({JWT}) all day long, on PostgreSQL: machines of at most "
        f"{chosen.node_cores} cores, standbys of PostgreSQL of the same size: {chosen.replicas}, "
        f"events kept for {chosen.days} days (`log.keep_events`). A core costs "
        f"{chosen.core_hour:.2f} an hour and a GB of disk {chosen.gb_month:.2f} a month. These "
        "prices are of no vendor: give yours with `--core-hour` and `--gb-month`."
    )


def listing(need_list: Sequence[Need]) -> str:
    """Return the table of these needs."""
    return _table(
        "requests a second | as many were | cores with SQLite, one machine | nodes, cores of each "
        "| PostgreSQL's cores, each | MB/s it writes ahead | GB a day | GB kept "
        "| money a month for cores | and for disks",
        [
            f"{need.rate:,.0f} | {'served in a run' if need.is_measured else 'only calculated'} "
            f"| {need.alone if need.alone <= ALONE else '-'} "
            f"| {need.nodes}, {need.node_cores} | {need.database} | {need.log / 1e6:,.2f} "
            f"| {need.stored:,.1f} | {need.kept:,.0f} | {need.compute:,.0f} | {need.disks:,.0f}"
            for need in need_list
        ],
    )


def _shared_run(run: Scale) -> str:
    return _table(
        "work | workers | our CPU, µs | PostgreSQL's | the load's | kB it writes ahead "
        "| bytes by which it grows",
        [
            f"{work} | {workers} | {seen.own:,.0f} | {seen.database:,.0f} | {seen.load:,.0f} "
            f"| {seen.log / 1_000:.1f} | {seen.stored:,.0f}"
            for work, by_workers in run.visits.items()
            for workers, seen in by_workers.items()
        ],
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


def main() -> None:
    """Print what is needed, or write the page."""
    kept, usual = scale.read(), Chosen()
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__)
    parser.add_argument("--requests", type=float, nargs="+", default=REQUESTS, help="a second")
    parser.add_argument(
        "--work", default=JWT, choices=[*(kept.shared.visits if kept.shared else ())]
    )
    parser.add_argument("--node-cores", type=int, default=usual.node_cores, help="of a machine")
    parser.add_argument("--replicas", type=int, default=usual.replicas, help="of PostgreSQL")
    parser.add_argument("--days", type=int, default=usual.days, help="for which events are kept")
    parser.add_argument("--core-hour", type=float, default=usual.core_hour, help="its price")
    parser.add_argument("--gb-month", type=float, default=usual.gb_month, help="its price")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.write:
        write()
        return
    chosen = Chosen(
        arguments.node_cores,
        arguments.replicas,
        arguments.days,
        arguments.core_hour,
        arguments.gb_month,
    )
    need_list = needs(arguments.requests, arguments.work, page.read().figures, kept, chosen)
    print(listing(need_list))


if __name__ == "__main__":
    main()
