"""How long requests take while nothing expires, and while much does and is swept out."""

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.growth.site import Site
from bench.load import Worker

_INSERTED = 6_000
"""Rows a second that are surely put in: the first of them must not expire before the last is."""

_LONGEST_SWEEP = 60.0
_SLICE = 300


@dataclass(frozen=True, slots=True)
class Window:
    """Milliseconds that requests took, as they were due, and the share of a core that was used."""

    late: Sequence[float]
    cpu: float

    def within(self, share: float) -> float:
        """What this share of the requests stayed below."""
        return _within(share, self.late)

    def slices(self, requests: int, share: float) -> list[float]:
        """The same for each so many requests: what hit one moment is in one of them."""
        starts = range(0, len(self.late) - requests + 1, requests)
        return [_within(share, self.late[start : start + requests]) for start in starts]


def _within(share: float, late: Sequence[float]) -> float:
    return sorted(late)[min(len(late) - 1, int(share * len(late)))]


async def paced(workers: Sequence[Worker], rate: float, seconds: float) -> list[float]:
    """Milliseconds from the moment at which each request was due to its answer."""
    free: asyncio.Queue[Worker] = asyncio.Queue()
    for worker in workers:
        free.put_nowait(worker)
    late = [0.0] * int(rate * seconds)
    running: set[asyncio.Task[None]] = set()

    async def one(worker: Worker, number: int, due: float) -> None:
        await worker.step()
        late[number] = 1_000 * (time.perf_counter() - due)
        free.put_nowait(worker)

    began = time.perf_counter()
    for number in range(len(late)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(await free.get(), number, due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return late


async def clean_up(
    at: Site,
    callers: Mapping[str, Sequence[Worker]],
    *,
    rate: float,
    seconds: int,
    per_second: int,
    rounds: int,
) -> None:
    """Print medians and 99th percentiles of windows in which nothing expires, and so many rows do.

    They alternate, so that a slow minute hits both; what counts is the median of the differences.
    """
    pairs = zip(
        callers["client credentials, by reference"], callers["refresh with rotation"], strict=True
    )
    mixed = [worker for pair in pairs for worker in pair]
    quiet: list[Window] = []
    busy: list[Window] = []
    print(f"{'':28}{'p50 ms':>9}{'p99 ms':>9}{'longest':>9}{'CPU':>7}")
    for _ in range(rounds):
        quiet.append(await _window(at, mixed, rate, seconds))
        _show("nothing expires", quiet[-1])
        begins = int(time.time()) + 3 + per_second * seconds // _INSERTED
        await asyncio.to_thread(at.database.expire, begins, per_second, seconds)
        await asyncio.sleep(max(0.0, begins - time.time()))
        busy.append(await _window(at, mixed, rate, seconds))
        left = await asyncio.to_thread(at.database.expired)
        _show(f"{per_second:,} rows a second", busy[-1])
        took = await _swept(at)
        print(f"  expired rows still there at its end: {left:,}; none {took:.0f} s later")
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        apart = [b.within(share) - q.within(share) for q, b in zip(quiet, busy, strict=True)]
        before, with_it = (
            statistics.median(window.within(share) for window in windows)
            for windows in (quiet, busy)
        )
        print(
            f"{name}: {before:.1f} ms without, {with_it:.1f} ms with it; the median of the"
            f" {rounds} differences is {statistics.median(apart):+.1f} ms"
        )
    for quantile, share in (("median", 0.5), ("third quartile", 0.75)):
        parts = [
            _within(share, [p99 for window in windows for p99 in window.slices(_SLICE, 0.99)])
            for windows in (quiet, busy)
        ]
        print(
            f"p99 of each {_SLICE} requests, {quantile} of those: {parts[0]:.1f} ms without,"
            f" {parts[1]:.1f} ms with it"
        )


async def _window(at: Site, workers: Sequence[Worker], rate: float, seconds: int) -> Window:
    before = at.worked()
    late = await paced(workers, rate, seconds)
    return Window(late, (at.worked() - before) / seconds)


async def _swept(at: Site) -> float:
    """Seconds until nothing that has expired is left."""
    began = time.monotonic()
    while await asyncio.to_thread(at.database.expired):
        assert time.monotonic() - began < _LONGEST_SWEEP, "clean-up does not keep up"
        await asyncio.sleep(1)
    return time.monotonic() - began


def _show(name: str, window: Window) -> None:
    print(
        f"{name:28}{window.within(0.5):9.1f}{window.within(0.99):9.1f}{max(window.late):9.1f}"
        f"{window.cpu:7.0%}",
        flush=True,
    )
