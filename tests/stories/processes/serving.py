"""The real program as an operator runs it: `valetkey apply`, then `valetkey serve`, then load."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import requests

from tests.cli.running import PROGRAM, Running, clean_environment, valetkey
from tests.support.processes import children, is_dying, state, workers
from tests.support.wait import CEILING, wait_until
from valetkey.testing.browser import UserAgent

T = TypeVar("T")

PASSWORD = "correct horse battery staple"
SECRET = "a-secret-of-the-printer-with-more-than-32"
CALLBACK = "https://app.example/cb"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636 appendix B
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
_PATIENCE = CEILING

REGISTER = f"""
[[users]]
uid = 1001
username = "ada"
email = "ada@example.com"
name = "Ada Lovelace"
password = "{PASSWORD}"

[[clients]]
client_id = "printer"
client_secret = "{SECRET}"
name = "Notes Printer"
redirect_uris = ["{CALLBACK}"]
grant_types = ["authorization_code", "refresh_token", "client_credentials", "password"]
scopes = ["notes:read", "notes:write", "account:read"]

[[clients]]
client_id = "phone"
name = "Notes Phone"
type = "public"
redirect_uris = ["{CALLBACK}"]
scopes = ["notes:read"]
"""


@dataclass
class Serving:
    """A running pair of servers, and how to talk to them as the clients of `REGISTER`."""

    auth: str
    api: str
    process: subprocess.Popen[str]
    metrics: str = ""
    """Where metrics are scraped, if its configuration says so."""

    def workers(self) -> list[int]:
        """The processes that answer for the authorization server."""
        return workers_of(self.process.pid, self.auth)

    def code(self, client_id: str = "printer") -> str:
        """Ada signs in and allows; the code."""
        person = UserAgent(self.auth)
        page = person.open(
            f"{self.auth}/oauth/authorize?response_type=code&client_id={client_id}"
            f"&redirect_uri={CALLBACK}&scope=notes:read&code_challenge={CHALLENGE}"
            "&code_challenge_method=S256"
        )
        page = person.sign_in(page, "ada", PASSWORD)
        page = page if page.location else person.allow(page)
        return page.redirect_parameters["code"]

    def ask(self, client_id: str = "printer", **parameters: str) -> requests.Response:
        """A token request."""
        form = {"client_id": client_id, **parameters}
        if client_id == "printer":
            form["client_secret"] = SECRET
        return requests.post(f"{self.auth}/oauth/token", data=form, timeout=_PATIENCE)

    def redeem(self, code: str, client_id: str = "printer") -> requests.Response:
        """Exchange a code."""
        return self.ask(
            client_id,
            grant_type="authorization_code",
            code=code,
            redirect_uri=CALLBACK,
            code_verifier=VERIFIER,
        )

    def refresh(self, token: str, client_id: str = "phone") -> requests.Response:
        """Use a refresh token."""
        return self.ask(client_id, grant_type="refresh_token", refresh_token=token)

    def kill(self) -> None:
        """End every process of it at once, as a power cut would, and wait until all are gone."""
        kill_together(self.process)


def configure(
    here: Path, database: str, *, workers: int = 1, every_algorithm: bool = False
) -> Path:
    """The configuration of both servers on free ports, and everyone of `REGISTER` in it.

    Unless every algorithm is wanted, there are no keys that take long to make.
    """
    config = here / "valetkey.toml"
    if config.exists():
        return config
    auth, api = free_addresses()
    tokens = "" if every_algorithm else '[tokens]\nsigning_algorithms = ["ES256"]\n'
    config.write_text(
        f'[authorization]\nurl = "http://{auth}"\nlisten = "{auth}"\n'
        f'database = "{database}"\nworkers = {workers}\n'
        f'[resource]\nurl = "http://{api}"\nlisten = "{api}"\n'
        f'[log]\nlevel = "warning"\n{tokens}'
    )
    (here / "register.toml").write_text(REGISTER)
    done = valetkey("apply", "register.toml", "--config", str(config), "--yes", here=here)
    assert done.code == 0, done.out + done.err
    return config


@contextmanager
def serving(
    here: Path,
    database: str,
    *,
    workers: int = 1,
    start: type[subprocess.Popen[str]] = Running,
) -> Generator[Serving]:
    """Both servers on free ports, with everyone of `REGISTER`; again if `here` was used before.

    `database` is the authorization server's URL. As installed if `start` is a Popen.
    """
    config = configure(here, database, workers=workers)
    process = start(
        [str(PROGRAM), "serve", "--config", str(config)],
        cwd=here,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready "), ready
        addresses = dict(word.split("=", 1) for word in ready.split()[1:])
        yield Serving(
            addresses["authorization"], addresses["resource"], process, addresses.get("metrics", "")
        )
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(_PATIENCE)
        if process.stdout is not None:
            process.stdout.close()


def together(work: Callable[[], T], times: int = 64) -> list[T]:
    """What `work` returns when it is done so many times, all beginning at one moment."""
    start = threading.Barrier(times)

    def begin(_: int) -> T:
        start.wait(_PATIENCE)
        return work()

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(begin, range(times)))


def cpu_seconds(pids: Sequence[int]) -> list[float]:
    """What each of these processes has worked."""
    ticks = os.sysconf("SC_CLK_TCK")
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return [(int(stat[11]) + int(stat[12])) / ticks for stat in stats]


def workers_of(supervisor: int, url: str) -> list[int]:
    """Return the processes that answer for the server at this URL."""
    return [pid for pid in workers(supervisor) if _listens(pid, url)]


def _listens(pid: int, url: str) -> bool:
    """Return whether the process has the socket of this server."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    listening = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == "0A"}
    with contextlib.suppress(OSError):
        return any(
            str(descriptor.readlink()) in listening
            for descriptor in Path(f"/proc/{pid}/fd").iterdir()
        )
    return False


def free_addresses() -> tuple[str, str]:
    """Return two addresses on loopback, with different ports that nobody uses."""
    # Below the ports that the system gives to outgoing connections: a server that was killed
    # must find its own port free again.
    while True:
        one, two = random.sample(range(10_000, 32_000), 2)
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", one))
            second.bind(("127.0.0.1", two))
            return f"127.0.0.1:{one}", f"127.0.0.1:{two}"


def kill_together(process: subprocess.Popen[str]) -> None:
    """Kill a supervisor and its children, as a power cut would, and wait until all are gone."""
    # It must not start others while its children are listed.
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: state(process.pid) in {"T", "Z"})
    together = (process.pid, *children(process.pid))
    for pid in together:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(_PATIENCE)
    wait_until(lambda: not any(is_dying(pid) for pid in together))
