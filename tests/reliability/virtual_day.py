"""E16: a day of the server's clock under load, with cleanup and key rotation; nothing grows."""

import http.client
import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import linear_regression, median

import msgspec

from bench.ports import free_port
from tests.reliability.flows import App, between_flows, flowing, late
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.reliability.shifted import ShiftedClock
from tests.support import postgres
from tests.support.wait import CEILING
from valetkey.kernel.secret import from_base64url

_STEPS = 6
"""Moves of the clock in each hour."""

_STEP = 600
_LASTS = 1.7  # seconds of each step, without the time until all flows have ended
_SHORT = 0.4  # the same in a run of less than a day
_DAY = 24
_ROTATING = 'signing_key_lifetime = "6h"\nkey_publication = "2h"\n'
_MOST_GROWTH = 1.0  # MiB in 100,000 flows
_MOST_AT_ALL = 2.0  # MiB; fewer flows are not judged by more
_MOST_DESCRIPTORS = 5
_MOST_SLOWER = 1.10
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class _Look:
    """What was measured at the end of a step."""

    at: float
    flows: int
    memory: float
    cpu: float
    clients: float
    """The CPU time of the clients, whose work is the same in every flow."""
    descriptors: int


@dataclass(frozen=True, slots=True)
class _Day:
    """What a run on one engine found."""

    engine: str
    hours: int
    answers: Counter[str]
    looks: Sequence[_Look]
    drift: tuple[float, float]
    keys: int
    unpublished: int

    @property
    def flows(self) -> int:
        return self.looks[-1].flows

    @property
    def growth(self) -> float:
        """MiB in 100,000 flows, by the second half of the run."""
        half = self.looks[len(self.looks) // 2 :]
        return 100_000 * linear_regression([x.flows for x in half], [x.memory for x in half]).slope

    @property
    def descriptors(self) -> int:
        """How many more are open in the last third than in the second."""
        third = len(self.looks) // 3
        then, now = self.looks[third : 2 * third], self.looks[-third:]
        return round(median(x.descriptors for x in now) - median(x.descriptors for x in then))

    @property
    def slower(self) -> tuple[float, float]:
        """The CPU time of a flow in the last third, as a multiple of that in the second.

        Of the server, and of the clients: programs beside them make both slower.
        """
        third = len(self.looks) // 3
        then, now = self.looks[third : 2 * third], self.looks[-third:]
        flows = (now[-1].flows - now[0].flows) / max(1, then[-1].flows - then[0].flows)
        server = (now[-1].cpu - now[0].cpu) / max(1 / _TICKS, then[-1].cpu - then[0].cpu)
        clients = (now[-1].clients - now[0].clients) / (then[-1].clients - then[0].clients)
        return server / flows, clients / flows

    @property
    def held(self) -> bool:
        fine = set(self.answers) <= {"200", "303"} and not self.unpublished
        if self.hours < _DAY:
            # The caches still fill, and a few flows have no slope.
            return fine and self.flows > 0
        grew = self.growth * (self.looks[-1].flows - self.looks[len(self.looks) // 2].flows)
        return (
            fine
            and (self.growth < _MOST_GROWTH or grew / 100_000 < _MOST_AT_ALL)
            and abs(self.descriptors) <= _MOST_DESCRIPTORS
            and self.slower[0] / self.slower[1] < _MOST_SLOWER
            and self.keys > self.hours // _STEPS
        )

    def __str__(self) -> str:
        wrong = {name: count for name, count in self.answers.items() if name not in {"200", "303"}}
        return (
            f"{self.engine}: {self.hours} h, {self.flows} flows, {sum(wrong.values())} failed"
            f"{f' ({wrong})' if wrong else ''}, {self.keys} signing keys, "
            f"{self.looks[-1].memory:.0f} MiB, {self.growth:+.1f} MiB in 100,000 flows, "
            f"{self.descriptors:+d} descriptors, CPU of a flow × {self.slower[0]:.2f} "
            f"(clients × {self.slower[1]:.2f}), "
            f"p99 {self.drift[0]:.0f} to {self.drift[1]:.0f} ms"
        )


def soak(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Run `times` hours of the server's clock, half of them on each engine."""
    with postgres.database() as url:
        engines = {"SQLite": "sqlite:///a/auth.db", "PostgreSQL": url}
        halves = {"SQLite": times // 2, "PostgreSQL": times - times // 2}
        days = [
            _day(folder / name, name, engines[name], hours, chance)
            for name, hours in halves.items()
            if hours
        ]
    promise = (
        "memory grows by less than 1 MiB in 100,000 flows, descriptors by 5 at most, "
        "CPU of a flow less than 10 % more than the clients' own"
    )
    counts = "; ".join(map(str, days))
    return Outcome("E16 soak of 24 hours", promise, counts, all(day.held for day in days))


def _day(folder: Path, engine: str, database: str, hours: int, chance: random.Random) -> _Day:
    address = f"127.0.0.1:{free_port()}"
    folder.mkdir()
    node, clock = Node(folder / "node"), ShiftedClock(folder / "clock")
    node.environment = clock.environment
    configure(node.here, url=f"http://{address}", listen=address, database=database)
    file = node.here / "valetkey.toml"
    file.write_text(file.read_text().replace("[tokens]\n", f"[tokens]\n{_ROTATING}", 1))
    register(node.here)
    kids, unpublished = set[str](), 0
    looks: list[_Look] = []
    with stopped_in_the_end(node):
        node.start()
        with flowing(address, chance) as apps:
            for _ in range(hours * _STEPS):
                time.sleep(_LASTS if hours >= _DAY else _SHORT)
                with between_flows(apps):
                    published = _published(address)
                    kids |= published
                    unpublished += sum(
                        _kid(app.token) not in published for app in apps if app.token
                    )
                    looks.append(_look(node, apps))
                    clock.ahead += _STEP
    return _Day(
        engine,
        hours,
        sum((app.answers for app in apps), Counter[str]()),
        looks,
        _drift(apps, looks),
        len(kids),
        unpublished,
    )


def _look(node: Node, apps: Sequence[App]) -> _Look:
    memory = cpu = 0.0
    descriptors = 0
    for pid in node.workers():
        here = Path(f"/proc/{pid}")
        memory += int((here / "statm").read_text().split()[1]) * _PAGE / 2**20
        # Fields 14 and 15 of proc(5), counted behind the name in brackets.
        fields = (here / "stat").read_text().rpartition(")")[2].split()
        cpu += (int(fields[11]) + int(fields[12])) / _TICKS
        descriptors += len(list((here / "fd").iterdir()))
    flows = sum(app.flows for app in apps)
    return _Look(time.monotonic(), flows, memory, cpu, time.process_time(), descriptors)


def _drift(apps: Sequence[App], looks: Sequence[_Look]) -> tuple[float, float]:
    """The 99th percentiles of the second and of the last third."""
    third = len(looks) // 3
    bounds = [looks[min(index, len(looks) - 1)].at for index in (third, 2 * third, len(looks))]
    values = [
        [took.seconds for app in apps for took in app.took if begin <= took.at < end]
        for begin, end in pairwise(bounds)
    ]
    return late(values[0]), late(values[1])


def _published(address: str) -> set[str]:
    connection = http.client.HTTPConnection(address, timeout=CEILING)
    connection.request("GET", "/oauth/jwks")
    body = connection.getresponse().read()
    connection.close()
    keys: Sequence[Mapping[str, str]] = msgspec.json.decode(body)["keys"]
    return {key["kid"] for key in keys}


def _kid(token: str) -> str:
    head = from_base64url(token.partition(".")[0])
    assert head is not None
    kid: str = msgspec.json.decode(head)["kid"]
    return kid
