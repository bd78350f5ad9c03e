"""E10: requests at five times the rate that can be served, for two minutes; then half of it."""

import asyncio
import os
import random
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import uvloop

from bench.load import Connection
from bench.ports import free_port
from bench.servers import family, worked
from bench.workloads import Place
from tests.reliability.flows import AUTHORIZE
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome, percentile
from tests.stories.processes.serving import PASSWORD
from tests.support import postgres
from valetkey.testing.browser import UserAgent

_TIMES = 5
_CALLERS = 32  # who measure what can be served, each with one request at a time
_CONNECTIONS = 1_000
_PER_NETWORK = 50  # connections from each /24 of loopback, well below the limit for one
_MEASURED = 5.0  # seconds
_AFTER = 10.0  # seconds at half of what can be served
_ENOUGH = 30  # seconds of overload, below which the machine may be busy with other tests
_GOODPUT = 0.8
_REFUSED = 0.05  # seconds to a refusal, 99th percentile
_REPEATED = 0.55  # seconds; a connection that repeats a refused request earlier rests for a second
_RESTED = 1.5  # seconds to its next refusal, 99th percentile
_RECOVERED = 5.0
_LONGEST = 10.0
_UNAVAILABLE = 503
_REDIRECTS = {302, 303}

T = TypeVar("T")


@dataclass(slots=True)
class _Phase:
    """Requests at a rate, and what came of them; seconds count from when one was sent."""

    offered: int = 0
    unsent: int = 0
    """Requests for which no connection was free: all waited for answers."""
    good: list[float] = field(default_factory=list[float])
    refused: list[float] = field(default_factory=list[float])
    repeated: list[float] = field(default_factory=list[float])
    """Refusals of connections that repeated a refused request within half a second."""
    refused_at: dict[Connection, float] = field(default_factory=dict[Connection, float])
    last_refused: float = 0.0
    """Seconds from the beginning to the last request that was refused or not sent."""
    strange: set[int] = field(default_factory=set[int])
    cut: int = 0
    cpu: float = 0.0
    """CPU-seconds of the servers."""
    lasted: float = 0.0

    @property
    def goodput(self) -> float:
        """Good answers in a CPU-second of the servers, which neighbours do not change."""
        return len(self.good) / self.cpu

    @property
    def longest(self) -> float:
        """Seconds to the last answer to arrive."""
        return max((*self.good, *self.refused, *self.repeated), default=0.0)


@dataclass(frozen=True, slots=True)
class _Found:
    """Both phases, after what can be served was measured."""

    peak: float
    """Good answers in a CPU-second."""
    capacity: float
    """Good answers in a second."""
    over: _Phase
    after: _Phase

    def is_good(self, *, exact: bool) -> bool:
        """Return whether the promise holds; only an `exact` run is judged by times and rates."""
        held = (
            not (self.over.strange | self.after.strange)
            and not (self.over.cut or self.after.cut)
            and self.over.longest <= _LONGEST
            and bool(self.over.refused)
        )
        return held and (
            not exact
            or (
                self.over.goodput >= _GOODPUT * self.peak
                and percentile(self.over.refused, 0.99) <= _REFUSED
                and percentile(self.over.repeated, 0.99) <= _RESTED
                and self.after.last_refused <= _RECOVERED
            )
        )

    def __str__(self) -> str:
        """Return the counts for a row of the table."""
        over, after = self.over, self.after
        strange = sorted(over.strange | after.strange)
        # What is left of the CPU time after the answers went into refusals.
        refusal_cpu = max(0.0, over.cpu - len(over.good) / self.peak) / max(
            1, len(over.refused) + len(over.repeated)
        )
        middle, late = (1_000 * percentile(over.refused, share) for share in (0.5, 0.99))
        repeated = 1_000 * percentile(over.repeated, 0.99)
        refused = (
            f"{len(over.refused)} × 503 after {middle:.0f} ms (median), {late:.0f} ms (p99), "
            f"{len(over.repeated)} to connections that repeated a refused request after "
            f"{repeated:.0f} ms (p99), {1e6 * refusal_cpu:.0f} µs of CPU each"
        )
        return (
            f"{self.capacity:.0f} codes a second can be served; "
            f"{over.offered / over.lasted:.0f} requests a second for {over.lasted:.0f} s: "
            f"{len(over.good)} codes ({100 * over.goodput / self.peak:.0f} % of the peak), "
            f"{refused}, {over.unsent} without a free connection, longest {over.longest:.1f} s; "
            f"then {after.offered / after.lasted:.0f} a second, last 503 after "
            f"{after.last_refused:.1f} s"
            + (f"; others: {strange}" if strange else "")
            + (f"; {over.cut + after.cut} cut off" if over.cut + after.cut else "")
        )


