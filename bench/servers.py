"""The servers that are measured: `valetkey serve`, as an operator runs it."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.workloads import CALLBACK, PASSWORD, SECRET

NO_OBJECTS: Mapping[str, str] = MappingProxyType({})
_PROGRAM = Path(sys.executable).with_name("valetkey")

_REGISTER = f"""
[[users]]
username = "ada"
email = "ada@example.com"
password = "{PASSWORD}"

[[clients]]
client_id = "service"
client_secret = "{SECRET}"
name = "Service"
grant_types = ["client_credentials"]

[[clients]]
client_id = "reference"
client_secret = "{SECRET}"
name = "Reference"
grant_types = ["client_credentials"]
access_token_format = "reference"

[[clients]]
client_id = "desk"
client_secret = "{SECRET}"
name = "Desk"
grant_types = ["password"]
scopes = ["read", "write"]
profile = "classic"

[[clients]]
client_id = "phone"
name = "Phone"
type = "public"
redirect_uris = ["{CALLBACK}"]
scopes = ["openid", "notes:read"]
"""


@dataclass(frozen=True, slots=True)
class Running:
    """Both servers while they answer."""

    auth: str
    api: str
    parent: int


@contextmanager
def start(
    here: Path, *, workers: int, objects: Mapping[str, str] = NO_OBJECTS
) -> Generator[Running]:
    """Both servers on free ports, with the bench's user and clients.

    `objects` are declared as an operator does it: the text of each file by its name.
    """
    auth, api = (f"127.0.0.1:{free_port()}" for _ in range(2))
    (here / "objects").mkdir()
    for name, text in objects.items():
        (here / "objects" / name).write_text(text)
    config, register = here / "valetkey.toml", here / "register.toml"
    config.write_text(
        f'[authorization]\nurl = "http://{auth}"\nlisten = "{auth}"\nworkers = {workers}\n'
        f'[resource]\nurl = "http://{api}"\nlisten = "{api}"\nworkers = {workers}\n'
        f'objects = "objects"\n'
    )
    register.touch(0o600)
    register.write_text(_REGISTER)
    apply = [str(_PROGRAM), "apply", str(register), "--config", str(config), "--yes"]
    subprocess.run(apply, check=True, stdout=subprocess.DEVNULL)
    with (here / "log").open("w") as log:
        process = subprocess.Popen(
            [str(_PROGRAM), "serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        assert ready.startswith("ready "), (here / "log").read_text()
        yield Running(f"http://{auth}", f"http://{api}", process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def worker(servers: Running, name: str) -> int:
    """The process that answers for the server `name`."""
    return next(
        pid
        for pid in family(servers.parent)
        if f".serving.{name}" in Path(f"/proc/{pid}/cmdline").read_text()
    )


def worked(pid: int) -> float:
    """Seconds of CPU that a process has used so far, with all its threads, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


def cpu_seconds(servers: Running) -> float:
    """What all processes of both servers have worked so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in family(servers.parent):
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(stat[11]) + int(stat[12])
    return total / ticks


def memory(servers: Running) -> list[tuple[str, int]]:
    """Each process by name with its resident megabytes."""
    found: list[tuple[str, int]] = []
    for pid in family(servers.parent):
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        name = next((w.rpartition(".")[2] for w in command if ".serving." in w), "supervisor")
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        found.append((name, pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000))
    return found


def family(parent: int) -> list[int]:
    """A process and its children."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, listed)]


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
