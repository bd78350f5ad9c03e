"""A declared object against a constant: `python -m bench.objects`.

Both come from the same stack: our listener, router and log, one process, the same header fields,
the same size. They are visited in turn by the same load, and what counts is operations per second
of CPU that the process which answers has used; so it matters little who else uses the machine.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import uvloop

from bench import constant
from bench.load import Connection, Reply, Worker, connect, measure
from bench.ports import free_port
from bench.processes import ended_together
from bench.servers import start, worked, worker
from bench.workloads import PASSWORD, SECRET, Place, Repeat

OBJECT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 100},
        "state": {"enum": ["open", "done"], "default": "open"},
        "stars": {"type": "integer"},
    },
    "required": ["title"],
    "x-valetkey": {"reads": "read your tasks", "writes": "change your tasks"},
}
TASK = '{"title":"Water the plants on the balcony","stars":3}'
_CALLERS = 32
_MANY = 6_400
_JSON = "Content-Type: application/json"


def at_least(ratio: float) -> str:
    """Whether what is owed is there."""
    return "at least 60 % are owed" + ("" if ratio >= 0.6 else ", and MISSED")


class Create(Worker):
    """A caller that makes one task after the other; each is on disk before it is answered."""

    def __init__(self, address: Place, connection: Connection, token: str) -> None:
        """Make them at `address`."""
        self._connection = connection
        self._request = created(address, token)

    async def step(self) -> None:
        """Make one."""
        reply = await self._connection.ask(self._request)
        assert reply.status == 201, reply.body


class Turn(Worker):
    """A caller that reads one object after the other, none twice before all were read."""

    def __init__(self, connection: Connection, requests: Sequence[bytes], first: int) -> None:
        """Begin at the number `first`."""
        self._connection = connection
        self._requests = requests
        self._next = first

    async def step(self) -> None:
        """Read one."""
        request = self._requests[self._next % len(self._requests)]
        self._next += 1
        reply = await self._connection.ask(request)
        assert reply.status == 200, reply.body


def created(address: Place, token: str) -> bytes:
    """The request that makes a task."""
    fields = [f"POST /v2/tasks HTTP/1.1\r\nHost: {address.host}:{address.port}", _JSON]
    fields += [f"Authorization: Bearer {token}", f"Content-Length: {len(TASK)}"]
    return ("\r\n".join(fields) + "\r\n\r\n" + TASK).encode()


async def _token(auth: Place) -> str:
    form = {"grant_type": "password", "username": "ada", "password": PASSWORD}
    form |= {"client_id": "desk", "client_secret": SECRET, "scope": "read write"}
    connection = await connect(auth.host, auth.port)
    reply = await connection.ask(auth.request("POST", "/oauth/token", urlencode(form)))
    assert reply.status == 200, reply.body
    token: str = json.loads(reply.body)["access_token"]
    return token


async def _checked(api: Place, token: str) -> tuple[str, Reply]:
    """The path of a new task and its representation, once everything is seen to be checked."""
    connection = await connect(api.host, api.port)
    bearer = f"Authorization: Bearer {token}"
    made = await connection.ask(created(api, token))
    assert made.status == 201, made.body
    path = f"/v2/tasks/{json.loads(made.body)['id']}"
    other = bearer[:-4] + ("AAAA" if bearer[-4:] != "AAAA" else "BBBB")
    for status, request in (
        (401, api.request("GET", path)),
        (401, api.request("GET", path, "", other)),
        (404, api.request("GET", path + "x", "", bearer)),
        (406, api.request("GET", path, "", bearer, "Accept: text/html")),
        (304, api.request("GET", path, "", bearer, 'If-None-Match: "1"')),
    ):
        reply = await connection.ask(request)
        assert reply.status == status, reply
    shown = await connection.ask(api.request("GET", path, "", bearer))
    assert shown.status == 200
    assert json.loads(shown.body) == json.loads(made.body)
    return path, shown


async def _reading(address: Place, path: str, token: str, body: bytes) -> Sequence[Worker]:
    request = address.request("GET", path, "", f"Authorization: Bearer {token}")
    return [
        Repeat(await connect(address.host, address.port), request, body) for _ in range(_CALLERS)
    ]


async def _many(address: Place, token: str) -> Sequence[Worker]:
    """More objects than the server remembers, read in turn: each read asks the database."""
    requests: list[bytes] = []

    async def fill() -> None:
        connection = await connect(address.host, address.port)
        for _ in range(_MANY // _CALLERS):
            made = json.loads((await connection.ask(created(address, token))).body)
            path = f"/v2/tasks/{made['id']}"
            requests.append(address.request("GET", path, "", f"Authorization: Bearer {token}"))

    await asyncio.gather(*(fill() for _ in range(_CALLERS)))
    first = range(0, _MANY, _MANY // _CALLERS)
    return [
        Turn(await connect(address.host, address.port), requests, number)
        for number in first[:_CALLERS]
    ]


async def _turns(
    visited: Mapping[str, tuple[Sequence[Worker], int]], rounds: int, seconds: float
) -> Mapping[str, float]:
    """Operations per second of CPU, the median of all rounds."""
    rates: dict[str, list[float]] = {name: [] for name in visited}
    for workers, _ in visited.values():
        await measure(workers, seconds / 2)
    for _ in range(rounds):
        for name, (workers, pid) in visited.items():
            before = worked(pid)
            done = await measure(workers, seconds)
            rates[name].append(done.operations / (worked(pid) - before))
    return {name: median(samples) for name, samples in rates.items()}


def _fields(reply: Reply) -> Sequence[bytes]:
    return [line for line in reply.head.split(b"\r\n") if not line.startswith(b"date: ")]


async def _bench(stack: ExitStack, folder: Path, rounds: int, seconds: float) -> None:
    servers = stack.enter_context(
        start(folder, workers=1, objects={"tasks.json": json.dumps(OBJECT)})
    )
    auth, api = Place.of(servers.auth), Place.of(servers.api)
    token = await _token(auth)
    path, shown = await _checked(api, token)
    url = f"http://127.0.0.1:{free_port()}"
    ceiling = stack.enter_context(constant.start(url, path, shown.head, shown.body))
    same = Place.of(url)
    reply = await (await connect(same.host, same.port)).ask(same.request("GET", path))
    assert (_fields(reply), reply.body) == (_fields(shown), shown.body)
    pid = worker(servers, "resource")
    many = await _many(api, token)
    reads = await _turns(
        {
            "constant": (await _reading(same, path, token, shown.body), ceiling),
            "object": (await _reading(api, path, token, shown.body), pid),
            "many": (many, pid),
        },
        rounds,
        seconds,
    )
    print(f"{'':44}{'per CPU-s':>11}")
    print(f"{f'a constant of {len(shown.body)} bytes':44}{reads['constant']:11,.0f}")
    print(f"{'a declared object, token verified before':44}{reads['object']:11,.0f}")
    ratio = reads["object"] / reads["constant"]
    print(f"{'ratio':44}{ratio:11.0%}   ({at_least(ratio)})")
    print(f"{f'{_MANY:,} objects in turn, none remembered':44}{reads['many']:11,.0f}")
    print(f"{'ratio':44}{reads['many'] / reads['constant']:11.0%}\n")
    print(f"{'creation, on disk before the answer':44}{'per CPU-s':>11}{'per s':>9}{'p50 ms':>9}")
    for callers in (1, _CALLERS):
        makers = [Create(api, await connect(api.host, api.port), token) for _ in range(callers)]
        await measure(makers, seconds / 4)
        before = worked(pid)
        done = await measure(makers, seconds)
        rate = done.operations / (worked(pid) - before)
        name = f"{callers} caller{'s' if callers > 1 else ''}"
        print(f"{name:44}{rate:11,.0f}{done.rate:9,.0f}{done.latency(0.5):9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.objects", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each visit")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with (
        TemporaryDirectory() as folder,
        ExitStack() as stack,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_bench(stack, Path(folder), chosen.rounds, chosen.seconds))


if __name__ == "__main__":
    with ended_together():
        main()
