"""E15: five hundred sign-ins at once with wrong passwords, beside apps that ask for tokens.

The flood, the apps and the server share the processors, on which hashes and the flood take turns
with the server. So the same flood also goes to another server of the machine: what tokens take then
is what the machine costs, and the rest is what the server lets the flood cost others.
"""

import asyncio
import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from bench.ports import free_port
from tests.reliability.floods.anonymous_growth import used
from tests.reliability.floods.flood import address, request
from tests.reliability.load import asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome, percentile
from tests.stories.processes.serving import PASSWORD, SECRET, Serving

_SIGN_INS = 500
_WINDOW = 3.0
"""Seconds of each window."""

_SLOWER = 2.0
_HASHES = 4 * 19 * 1024 * 1024
"""Bytes of memory that four hashes take."""

_QUICK = 2.0
_REFUSED = 0.02
"""The share of token requests that may get 503: a burst fills the limit of requests at once."""

_ENOUGH = 10  # windows, below which a percentile is only the worst
_PROCESSES = multiprocessing.get_context("forkserver")


@dataclass
class _Found:
    """The answers to sign-ins, and the seconds until those that are 503."""

    answers: Counter[str] = field(default_factory=Counter[str])
    refused: list[float] = field(default_factory=list[float])


def _target(here: Path) -> tuple[str, Node]:
    """A server that is not started, and its address."""
    host = f"127.0.0.1:{free_port()}"
    configure(here, url=f"http://{host}", listen=host, database="sqlite:///a/auth.db")
    register(here)
    return host, Node(here)


def password_flood(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Compare token requests in windows without the flood, beside it and under it, in turn."""
    judged = times >= _ENOUGH
    # The control is only of use where percentiles are.
    targets = [_target(folder / name) for name in (("other", "node") if judged else ("node",))]
    address, node = targets[-1]
    result = _Found()
    windows: dict[str, list[float]] = {"": [], **{host: [] for host, _ in targets}}
    with (
        stopped_in_the_end(*(server for _, server in targets)),
        ProcessPoolExecutor(1, _PROCESSES) as attacker,
    ):
        for _, server in targets:
            server.start()
        assert node.process is not None
        before = used(node.workers())
        with asking(address, address) as load, _Memory(node) as memory:
            attacker.submit(os.nice, 10).result()
            for target in list(windows) * times:
                first = len(load.took)
                if target:
                    seed = chance.getrandbits(32)
                    part = attacker.submit(flood, target, _WINDOW, seed).result()
                    if target == address:
                        result.answers += part.answers
                        result.refused += part.refused
                else:
                    time.sleep(_WINDOW)
                windows[target] += load.took[first:]
        site = Serving(f"http://{address}", "", node.process)
        signed_in = site.ask(grant_type="password", username="ada", password=PASSWORD).ok
    usual, *control, late = (percentile(durations, 0.99) for durations in windows.values())
    beside = control[0] if control else usual
    refused = percentile(result.refused, 0.99)
    grown = memory.most - before
    strange = load.failed - load.answers["503"]
    few = load.answers["503"] <= _REFUSED * load.total
    steady = not judged or (few and late < _SLOWER * beside and refused < _QUICK)
    held = (
        steady
        and signed_in
        and not strange
        and set(result.answers) <= {"400", "503"}
        and grown < _HASHES
    )
    counts = (
        f"{times} windows with the flood: {result.answers['400']} sign-ins hashed and refused, "
        f"{result.answers['503']} answered 503 after {percentile(result.refused, 0.5) * 1000:.0f} "
        f"ms (median), {refused * 1000:.0f} ms (p99); "
        f"{load.total} tokens after {late * 1000:.0f} ms (p99), {beside * 1000:.0f} ms while "
        f"another server gets the flood, {usual * 1000:.0f} ms without, {load.answers['503']} of "
        f"them answered 503; worker grown by {grown / 2**20:.0f} MiB at most; load average of the "
        f"machine {os.getloadavg()[1]:.0f}"
    )
    promise = (
        "tokens take less than twice as long at p99 as while another server of the machine gets "
        "the flood, and at most 2 % get 503; sign-ins beyond the queue get 503 within 2 s at p99, "
        "hashes need at most 76 MiB"
    )
    return Outcome("E15 password flood", promise, counts, held)


class _Memory:
    """Measures the memory of a node for as long as the block lasts."""

    def __init__(self, node: Node) -> None:
        self.most = 0
        self._node = node
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._over.wait(0.1):
            self.most = max(self.most, used(self._node.workers()))


def flood(host: str, seconds: float, seed: int) -> _Found:
    """Sign in as users that do not exist, from as many addresses, for this long."""
    return asyncio.run(_flood(host, seconds, random.Random(seed)))


async def _flood(host: str, seconds: float, chance: random.Random) -> _Found:
    result, until = _Found(), time.monotonic() + seconds
    await asyncio.gather(*(_sign_in(host, until, chance, result) for _ in range(_SIGN_INS)))
    return result


async def _sign_in(host: str, until: float, chance: random.Random, result: _Found) -> None:
    name, _, port = host.partition(":")
    sender = (address(chance), 0)
    while time.monotonic() < until:
        form = {"grant_type": "password", "client_id": "printer", "client_secret": SECRET}
        form |= {"username": f"{chance.getrandbits(64):x}", "password": "a wrong password"}
        reader, writer = await asyncio.open_connection(name, int(port), local_addr=sender)
        began = time.monotonic()
        writer.write(request(host, "POST /oauth/token", urlencode(form)))
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b" ", 2)[1].decode()
        writer.close()
        result.answers[status] += 1
        if status == "503":
            result.refused.append(time.monotonic() - began)
            # Retry-After.
            await asyncio.sleep(1)
