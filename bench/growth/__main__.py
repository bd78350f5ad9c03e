"""`python -m bench.growth`: hot operations on a full database beside an empty one; clean-up.

Both servers are visited in turn, on one core with the load; what counts is operations per second
of CPU. Then requests come at a fixed rate while nothing expires, and while much does.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench.growth.asks import Flow, Rotation, introspection, machine, reference_tokens, userinfo
from bench.growth.fill import Size, expire, expired
from bench.growth.site import PEOPLE, Site, site
from bench.load import Worker, measure

_KEPT = 20
_FULL = Size(10_000_000, 1_000_000, 100_000)
_EMPTY = Size(0, PEOPLE, 0)
Plan = Sequence[tuple[str, Sequence[Worker]]]


async def workloads(at: Site) -> Plan:
    """Everything that is measured on one server, each with its callers."""
    place = at.place
    flows = [Flow(place, cookies) for cookies in at.cookies]
    await asyncio.gather(*(_often(flow) for flow in flows))
    told = [list(flow.answers) for flow in flows]
    references = await reference_tokens(place, _KEPT * PEOPLE)
    own = [references[start::PEOPLE] for start in range(PEOPLE)]
    refreshing = [deque(answer["refresh_token"] for answer in answers) for answers in told]
    return (
        ("client credentials, JWT", [machine(place, "service") for _ in flows]),
        ("client credentials, by reference", [machine(place, "reference") for _ in flows]),
        ("introspection, by reference", [introspection(place, tokens) for tokens in own]),
        ("code + PKCE, with ID token", flows),
        ("refresh with rotation", [Rotation(place, tokens) for tokens in refreshing]),
        ("userinfo", [userinfo(place, [a["access_token"] for a in each]) for each in told]),
    )


async def _often(flow: Flow) -> None:
    for _ in range(_KEPT):
        await flow.step()


async def compare(sites: Sequence[Site], rounds: int, seconds: float) -> None:
    """Print operations per CPU-second of each workload: medians of the rounds."""
    plans = [await workloads(each) for each in sites]
    print(f"{'per CPU-second':36}" + "".join(f"{each.name:>12}" for each in sites))
    for place, (name, _) in enumerate(plans[0]):
        rates: dict[str, list[float]] = {each.name: [] for each in sites}
        for turn in range(rounds + 1):
            for each, plan in zip(sites, plans, strict=True):
                before = each.worked()
                measured = await measure(plan[place][1], seconds)
                # The first round warms up.
                if turn:
                    rates[each.name].append(measured.operations / (each.worked() - before))
        medians = [statistics.median(found) for found in rates.values()]
        shown = "".join(f"{median:12,.0f}" for median in medians)
        print(f"{name:36}{shown}   {100 * medians[-1] / medians[0] - 100:+.0f} %", flush=True)


async def paced(workers: Sequence[Worker], rate: float, seconds: float) -> list[float]:
    """Milliseconds from the moment at which each request was due to its answer."""
    free: asyncio.Queue[Worker] = asyncio.Queue()
    for each in workers:
        free.put_nowait(each)
    late: list[float] = []
    running: set[asyncio.Task[None]] = set()

    async def one(worker: Worker, due: float) -> None:
        await worker.step()
        late.append(1_000 * (time.perf_counter() - due))
        free.put_nowait(worker)

    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(await free.get(), due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return sorted(late)


async def clean_up(at: Site, rate: float, seconds: int, per_second: int) -> None:
    """Print how long requests take while nothing expires, and while so many rows do."""
    plan = dict(await workloads(at))
    mixed = [
        worker
        for pair in zip(
            plan["client credentials, by reference"], plan["refresh with rotation"], strict=True
        )
        for worker in pair
    ]
    for told in ("nothing expires", f"{per_second:,} rows a second expire"):
        if not told.startswith("nothing"):
            await asyncio.to_thread(expire, at.database, per_second, seconds)
        before = at.worked()
        late = await paced(mixed, rate, seconds)
        cpu = at.worked() - before
        p50, p99, most = (late[int(share * len(late))] for share in (0.5, 0.99, 0.9999))
        print(
            f"{told:36} p50 {p50:6.1f} ms  p99 {p99:6.1f} ms  longest {most:6.1f} ms  CPU "
            f"{100 * cpu / seconds:3.0f} %",
            flush=True,
        )
    left = [expired(at.database)]
    await asyncio.sleep(15)
    left.append(expired(at.database))
    print(f"expired rows still there: {left[0]:,} at the end, {left[1]:,} after 15 seconds more")


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--share", type=float, default=0.1, help="of 10,000,000 grants")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each visit")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second, clean-up")
    parser.add_argument("--expiring", type=int, default=2_000, help="rows a second, clean-up")
    parser.add_argument("--clean-up", type=int, default=40, help="seconds of it")
    chosen = parser.parse_args()
    size = Size(*(int(chosen.share * full) for full in (_FULL.grants, _FULL.users, _FULL.clients)))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack:

        def begin(name: str, of: Size) -> Site:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            return stack.enter_context(site(folder, name, of))

        began = time.monotonic()
        sites = [begin("empty", _EMPTY), begin("full", size)]
        bytes_ = sites[1].database.stat().st_size
        print(
            f"{size.grants:,} grants, {size.users:,} users, {size.clients:,} clients: "
            f"{bytes_ / 1e9:.1f} GB, filled in {time.monotonic() - began:.0f} s"
        )
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        runner.run(compare(sites, chosen.rounds, chosen.seconds))
        print(f"megabytes: {', '.join(f'{each.name} {each.memory()}' for each in sites)}")
        runner.run(clean_up(sites[1], chosen.rate, chosen.clean_up, chosen.expiring))


if __name__ == "__main__":
    main()