def overload(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Overload a server for `times` seconds on each engine, from another core."""
    summaries: list[str] = []
    held = True
    engines: Mapping[str, AbstractContextManager[str]] = {
        "SQLite": nullcontext("sqlite:///a/auth.db"),
        "PostgreSQL": postgres.database(),
    }
    for name, own in engines.items():
        with own as database:
            result = _overloaded(folder / name, times, database)
        held = held and result.is_good(exact=times >= _ENOUGH)
        summaries.append(f"{name}: {result}")
    return Outcome(
        "E10 overload",
        f"at five times the rate that can be served goodput stays at 80 % of the peak, the excess "
        f"gets 503 within {1_000 * _REFUSED:.0f} ms at p99, on connections that repeat a refused "
        f"request within half a second after a second, nothing takes more than {_LONGEST:.0f} s; "
        f"afterwards no 503 after {_RECOVERED:.0f} s",
        "; ".join(summaries),
        held,
    )


def _overloaded(here: Path, seconds: float, database: str) -> _Found:
    address = f"127.0.0.1:{free_port()}"
    node, url = Node(here), f"http://{address}"
    configure(here, url=url, listen=address, database=database)
    register(here)
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    with stopped_in_the_end(node):
        try:
            os.sched_setaffinity(0, {first})
            node.start()
            os.sched_setaffinity(0, others or {first})
            assert node.process is not None
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_phases(url, node.process.pid, seconds))
        finally:
            os.sched_setaffinity(0, before)


def _request(url: str) -> bytes:
    """Sign in, allow the app once, and return a request for a code that works again and again."""
    person = UserAgent(url)
    page = person.sign_in(person.open(f"{url}{AUTHORIZE}"), "ada", PASSWORD)
    page = page if page.location else person.allow(page)
    assert page.redirect_parameters["code"]
    cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    return Place.of(url).request("GET", AUTHORIZE, "", f"Cookie: {cookies}")


async def _phases(url: str, parent: int, seconds: float) -> _Found:
    address, request = Place.of(url), _request(url)
    loop = asyncio.get_running_loop()
    lines: list[Connection] = []
    for number in range(_CONNECTIONS):
        sender = (f"127.{1 + number // _PER_NETWORK}.0.1", 0)
        _, line = await loop.create_connection(
            Connection, address.host, address.port, local_addr=sender
        )
        lines.append(line)
    await _served(lines[:_CALLERS], request, 1.0)  # until caches are warm
    calm = await _measured(parent, _served(lines[:_CALLERS], request, min(_MEASURED, seconds)))
    capacity = len(calm.good) / calm.lasted
    over = await _measured(parent, _paced(lines, request, _TIMES * capacity, seconds))
    after = await _measured(parent, _paced(lines, request, capacity / 2, min(_AFTER, seconds)))
    for line in lines:
        line.close()
    return _Found(calm.goodput, capacity, over, after)


async def _measured(parent: int, load: Coroutine[None, None, _Phase]) -> _Phase:
    """Note the time and the CPU-seconds that a load takes."""
    began, had = time.perf_counter(), sum(worked(pid) for pid in family(parent))
    phase = await load
    phase.cpu = sum(worked(pid) for pid in family(parent)) - had
    phase.lasted = time.perf_counter() - began
    return phase


async def _served(lines: Sequence[Connection], request: bytes, seconds: float) -> _Phase:
    """Ask on each connection again and again."""
    phase = _Phase()
    began = time.perf_counter()

    async def caller(line: Connection) -> None:
        while time.perf_counter() < began + seconds:
            await _ask(phase, line, request, 0.0)

    await asyncio.gather(*map(caller, lines))
    return phase


async def _paced(
    lines: Sequence[Connection], request: bytes, rate: float, seconds: float
) -> _Phase:
    """Ask at this rate, on whichever connection is free."""
    phase = _Phase()
    free = list(lines)
    began = time.perf_counter()

    async def ask(line: Connection, due: float) -> None:
        await _ask(phase, line, request, due)
        free.append(line)

    async with asyncio.TaskGroup() as running:
        while (now := time.perf_counter() - began) < seconds:
            while phase.offered < now * rate:
                due, phase.offered = phase.offered / rate, phase.offered + 1
                if free:
                    running.create_task(ask(free.pop(), due))
                else:
                    phase.unsent, phase.last_refused = phase.unsent + 1, due
            await asyncio.sleep(0.001)
    return phase


async def _ask(phase: _Phase, line: Connection, request: bytes, due: float) -> None:
    sent = time.perf_counter()
    try:
        reply = await line.ask(request)
    except ConnectionError:
        phase.cut += 1
        return
    took = time.perf_counter() - sent
    if reply.status == _UNAVAILABLE and b"retry-after:" in reply.head.lower():
        was_refused = phase.refused_at.get(line, -1.0)
        (phase.repeated if sent - was_refused < _REPEATED else phase.refused).append(took)
        phase.refused_at[line] = sent + took
        phase.last_refused = max(phase.last_refused, due)
    elif reply.status in _REDIRECTS and b"code=" in reply.head:
        phase.good.append(took)
    else:
        phase.strange.add(reply.status)
