"""All servers up, visited in turn: what each does with a second of CPU, and how soon it answers."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from subprocess import SubprocessError

from bench.load import Worker, WorkloadError, measure
from bench.peers.bare import bare
from bench.peers.ceiling import ceiling
from bench.peers.hydra_peer import NAME as HYDRA
from bench.peers.hydra_peer import hydra, hydra_is_missing
from bench.peers.keycloak_peer import NAME as KEYCLOAK
from bench.peers.keycloak_peer import fetch, keycloak
from bench.peers.node_peer import oidc_provider, redis_is_there
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE, valetkey
from bench.peers.peer import Peer
from bench.peers.postgres import postgresql_is_there
from bench.peers.python_peer import authlib, django_oauth_toolkit
from bench.peers.work import (
    CALLERS,
    IN_TURN,
    JWT,
    MANY_TOKENS,
    ONCE,
    REFERENCE,
    RS256_FLOW,
    USERINFO_IN_TURN,
    WORKLOADS,
    plan,
)

RATE = 40
"""Requests per second while latency is measured: the slowest can do them beside the others."""


_FALLING = 0.9
_FEWEST_ROUNDS = 3
_LONGEST_VISIT = 60.0
_LONGEST_PLAN = 600.0
_MOST_TO_WARM = 12
_STILL_RISING = 1.05
# Answers about tokens are cached for 5 s, in which other servers are visited: a short visit would
# measure little but filling the cache.
_LONG_VISITS = {IN_TURN: 3, USERINFO_IN_TURN: 3}


@dataclass(slots=True)
class Figures:
    """What a run found. `rates` are operations per CPU-second by workload and server, by round.

    `latencies` are median and 99th percentile in milliseconds; `memory` the megabytes of each
    process before the load and after it, `databases` those of its database's processes together;
    `started` the seconds to the first answer. `failed` is whether a row of Valetkey is missing.
    """

    rates: dict[str, dict[str, list[float]]] = field(
        default_factory=dict[str, dict[str, list[float]]]
    )
    latencies: dict[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    memory: dict[str, tuple[list[int], list[int]]] = field(
        default_factory=dict[str, tuple[list[int], list[int]]]
    )
    started: dict[str, float] = field(default_factory=dict[str, float])
    versions: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    databases: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    failed: bool = False
    stopped: bool = False

    def median(self, workload: str, server: str) -> float | None:
        """The figure of one server for one workload; None where it was not measured."""
        rounds = self.rates.get(workload, {}).get(server)
        return statistics.median(rounds) if rounds else None

    def spread(self, workload: str, server: str) -> str:
        """Return the median with the lowest and the highest round; "-" if it was not measured."""
        rounds = self.rates.get(workload, {}).get(server)
        if not rounds:
            return "-"
        return f"{statistics.median(rounds):,.0f} ({min(rounds):,.0f} to {max(rounds):,.0f})"

    def falling(self) -> Sequence[str]:
        """Say which rates fell from each round to the next, and by more than a tenth in all."""
        return [
            f"Falling over the rounds: {server}, {workload}: "
            + ", ".join(f"{rate:,.0f}" for rate in rounds)
            for workload, by_server in self.rates.items()
            for server, rounds in by_server.items()
            if len(rounds) >= _FEWEST_ROUNDS
            and all(after < before for before, after in pairwise(rounds))
            and rounds[-1] < _FALLING * rounds[0]
        ]


@contextmanager
def servers(figures: Figures, *, alone: bool = False) -> Generator[Sequence[Peer]]:
    """Everyone who is compared, up; who could not be is named in `figures`, with the reason.

    `alone` is only Valetkey and the ceiling.
    """
    with ExitStack() as stack:

        def folder() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def join(name: str, peer: Callable[[], AbstractContextManager[Peer]]) -> None:
            with _left_out(name, "its start", figures):
                up.append(stack.enter_context(peer()))

        up = [stack.enter_context(valetkey(folder()))]
        has_postgresql = postgresql_is_there()
        if has_postgresql:
            up.append(stack.enter_context(valetkey(folder(), on_postgresql=True)))
        else:
            figures.missing.append("Valetkey on PostgreSQL: there is no postgresql-15 here")
        if not alone:
            join("oidc-provider, memory", lambda: oidc_provider(folder()))
            if redis_is_there():
                join("oidc-provider, Redis", lambda: oidc_provider(folder(), redis="everysec"))
            else:
                figures.missing.append("oidc-provider with Redis: there is no redis-server here")
            for on_postgresql in (False, True)[: 1 + has_postgresql]:
                for peer in (django_oauth_toolkit, authlib):
                    join(
                        f"{peer.__name__}, {'PostgreSQL' if on_postgresql else 'SQLite'}",
                        partial(peer, folder(), on_postgresql=on_postgresql),
                    )
            for name, why_not, complete in (
                (HYDRA, hydra_is_missing, hydra),
                (KEYCLOAK, fetch, keycloak),
            ):
                if reason := why_not() if has_postgresql else "there is no postgresql-15 here":
                    figures.missing.append(f"{name}: {reason}")
                else:
                    join(name, partial(complete, folder()))
            up.extend(stack.enter_context(bare(folder())))
        up.append(stack.enter_context(ceiling()))
        yield up


async def compare(
    peers: Sequence[Peer],
    rounds: int,
    seconds: float,
    figures: Figures,
    *,
    only: Sequence[str] = WORKLOADS,
    on_postgresql: Sequence[str] = WORKLOADS,
    paced: float = 0.0,
) -> None:
    """Measure all in turn: visits to warm up, then `rounds`; then `paced` seconds of latency.

    `figures` gets each figure as soon as there is one. A workload is prepared when its turn comes,
    because forms and tokens expire; one that asks about each token once, before each visit. A
    server is warm once its rate has stopped rising. `on_postgresql` are the workloads that
    Valetkey on PostgreSQL is measured at.
    """
    idle = _note_memory(peers, figures)
    figures.started.update({peer.name: peer.started for peer in peers})
    figures.versions.extend(dict.fromkeys(peer.versions for peer in peers if peer.versions))
    # The same connections in all workloads: servers limit connections of an address.
    lines = {peer.name: [peer.line() for _ in range(CALLERS)] for peer in peers}

    async def prepared(peer: Peer, workloads: Sequence[str]) -> Mapping[str, Sequence[Worker]]:
        async with asyncio.timeout(_LONGEST_PLAN):
            return await plan(peer, workloads, lines[peer.name])

    try:
        for peer in peers:
            with _left_out(peer.name, "before the rounds", figures):
                first = [workload for workload in only if workload not in MANY_TOKENS]
                await _heat(peer, await prepared(peer, first), seconds)
        for workload in only:
            await _take_turns(peers, workload, rounds, seconds, figures, prepared, on_postgresql)
        for peer in peers if paced else ():
            with _left_out(peer.name, "a fixed rate", figures):
                planned = await prepared(peer, (JWT, REFERENCE))
                async with asyncio.timeout(_LONGEST_VISIT):
                    times = await _paced(planned[JWT if JWT in planned else REFERENCE], paced)
                figures.latencies[peer.name] = (
                    statistics.median(times),
                    times[int(len(times) * 0.99)],
                )
        _note_memory(peers, figures, idle)
    finally:
        for line in chain.from_iterable(lines.values()):
            line.close()


_Idle = Mapping[str, tuple[list[int], int]]


def _note_memory(peers: Sequence[Peer], figures: Figures, idle: _Idle | None = None) -> _Idle:
    """Keep the memory now beside that of `idle` servers; return it."""
    now = {peer.name: (peer.memory(), peer.database_memory()) for peer in peers}
    for peer in peers:
        (before, stored), (after, filled) = (idle or now)[peer.name], now[peer.name]
        figures.memory[peer.name] = before, after
        if peer.databases():
            figures.databases[peer.name] = stored, filled
    return now


async def _take_turns(
    peers: Sequence[Peer],
    workload: str,
    rounds: int,
    seconds: float,
    figures: Figures,
    prepared: Callable[[Peer, Sequence[str]], Awaitable[Mapping[str, Sequence[Worker]]]],
    on_postgresql: Sequence[str],
) -> None:
    """Prepare a workload and warm up everywhere; then visit all, in each round."""
    rates = figures.rates.setdefault(workload, {})
    plans: dict[str, Sequence[Worker]] = {}
    for peer in peers:
        if peer.name == ON_POSTGRESQL and workload not in on_postgresql:
            continue
        with _left_out(peer.name, workload, figures):
            if workers := (await prepared(peer, (workload,))).get(workload):
                await _warm(peer, workload, workers, seconds / 2)
                plans[peer.name] = workers
    for peer in [*peers] * rounds:
        if (workers := plans.pop(peer.name, ())) == ():
            continue
        with _left_out(peer.name, workload, figures):
            if workload in ONCE and peer.paths.introspection:
                workers = (await prepared(peer, (workload,)))[workload]
            rate = await _rate(peer, workload, workers, seconds)
            rates.setdefault(peer.name, []).append(rate)
            plans[peer.name] = workers


@contextmanager
def _left_out(name: str, what: str, figures: Figures) -> Generator[None]:
    """Leave a server out of `what` it fails at, and say why."""
    try:
        yield
    except (AssertionError, OSError, ValueError, LookupError, SubprocessError) as error:
        reason = str(error) if isinstance(error, AssertionError) else type(error).__name__
        whole = reason if isinstance(error, WorkloadError) else f"{name}, {what}: {reason}"
        figures.missing.append(f"Left out: {whole}")
        figures.failed = figures.failed or name in (ON_SQLITE, ON_POSTGRESQL)


async def _heat(peer: Peer, planned: Mapping[str, Sequence[Worker]], seconds: float) -> None:
    """Go through everything until the server used the seconds of CPU that it needs to be warm."""
    while True:
        for workload, workers in planned.items():
            if peer.worked() >= peer.warm:
                return
            await _rate(peer, workload, workers, seconds)


async def _rate(peer: Peer, workload: str, workers: Sequence[Worker], seconds: float) -> float:
    """Return operations per CPU-second of one visit."""
    if workload == RS256_FLOW:
        peer = peer.by_rs256 or peer
    had = peer.worked()
    async with asyncio.timeout(_LONGEST_VISIT):
        long = seconds * _LONG_VISITS.get(workload, 1)
        done = await measure(workers, long, f"{peer.name}, {workload}")
    used = peer.worked() - had
    assert used > 0, f"{done.operations} operations without a moment of CPU"
    return done.operations / used


async def _warm(peer: Peer, workload: str, workers: Sequence[Worker], seconds: float) -> None:
    """Visit until the rate is less than 5 % above the one before: compilers at run time.

    What asks about each token once is done after one visit, which uses all tokens up; the same
    code is warm from the tokens in turn.
    """
    before = await _rate(peer, workload, workers, seconds)
    if workload in ONCE:
        return
    for _ in range(_MOST_TO_WARM):
        rate = await _rate(peer, workload, workers, seconds)
        if rate < before * _STILL_RISING:
            return
        before = rate


async def _paced(workers: Sequence[Worker], seconds: float) -> list[float]:
    """Milliseconds of each request at a fixed rate, from the moment it was due, sorted."""
    times: list[float] = []
    began = time.perf_counter()

    async def ask(worker: Worker, due: float) -> None:
        await worker.step()
        times.append((time.perf_counter() - due) * 1_000)

    tasks: list[asyncio.Task[None]] = []
    for number in range(int(seconds * RATE)):
        due = began + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if number >= len(workers):
            # One connection carries one request; the one that is due may still be at work.
            await tasks[number - len(workers)]
        tasks.append(asyncio.create_task(ask(workers[number % len(workers)], due)))
    await asyncio.gather(*tasks)
    return sorted(times)
