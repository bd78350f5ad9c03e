"""`python -m bench.overload`: far more callers than can be served at once, and a flood of sign-ins.

The servers are on one core, the load on another. First callers that begin again as soon as they
are done: how many answers are good, how fast they and the refusals come. Then tokens at a fixed
rate, alone and beside guesses at passwords, each of which costs a hash.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import uvloop

from bench.load import Connection, Reply
from bench.processes import ended_together
from bench.servers import Running, family, start, worked
from bench.workloads import SECRET, Place

_AT_EASE = 32
_LATER = 503
_TO_BEGIN = 1.0
_PER_NETWORK = 50
"""Callers from each /24 of loopback: neither they nor their failures are too many for one."""


@dataclass
class Told:
    """Seconds that each kind of answer took; `right` is the status of a good one."""

    right: int = 200
    good: list[float] = field(default_factory=list[float])
    refused: list[float] = field(default_factory=list[float])
    cut: int = 0

    def take(self, reply: Reply, seconds: float) -> None:
        """Count one answer; a refusal must say when to come again."""
        if reply.status == self.right:
            self.good.append(seconds)
        else:
            assert reply.status == 503, reply.body
            assert b"retry-after:" in reply.head.lower(), reply.head
            self.refused.append(seconds)


def shown(seconds: Sequence[float]) -> str:
    """Median and 99th percentile, in milliseconds."""
    if not seconds:
        return "-"
    ordered = sorted(1_000 * duration for duration in seconds)
    return f"p50 {ordered[len(ordered) // 2]:.0f}, p99 {ordered[int(0.99 * len(ordered))]:.0f} ms"


def _address(number: int) -> tuple[str, int]:
    return f"127.{1 + number // _PER_NETWORK}.0.1", 0


async def crowd(
    address: Place, requests: Sequence[bytes], seconds: float, *, patient: bool = True
) -> Told:
    """Each caller asks its own again and again; who is hung up on comes back after a moment.

    Who is told to come again in a second does, if all are `patient`. They begin one after another
    within a second, so that they do not come back all at once either, and what they hear counts
    from then on.
    """
    answers = Told()
    counts = time.perf_counter() + _TO_BEGIN
    end = counts + seconds
    loop = asyncio.get_running_loop()

    async def one(number: int, request: bytes) -> None:
        await asyncio.sleep(_TO_BEGIN * number / len(requests))
        while time.perf_counter() < end:
            with suppress(ConnectionError):
                _, line = await loop.create_connection(
                    Connection, address.host, address.port, local_addr=_address(number)
                )
                try:
                    while time.perf_counter() < end:
                        began = time.perf_counter()
                        reply = await line.ask(request)
                        if counts < began < end:
                            answers.take(reply, time.perf_counter() - began)
                        if patient and reply.status == _LATER:
                            await asyncio.sleep(1)
                finally:
                    line.close()
                return
            answers.cut += 1
            await asyncio.sleep(0.1)

    await asyncio.gather(*(one(*caller) for caller in enumerate(requests)))
    return answers


async def paced(
    address: Place, requests: Sequence[bytes], rate: float, seconds: float, *, right: int = 200
) -> Told:
    """Ask in turn, at this rate; seconds count from when a request was due."""
    answers = Told(right)
    loop = asyncio.get_running_loop()
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for number in range(len(requests)):
        _, line = await loop.create_connection(
            Connection, address.host, address.port, local_addr=_address(number)
        )
        free.put_nowait(line)

    async def one(line: Connection, request: bytes, due: float) -> None:
        answers.take(await line.ask(request), time.perf_counter() - due)
        free.put_nowait(line)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as running:
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            running.create_task(one(await free.get(), requests[number % len(requests)], due))
    return answers


async def _used(parent: int, seconds: float) -> float:
    """CPU-seconds of both servers while a crowd is counted."""
    await asyncio.sleep(_TO_BEGIN)
    had = sum(worked(pid) for pid in family(parent))
    await asyncio.sleep(seconds)
    return sum(worked(pid) for pid in family(parent)) - had


async def overload(servers: Running, times: Sequence[int], seconds: float) -> None:
    """Print what becomes of ever more callers; neighbours take no CPU-seconds from the servers."""
    address = Place.of(servers.auth)
    form = {"grant_type": "client_credentials", "client_secret": SECRET}
    for name, client_id in (("JWT", "service"), ("by reference, on disk", "reference")):
        request = address.request("POST", "/token", urlencode({**form, "client_id": client_id}))
        await crowd(address, [request] * _AT_EASE, 1.0)
        peak = 0.0
        hasty = [(many, False) for many in times[-1:]]
        for many, patient in [*((factor, True) for factor in times), *hasty]:
            requests = [request] * many * _AT_EASE
            answers, used = await asyncio.gather(
                crowd(address, requests, seconds, patient=patient), _used(servers.parent, seconds)
            )
            goodput = len(answers.good) / used
            peak = max(peak, goodput)
            print(
                f"{name:22} {many * _AT_EASE:5} callers{'' if patient else ' who do not wait'}: "
                f"{len(answers.good) / seconds:6,.0f} good a second, {goodput:6,.0f} a CPU-second "
                f"({100 * goodput / peak:3.0f} % of the peak), {shown(answers.good)}; "
                f"{len(answers.refused) / seconds:,.0f} refused, {shown(answers.refused)}; "
                f"{answers.cut} hung up on",
                flush=True,
            )


async def flood(address: Place, rate: float, guessed: float, seconds: float) -> None:
    """Print how long tokens take, alone and beside a flood of sign-ins, in turn."""
    form = {"grant_type": "client_credentials", "client_id": "service", "client_secret": SECRET}
    tokens = [address.request("POST", "/token", urlencode(form))] * _AT_EASE
    who = {"grant_type": "password", "client_id": "desk", "client_secret": SECRET}
    # Names that nobody has cost the same hash, and no account is asked too often.
    names = [f"nobody{number}" for number in range(5 * _AT_EASE)]
    forms = [urlencode({**who, "username": name, "password": "a guess"}) for name in names]
    guesses = [address.request("POST", "/oauth/token", form) for form in forms]
    for _ in range(2):
        alone = await paced(address, tokens, rate, seconds)
        print(f"tokens alone, {rate:.0f} a second: {shown(alone.good)}", flush=True)
        beside, guess_answers = await asyncio.gather(
            paced(address, tokens, rate, seconds),
            paced(address, guesses, guessed, seconds, right=400),
        )
        print(
            f"beside {guessed:.0f} guesses at passwords: {shown(beside.good)}; judged "
            f"{len(guess_answers.good) / seconds:.0f} a second, {shown(guess_answers.good)}; "
            f"{len(guess_answers.refused):,} refused, {shown(guess_answers.refused)}",
            flush=True,
        )


def main() -> None:
    """Start, overload, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each line")
    parser.add_argument("--rate", type=float, default=200.0, help="tokens a second, sign-ins")
    parser.add_argument(
        "--times", type=int, nargs="+", default=[1, 5, 50], help=f"times {_AT_EASE} callers"
    )
    parser.add_argument("--guesses", type=float, default=200.0, help="a second")
    chosen = parser.parse_args()
    first, *others = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        os.sched_setaffinity(0, {first})
        with (
            start(Path(folder), workers=1) as servers,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            os.sched_setaffinity(0, others or {first})
            runner.run(overload(servers, chosen.times, chosen.seconds))
            runner.run(flood(Place.of(servers.auth), chosen.rate, chosen.guesses, chosen.seconds))


if __name__ == "__main__":
    with ended_together():
        main()
