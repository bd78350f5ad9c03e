"""`python -m bench.issuers`: what each issuer of `valetkey serve --configs` costs.

Serves so many issuers with empty databases from one process for each server, twice: the first start
makes databases and keys, the second is the one of a restart. Prints the time until all of them are
ready and its CPU time, and for each server memory (PSS), threads, descriptors, and the CPU time of
some idle seconds. With `--postgres` each server of each issuer has a database of its own on one
PostgreSQL, which is started for it; then also its connections are printed, and its CPU time while
the issuers are idle.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from bench.ports import free_port
from bench.processes import ended_together
from tests.support import postgres as cluster
from valetkey.cli.serving.worker import NAME

_PROGRAM = str(Path(sys.executable).with_name("valetkey"))
_LONGEST = 300.0  # seconds of a start
_SETTLE = {False: 30.0, True: 100.0}
"""Seconds after the start that are not idle yet; PostgreSQL: unused connections are closed."""
_CONNECTIONS = 2  # `database.connections` on PostgreSQL
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure each number of issuers, and print a line for each server."""
    parser = argparse.ArgumentParser(prog="python -m bench.issuers", description=__doc__)
    parser.add_argument("--issuers", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of idling")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL, not on SQLite")
    chosen = parser.parse_args()
    columns = "issuers | server | first start | start | memory | threads | descriptors | idle CPU"
    print(f"| {columns} | connections |")
    print("|---|---|---|---|---|---|---|---|---|")
    for number in chosen.issuers:
        room = str(100 + 2 * number * (_CONNECTIONS + 1))
        database = (
            cluster.own_server({"max_connections": room}) if chosen.postgres else nullcontext()
        )
        with TemporaryDirectory() as folder, database as server:
            _measure(Path(folder), number, chosen.idle, server)


def _measure(here: Path, number: int, idle: float, postgres: Path | None) -> None:
    ports = {"authorization": free_port(), "resource": free_port()}
    for issuer in range(number):
        file = here / "issuers" / f"i{issuer}" / "valetkey.toml"
        file.parent.mkdir(parents=True)
        places = {server: f"{_address(issuer)}:{port}" for server, port in ports.items()}
        sections = [
            f'[{n}]\nurl = "http://{at}"\nlisten = "{at}"\n{_database(postgres, f"i{issuer}_{n}")}'
            for n, at in places.items()
        ]
        file.write_text("".join(sections) + '[tokens]\nsigning_algorithms = ["ES256"]\n')
    with _serving(here, ports, number) as (_, first):
        pass
    with _serving(here, ports, number) as (workers, again):
        begun = _connections(postgres, "")
        time.sleep(_SETTLE[postgres is not None])
        before = {server: _cpu(pid) for server, pid in workers.items()}
        database = _sum(_cpu, postgres)
        time.sleep(idle)
        database = _sum(_cpu, postgres) - database
        for server, pid in workers.items():
            used = (_cpu(pid) - before[server]) / idle
            print(
                f"| {number} | {server} | {first[0]:.1f} s | {again[0]:.1f} s"
                f" ({again[1]:.1f} s of CPU) | {_memory(pid):.0f} MB"
                f" | {_count(pid, 'task')} | {_count(pid, 'fd')} | {used:.1%} of a core"
                f" | {_connections(postgres, server)} |",
                flush=True,
            )
        if postgres is not None:
            held = _sum(_memory, postgres)
            print(
                f"| {number} | PostgreSQL | | | {held:.0f} MB | | | {database / idle:.1%} of a"
                f" core | {_connections(postgres, '')}, after the start {begun} |",
                flush=True,
            )


def _database(postgres: Path | None, name: str) -> str:
    """Make a database; return the line of the configuration that names it, "" for a file."""
    if postgres is None:
        return ""
    with psycopg.connect(cluster.url(postgres, "postgres"), autocommit=True) as db:
        db.execute(f'CREATE DATABASE "{name}"'.encode())
    return f'database = "{cluster.url(postgres, name)}"\n'


def _connections(postgres: Path | None, server: str) -> int:
    """Return the number of connections to databases of this server, or of both for ""."""
    if postgres is None:
        return 0
    with psycopg.connect(cluster.url(postgres, "postgres"), autocommit=True) as db:
        row = db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE %s", [f"i%{server}"]
        ).fetchone()
    return int(row[0]) if row else 0


def _sum(measure: Callable[[int], float], postgres: Path | None) -> float:
    """Return the sum for the processes that a PostgreSQL has now."""
    total = 0.0
    for pid in cluster.processes(postgres / "data") if postgres else ():
        # A connection may have ended.
        with suppress(OSError):
            total += measure(pid)
    return total


def _address(number: int) -> str:
    # Loopback, so that there is no TLS. Behind a proxy all of them listen on one address.
    return f"127.1.{number // 250}.{number % 250 + 1}"


@contextmanager
def _serving(
    here: Path, ports: dict[str, int], number: int
) -> Generator[tuple[dict[str, int], tuple[float, float]]]:
    """Yield the process id of each server, and the time and CPU time until all were ready."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("VALETKEY")}
    began = time.monotonic()
    with ended_together(), (here / "log").open("w") as log:
        subprocess.Popen(
            [_PROGRAM, "serve", "--configs", str(here / "issuers")],
            env={
                **environment,
                "VALETKEY__SERVING__DRAIN": "0",
                "VALETKEY__DATABASE__CONNECTIONS": str(_CONNECTIONS),
            },
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        for issuer in range(number):
            for port in ports.values():
                _await_ready(_address(issuer), port)
        took = time.monotonic() - began
        workers = {server: _listener(port) for server, port in ports.items()}
        yield workers, (took, sum(map(_cpu, workers.values())))


def _await_ready(host: str, port: int) -> None:
    until = time.monotonic() + _LONGEST
    while not _is_ready(host, port):
        if time.monotonic() > until:
            raise TimeoutError(f"{host} did not start")
        time.sleep(0.05)


def _is_ready(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=30)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _listener(port: int) -> int:
    """Return the worker that listens on this port."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    sockets = {
        f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"
    }
    return next(pid for pid in _processes() if _name(pid) == NAME and sockets & _open(pid))


def _processes() -> Sequence[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _open(pid: int) -> set[str]:
    try:
        return {str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu(pid: int) -> float:
    """Return the CPU time of a process in seconds."""
    return (int(_stat(pid)[11]) + int(_stat(pid)[12])) / _TICKS


def _memory(pid: int) -> float:
    """Return the proportional memory of a process in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _count(pid: int, what: str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/{what}").iterdir())


if __name__ == "__main__":
    main()
