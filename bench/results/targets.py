"""The targets of Valetkey's speed: what a run measured of each, and whether it is met."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.growth import scale
from bench.peers.bare import NAME as BARE
from bench.peers.compare import Figures
from bench.peers.hydra_peer import NAME as HYDRA
from bench.peers.keycloak_peer import NAME as KEYCLOAK
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.peers.work import (
    ACCOUNT,
    CONSENT,
    DISCOVERY,
    FLOW,
    IN_TURN,
    JWT,
    KEYS,
    PAGE,
    REFERENCE,
    REFRESH,
    RS256_FLOW,
    USERINFO_IN_TURN,
)

NODE = "oidc-provider, memory"
REDIS = "oidc-provider, Redis everysec"
PYTHON = (
    "django-oauth-toolkit, SQLite FULL",
    "django-oauth-toolkit, PostgreSQL",
    "Authlib, SQLite FULL",
    "Authlib, PostgreSQL",
)
SERVERS = (HYDRA, KEYCLOAK)
"""Complete servers, on PostgreSQL."""

_WORKLOADS: Sequence[tuple[str, float, float, float, float]] = (
    (JWT, 2.0, 2.0, 4.0, 0.0),
    (REFERENCE, 1.2, 2.0, 4.0, 0.0),
    (IN_TURN, 2.0, 0.0, 4.0, 1.0),
    (FLOW, 1.5, 2.5, 4.0, 1.0),
    (RS256_FLOW, 1.5, 2.5, 4.0, 1.0),
    (REFRESH, 1.5, 3.0, 4.0, 1.0),
    (USERINFO_IN_TURN, 2.0, 2.0, 4.0, 0.0),
    (KEYS, 2.0, 2.0, 2.0, 0.0),
    (DISCOVERY, 2.0, 2.0, 2.0, 0.0),
)
"""On SQLite how many times oidc-provider in memory, and on Redis; on PostgreSQL how many times each
of `SERVERS`, and oidc-provider on Redis. 0 where there is no target."""

WORKLOADS = tuple(workload for workload, *_ in _WORKLOADS)
_TIMES_PYTHON = 10.0
_SHARE = 0.6
_START = 1.0  # seconds
_IDLE = 90  # megabytes of the largest process
_LOADED = 150  # megabytes of the largest process
_PAGES = 1_000.0
_TWO_WORKERS = 1.8


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured, its target and its result."""

    what: str
    target: str
    found: str
    met: bool

    @property
    def cells(self) -> Sequence[str]:
        """Return the row of a table."""
        return (self.what, self.target, self.found, "met" if self.met else "not met")


def targets(figures: Figures) -> Sequence[Target]:
    """Return every target that the run has figures for."""
    return [
        *_ratios(figures),
        *_python(figures),
        *_life(figures),
        *_shares(figures),
        *_workers(),
        *_pages(figures),
    ]


def table(figures: Figures) -> str:
    """Return the targets as a table for terminals."""
    rows = [("measured", "target", "result", ""), *(target.cells for target in targets(figures))]
    return "\n".join(f"{a:66}{b:>44}{c:>14}  {d}" for a, b, c, d in rows)


def _ratio(
    figures: Figures, workload: str, own: str, other: str, times: float, which: str = ""
) -> Iterator[Target]:
    ours, theirs = figures.median(workload, own), figures.median(workload, other)
    if times and ours and theirs:
        what = f"{workload}; {own.removeprefix('Valetkey, ')}"
        yield Target(
            what, f"{times:g} times {which}{other}", f"{ours / theirs:.2f}", ours >= times * theirs
        )


def _best(figures: Figures, workload: str, others: Sequence[str]) -> str:
    """The fastest of them; the first if none was measured."""
    return max(others, key=lambda other: figures.median(workload, other) or 0.0)


def _ratios(figures: Figures) -> Iterator[Target]:
    for workload, memory, redis, server, level in _WORKLOADS:
        if memory == redis:
            best = _best(figures, workload, (NODE, REDIS))
            yield from _ratio(figures, workload, ON_SQLITE, best, memory, "the best, ")
        else:
            yield from _ratio(figures, workload, ON_SQLITE, NODE, memory)
            yield from _ratio(figures, workload, ON_SQLITE, REDIS, redis)
        for other in SERVERS:
            yield from _ratio(figures, workload, ON_POSTGRESQL, other, server)
        yield from _ratio(figures, workload, ON_POSTGRESQL, REDIS, level)


def _python(figures: Figures) -> Iterator[Target]:
    for workload in WORKLOADS:
        for other in PYTHON:
            own = ON_POSTGRESQL if "PostgreSQL" in other else ON_SQLITE
            yield from _ratio(figures, workload, own, other, _TIMES_PYTHON)


def _life(figures: Figures) -> Iterator[Target]:
    for own in (ON_SQLITE, ON_POSTGRESQL):
        if own not in figures.started:
            continue
        started, (idle, loaded) = figures.started[own], figures.memory[own]
        engine = own.removeprefix("Valetkey, ")
        yield Target(
            f"start to first answer; {engine}",
            f"{_START:g} s",
            f"{started:.2f} s",
            started <= _START,
        )
        yield Target(
            f"memory idle, largest process; {engine}",
            f"{_IDLE} MB",
            f"{idle[0]} MB",
            idle[0] <= _IDLE,
        )
        yield Target(
            f"memory after the load, largest process; {engine}",
            f"{_LOADED} MB",
            f"{loaded[0]} MB",
            loaded[0] <= _LOADED,
        )


def _shares(figures: Figures) -> Iterator[Target]:
    own, bare = figures.median(JWT, ON_SQLITE), figures.median(JWT, BARE)
    if own and bare:
        share = own / bare
        yield Target(f"share of {BARE}: {JWT}", f"{_SHARE:.0%}", f"{share:.0%}", share >= _SHARE)


def _workers() -> Iterator[Target]:
    """Two workers as `python -m bench.growth.scale` measured them, by CPU time."""
    run = scale.read().whole
    for work, by_workers in run.visits.items() if run is not None else ():
        if "1" in by_workers and "2" in by_workers:
            times = 2 * by_workers["1"].own / by_workers["2"].own
            yield Target(
                f"two workers, by CPU: {work}; PostgreSQL",
                f"{_TWO_WORKERS:g} times one",
                f"{times:.2f}",
                times >= _TWO_WORKERS,
            )


def _pages(figures: Figures) -> Iterator[Target]:
    for page in (PAGE, CONSENT, ACCOUNT):
        for own in (ON_SQLITE, ON_POSTGRESQL):
            if rate := figures.median(page, own):
                what = f"{page}; {own.removeprefix('Valetkey, ')}"
                yield Target(what, f"{_PAGES:,.0f}", f"{rate:,.0f}", rate >= _PAGES)
