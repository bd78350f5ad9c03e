"""E15: five hundred sign-ins at once with wrong passwords, beside apps that ask for tokens."""

import asyncio
import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from bench.ports import free_port
from tests.reliability.floods.anonymous_growth import used
from tests.reliability.floods.flood import address, request
from tests.reliability.load import Load, asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.stories.processes.serving import PASSWORD, SECRET, Serving

_SIGN_INS = 500
_WINDOW = 3.0
"""Seconds with the flood, and as many without, in turn."""

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


def password_flood(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Compare token requests in windows with and without the flood, `times` each."""
    host = f"127.0.0.1:{free_port()}"
    node, found = Node(folder / "node"), _Found()
    configure(node.here, url=f"http://{host}", listen=host, database="sqlite:///a/auth.db")
    register(node.here)
    calm: list[float] = []
    flooded: list[float] = []
    with stopped_in_the_end(node), ProcessPoolExecutor(1, _PROCESSES) as attacker:
        node.start()
        assert node.process is not None
        before = used(node.workers())
        with asking(host, host) as load, _Memory(node) as memory:
            attacker.submit(os.nice, 10).result()
            for _ in range(times):
                time.sleep(_WINDOW)
                calm += _since(load, len(calm) + len(flooded))
                part = attacker.submit(flood, host, _WINDOW, chance.getrandbits(32)).result()
                found.answers += part.answers
                found.refused += part.refused
                flooded += _since(load, len(calm) + len(flooded))
        site = Serving(f"http://{host}", "", node.process)
        signed_in = site.ask(grant_type="password", username="ada", password=PASSWORD).ok
    usual, late, refused = _late(calm), _late(flooded), _late(found.refused)
    grown = memory.most - before
    strange = load.failed - load.answers["503"]
    few = load.answers["503"] <= _REFUSED * load.total
    steady = times < _ENOUGH or (few and late < _SLOWER * usual and refused < _QUICK)
    held = (
        steady
        and signed_in
        and not strange
        and set(found.answers) <= {"400", "503"}
        and grown < _HASHES
    )
    counts = (
        f"{times} windows with the flood: {found.answers['400']} sign-ins hashed and refused, "
        f"{found.answers['503']} answered 503 after {_late(found.refused, 0.5) * 1000:.0f} ms "
        f"(median), {refused * 1000:.0f} ms (p99); "
        f"{load.total} tokens after {late * 1000:.0f} ms (p99), {usual * 1000:.0f} ms without the "
        f"flood, {load.answers['503']} of them answered 503; worker grown by "
        f"{grown / 2**20:.0f} MiB at most; load average of the machine "
        f"{os.getloadavg()[1]:.0f}"
    )
    promise = (
        "tokens take less than twice as long at p99 and at most 2 % get 503, sign-ins beyond the "
        "queue get 503 within 2 s at p99, hashes need at most 76 MiB"
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


def _since(load: Load, first: int) -> Sequence[float]:
    return load.took[first:]


def _late(seconds: Sequence[float], share: float = 0.99) -> float:
    """Return the 99th percentile, or another one; 0 of nothing."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] if seconds else 0.0


def flood(host: str, seconds: float, seed: int) -> _Found:
    """Sign in as users that do not exist, from as many addresses, for this long."""
    return asyncio.run(_flood(host, seconds, random.Random(seed)))


async def _flood(host: str, seconds: float, chance: random.Random) -> _Found:
    found, until = _Found(), time.monotonic() + seconds
    await asyncio.gather(*(_sign_in(host, until, chance, found) for _ in range(_SIGN_INS)))
    return found


async def _sign_in(host: str, until: float, chance: random.Random, found: _Found) -> None:
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
        found.answers[status] += 1
        if status == "503":
            found.refused.append(time.monotonic() - began)
            # Retry-After.
            await asyncio.sleep(1)
