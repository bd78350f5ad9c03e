"""`python -m bench.growth`: hot operations on a full database beside an empty one; clean-up.

Both servers are visited in turn, on one core with the load; what counts is operations per second
of CPU, those of PostgreSQL with them. Then requests come at a fixed rate, in windows in which
nothing expires and in windows in which much does.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from bench.growth.asks import Flow, Rotation, introspection, machine, reference_tokens, userinfo
from bench.growth.expiry import clean_up
from bench.growth.fill import Size
from bench.growth.site import PEOPLE, Site, site
from bench.load import Worker, measure
from bench.processes import ended_together

_KEPT = 20
_FULL = Size(10_000_000, 1_000_000, 100_000)
_EMPTY = Size(0, PEOPLE, 0)
Plan = Sequence[tuple[str, Sequence[Worker]]]


async def workloads(at: Site) -> Plan:
    """Everything that is measured on one server, each with its callers."""
    address = at.place
    flows = [Flow(address, cookies) for cookies in at.cookies]
    await asyncio.gather(*(_often(flow) for flow in flows))
    answer_lists = [list(flow.answers) for flow in flows]
    references = await reference_tokens(address, _KEPT * PEOPLE)
    own = [references[start::PEOPLE] for start in range(PEOPLE)]
    refreshing = [deque(answer["refresh_token"] for answer in answers) for answers in answer_lists]
    return (
        ("client credentials, JWT", [machine(address, "service") for _ in flows]),
        ("client credentials, by reference", [machine(address, "reference") for _ in flows]),
        ("introspection, by reference", [introspection(address, tokens) for tokens in own]),
        ("code + PKCE, with ID token", flows),
        ("refresh with rotation", [Rotation(address, tokens) for tokens in refreshing]),
        (
            "userinfo",
            [userinfo(address, [a["access_token"] for a in answers]) for answers in answer_lists],
        ),
    )


async def _often(flow: Flow) -> None:
    for _ in range(_KEPT):
        await flow.step()


async def compare(sites: Sequence[Site], rounds: int, seconds: float) -> None:
    """Print operations per CPU-second of each workload: medians of the rounds."""
    plans = [await workloads(server) for server in sites]
    print(f"{'per CPU-second':36}" + "".join(f"{server.name:>12}" for server in sites))
    for position, (name, _) in enumerate(plans[0]):
        rates: dict[str, list[float]] = {server.name: [] for server in sites}
        for turn in range(rounds + 1):
            for server, plan in zip(sites, plans, strict=True):
                before = server.worked()
                measured = await measure(plan[position][1], seconds)
                # The first round warms up.
                if turn:
                    rates[server.name].append(measured.operations / (server.worked() - before))
        medians = [statistics.median(samples) for samples in rates.values()]
        shown = "".join(f"{median:12,.0f}" for median in medians)
        print(f"{name:36}{shown}   {100 * medians[-1] / medians[0] - 100:+.0f} %", flush=True)


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--share", type=float, default=0.1, help="of 10,000,000 grants")
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL")
    parser.add_argument("--kept", type=Path, help="a folder: filled once, and served again later")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each visit; 0: none")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second, clean-up")
    parser.add_argument("--expiring", type=int, default=2_000, help="rows a second, clean-up")
    parser.add_argument("--clean-up", type=int, default=30, help="seconds of a window; 0: none")
    parser.add_argument("--windows", type=int, default=3, help="of each kind, clean-up")
    chosen = parser.parse_args()
    size = Size(*(int(chosen.share * full) for full in (_FULL.grants, _FULL.users, _FULL.clients)))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        # The socket of PostgreSQL must have a short name.
        temporary = Path(stack.enter_context(TemporaryDirectory(prefix="vk-", dir="/tmp")))
        # Where we are root, PostgreSQL is somebody else, who has to get through.
        temporary.chmod(0o711)

        def begin(name: str, of: Size) -> Site:
            where = (chosen.kept or temporary) / name
            return stack.enter_context(site(where, name, of, on_postgresql=chosen.postgresql))

        began = time.monotonic()
        sites = [begin("empty", _EMPTY), begin("full", size)]
        print(
            f"{size.grants:,} grants, {size.users:,} users, {size.clients:,} clients: "
            f"{sites[1].database.size() / 1e9:.1f} GB, there in {time.monotonic() - began:.0f} s"
        )
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        if chosen.seconds:
            runner.run(compare(sites, chosen.rounds, chosen.seconds))
            print(f"megabytes: {', '.join(f'{server.name} {server.memory()}' for server in sites)}")
        if chosen.clean_up:
            callers = dict(runner.run(workloads(sites[1])))
            runner.run(
                clean_up(
                    sites[1],
                    callers,
                    rate=chosen.rate,
                    seconds=chosen.clean_up,
                    per_second=chosen.expiring,
                    rounds=chosen.windows,
                )
            )


if __name__ == "__main__":
    with ended_together():
        main()
