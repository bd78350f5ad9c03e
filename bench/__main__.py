"""`python -m bench`: starts both servers on SQLite, measures, prints a table with versions.

Everything runs on one core, load included, unless `--spread` is given; what counts is operations
per second of CPU that the servers used. Answers come after the row is on disk (synchronous=FULL).
"""

import argparse
import asyncio
import json
import os
import platform
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import apsw
import uvloop

from bench import workloads
from bench.load import Measured, Worker, connect, measure
from bench.servers import Running, cpu_seconds, memory, start
from bench.workloads import CodeFlow, Place, Refresh
from valetkey.testing.person import Person

_CALLERS = 32


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    measured: Measured
    cpu: float


async def bench(servers: Running, seconds: float) -> list[Row]:
    """Measure every workload in turn, after a tenth of the time to warm up."""
    auth, api = Place.of(servers.auth), Place.of(servers.api)
    person = Person(servers.auth)
    page = person.open(servers.auth + workloads.authorize_path())
    page = person.allow(person.sign_in(page, "ada", workloads.PASSWORD))
    assert page.told["code"]

    async def flows() -> list[CodeFlow]:
        return [
            CodeFlow(auth, await connect(auth.host, auth.port), dict(person.cookies))
            for _ in range(_CALLERS)
        ]

    first = await flows()
    await asyncio.gather(*(flow.step() for flow in first))
    refreshing = [Refresh(auth, flow.connection, flow.tokens["refresh_token"]) for flow in first]
    access_token = first[0].tokens["access_token"]
    reference = await workloads.client_credentials(auth, "reference", b"vk_at_")
    opaque = json.loads((await reference.connection.ask(reference.request)).body)["access_token"]

    async def many(make: Callable[[], Awaitable[Worker]]) -> Sequence[Worker]:
        return [await make() for _ in range(_CALLERS)]

    plan: Sequence[tuple[str, Sequence[Worker]]] = (
        (
            "client credentials, JWT",
            await many(lambda: workloads.client_credentials(auth, "service", b"eyJ")),
        ),
        (
            "client credentials, by reference",
            await many(lambda: workloads.client_credentials(auth, "reference", b"vk_at_")),
        ),
        ("code + PKCE, signed in and consented", await flows()),
        ("refresh with rotation", refreshing),
        ("introspection, by reference", await many(lambda: workloads.introspection(auth, opaque))),
        (
            "resource call, JWT verified before",
            await many(lambda: workloads.resource_call(api, access_token, b'"items":[')),
        ),
    )
    rows: list[Row] = []
    for name, workers in plan:
        await measure(workers, seconds / 10)
        before = cpu_seconds(servers)
        measured = await measure(workers, seconds)
        rows.append(Row(name, measured, cpu_seconds(servers) - before))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as people read them."""
    lines = [f"{'':38}{'per s':>9}{'per CPU-s':>11}{'p50 ms':>9}{'p99 ms':>9}"]
    for row in rows:
        measured = row.measured
        lines.append(
            f"{row.name:38}{measured.rate:9,.0f}{measured.operations / row.cpu:11,.0f}"
            f"{measured.latency(0.5):9.1f}{measured.latency(0.99):9.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each workload")
    parser.add_argument("--workers", type=int, default=1, help="processes of each server")
    parser.add_argument("--spread", action="store_true", help="let the system choose cores")
    chosen = parser.parse_args()
    if not chosen.spread:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with (
        tempfile.TemporaryDirectory() as folder,
        start(Path(folder), workers=chosen.workers) as servers,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        rows = runner.run(bench(servers, chosen.seconds))
        resident = memory(servers)
    cores = "all cores" if chosen.spread else "servers and load on one core"
    print(table(rows))
    print(
        f"\n{_CALLERS} callers, {cores}, {chosen.workers} process(es) a server, "
        f"SQLite synchronous=FULL, {chosen.seconds:g} s each.\n"
        f"Memory afterwards: {', '.join(f'{name} {size} MB' for name, size in resident)}.\n"
        f"valetkey {version('valetkey')}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}, uvicorn {version('uvicorn')}, "
        f"cryptography {version('cryptography')}; {os.cpu_count()} cores, {platform.machine()}."
    )


if __name__ == "__main__":
    main()
