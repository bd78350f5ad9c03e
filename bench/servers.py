"""The servers that are measured: `valetkey serve`, as an operator runs it."""

import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from compileall import compile_dir
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import valetkey
from bench.peers.peer import Paths, Peer, first_answer
from bench.ports import free_port
from bench.workloads import CALLBACK, PASSWORD, SECRET, Place

DISCOVERY = "/.well-known/openid-configuration"
NO_OBJECTS: Mapping[str, str] = MappingProxyType({})
_PROGRAM = Path(sys.executable).with_name("valetkey")

REGISTER = f"""
[[users]]
username = "ada"
email = "ada@example.com"
password = "{PASSWORD}"

[[users]]
username = "grace"
email = "grace@example.com"
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
id_token_signed_response_alg = "ES256"
""" + "".join(
    f"""
[[clients]]
client_id = "{client_id}"
name = "{client_id.title()}"
type = "public"
redirect_uris = ["{CALLBACK}"]
scopes = ["openid", "notes:read"]
id_token_signed_response_alg = "RS256"
"""
    for client_id in ("phone-rs256", "tablet")
)


TOKENS_AND_KEYS = Paths(
    token="/token",
    machine_token="/token",
    authorize="",
    introspection="",
    userinfo="",
    keys="/jwks",
    discovery="",
)
"""Where a program of the bench answers that only issues JWTs to clients."""


@contextmanager
def program(name: str, module: str, *arguments: str, stderr: int | None = None) -> Generator[Peer]:
    """Run such a program, `python -m module PORT arguments`, in a process of its own."""
    address, began = Place("127.0.0.1", free_port()), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(address.port), *arguments],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    try:
        yield Peer(
            name,
            address,
            TOKENS_AND_KEYS,
            lambda: [process.pid],
            "",
            {"jwt": {"client_id": "service"}},
            started=first_answer(address, TOKENS_AND_KEYS.keys, began),
        )
    finally:
        process.terminate()
        process.wait(20)


@dataclass(frozen=True, slots=True)
class Running:
    """Both servers while they answer; `answered` is the seconds from the start to the first answer.

    That is one of the authorization server, to the discovery document.
    """

    auth: str
    api: str
    parent: int
    answered: float


@contextmanager
def start(
    here: Path,
    *,
    workers: int,
    objects: Mapping[str, str] = NO_OBJECTS,
    databases: Sequence[str] = (),
    register: str = "",
) -> Generator[Running]:
    """Both servers on free ports, with the bench's user and clients.

    `databases` are the URLs of both, where they are not to be on SQLite.
    `objects` are declared as an operator does it: the text of each file by its name. `register`
    is applied in place of `REGISTER`.
    """
    auth, api = (f"127.0.0.1:{free_port()}" for _ in range(2))
    (here / "objects").mkdir()
    for name, text in objects.items():
        (here / "objects" / name).write_text(text)
    config, file = here / "valetkey.toml", here / "register.toml"
    kept = [f'database = "{url}"\n' for url in databases] or ["", ""]
    kept[0] += f'keyring = "{here}/keyring"\n' if databases else ""
    kept[1] += f'credential = "{here}/credential"\n' if databases else ""
    config.write_text(
        f'[authorization]\nurl = "http://{auth}"\nlisten = "{auth}"\nworkers = {workers}\n{kept[0]}'
        f'[resource]\nurl = "http://{api}"\nlisten = "{api}"\nworkers = {workers}\n{kept[1]}'
        f'objects = "objects"\n'
    )
    file.touch(0o600)
    file.write_text(register or REGISTER)
    apply = [str(_PROGRAM), "apply", str(file), "--config", str(config), "--yes"]
    if databases:
        migrate = [str(_PROGRAM), "database", "migrate", "--config", str(config)]
        subprocess.run(migrate, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(apply, check=True, stdout=subprocess.DEVNULL)
    # As it is wherever the package was installed, and in a clone from its second start on.
    compile_dir(Path(valetkey.__file__).parent, quiet=1)
    began = time.monotonic()
    with (here / "log").open("w") as log:
        process = subprocess.Popen(
            [str(_PROGRAM), "serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        answered = first_answer(Place.of(f"http://{auth}"), DISCOVERY, began)
        ready = process.stdout.readline()
        assert ready.startswith("ready "), (here / "log").read_text()
        yield Running(f"http://{auth}", f"http://{api}", process.pid, answered)
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
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def family(parent: int) -> list[int]:
    """A process and its children."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, listed)]
