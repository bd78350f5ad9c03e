"""E38: a server without descriptors, threads, memory, or connections to its database."""

import http.client
import os
import random
import resource
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode

import psycopg

from bench.ports import free_port
from tests.reliability.load import asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.stories.processes.serving import PASSWORD, SECRET
from tests.support import postgres
from tests.support.processes import children
from tests.support.wait import wait_until

_DESCRIPTORS = 20
_HEADROOM = 64 * 1024 * 1024
_CONNECTIONS = 20
_SIGN_INS = 6
"""Users who sign in at once, each over new connections."""

_HELD = 24
"""Sign-ins that are answered or refused before the resource is given back."""

_HUNG = 15.0
"""Seconds; longer than the server waits for its database."""

_LONGEST = 10.0
_PAGE = resource.getpagesize()
# The system does not limit the processes of root. Its files can be read all the same.
_OWNER = 64_738
_AS_OWNER = ("--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override")
# Two hashes at once do not fit into the headroom.
_MEMORY = "[passwords]\nmemory = 40\n"
_HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}
_APP = {"client_id": "printer", "client_secret": SECRET}
_TOKEN = urlencode({**_APP, "grant_type": "client_credentials"})
_SIGN_IN = urlencode({**_APP, "grant_type": "password", "username": "ada", "password": PASSWORD})
_TERMINATE = (
    b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    b" WHERE backend_type = 'client backend' AND application_name <> 'experiment'"
)


def _status(host: str, form: str) -> str:
    """Return the status of a token request over a new connection, or the name of what failed."""
    connection = http.client.HTTPConnection(host, timeout=_HUNG)
    try:
        connection.request("POST", "/oauth/token", form, _HEADERS)
        answer = connection.getresponse()
        answer.read()
        valid = answer.status != http.client.SERVICE_UNAVAILABLE or answer.getheader("retry-after")
        return str(answer.status) if valid else "503 without Retry-After"
    except (OSError, http.client.HTTPException) as failure:
        return type(failure).__name__
    finally:
        connection.close()


@dataclass
class _Users:
    """Users who sign in again and again, until the end."""

    host: str
    answers: Counter[str] = field(default_factory=Counter[str])
    _over: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def act(self) -> None:
        """Sign in until the end."""
        while not self._over.wait(0.02):
            status = _status(self.host, _SIGN_IN)
            with self._turn:
                self.answers[status] += 1

    @contextmanager
    def acting(self) -> Generator[None]:
        """Have them sign in for as long as the block lasts."""
        threads = [threading.Thread(target=self.act) for _ in range(_SIGN_INS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()


@dataclass(frozen=True, slots=True)
class _Site:
    """A node with one worker, where it is, and the folder of its PostgreSQL if it has one."""

    node: Node
    host: str
    server: Path | None

    def processes(self) -> Sequence[int]:
        """Return its processes: supervisor, fork server and worker."""
        assert self.node.process is not None
        return [self.node.process.pid, *children(self.node.process.pid)]

    def kill_worker(self) -> None:
        """Kill -9 of the worker."""
        for pid in self.node.workers():
            os.kill(pid, signal.SIGKILL)

    def is_well(self) -> bool:
        """Whether apps get tokens and users can sign in."""
        return _status(self.host, _TOKEN) == "200" == _status(self.host, _SIGN_IN)


@contextmanager
def _limited(pids: Sequence[int], which: int, most: Callable[[int], int]) -> Generator[None]:
    """Lower a limit of these processes."""
    lower = {pid: most(pid) for pid in pids}
    before: dict[int, tuple[int, int]] = {}
    with _as_owner():
        for pid in pids:
            before[pid] = resource.prlimit(pid, which)
            resource.prlimit(pid, which, (lower[pid], before[pid][1]))
    try:
        yield
    finally:
        with _as_owner():
            for pid, limits in before.items():
                # One that was killed has none.
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, which, limits)


@contextmanager
def _as_owner() -> Generator[None]:
    """Be the owner of the server, who may change its limits."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(_OWNER, -1, -1)
    try:
        yield
    finally:
        os.setresuid(0, -1, -1)


@contextmanager
def _without_descriptors(site: _Site) -> Generator[None]:
    """Leave the worker twenty descriptors, and take them with idle connections."""
    name, _, port = site.host.partition(":")
    with (
        _limited(
            site.node.workers(),
            resource.RLIMIT_NOFILE,
            lambda pid: _DESCRIPTORS + sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        ),
        ExitStack() as idle,
    ):
        for _ in range(3 * _DESCRIPTORS):
            idle.enter_context(socket.create_connection((name, int(port))))
        if site.server is not None:
            with _connected(site.server) as raw:
                raw.execute(_TERMINATE)
        yield


@contextmanager
def _without_threads(site: _Site) -> Generator[None]:
    """Leave no thread to a new worker, which has not hashed a password yet."""
    old = site.node.workers()
    site.kill_worker()
    wait_until(lambda: _status(site.host, _TOKEN) == "200" and site.node.workers() != old)
    with _limited(site.processes(), resource.RLIMIT_NPROC, lambda _: 1):
        yield


@contextmanager
def _without_processes(site: _Site) -> Generator[None]:
    """Kill the worker while nothing can be started in its place."""
    with _limited(site.processes(), resource.RLIMIT_NPROC, lambda _: 1):
        site.kill_worker()
        yield


@contextmanager
def _without_memory(site: _Site) -> Generator[None]:
    """Leave the worker 64 MiB of address space."""

    def most(pid: int) -> int:
        return _HEADROOM + _PAGE * int(Path(f"/proc/{pid}/statm").read_text().split()[0])

    with _limited(site.node.workers(), resource.RLIMIT_AS, most):
        yield


@contextmanager
def _without_connections(site: _Site) -> Generator[None]:
    """Take every connection of PostgreSQL; those of the server are closed for it."""
    assert site.server is not None
    with ExitStack() as taken:
        first, count = taken.enter_context(_connected(site.server)), 1
        while count < _CONNECTIONS:
            try:
                taken.enter_context(_connected(site.server))
                count += 1
            except psycopg.OperationalError:
                first.execute(_TERMINATE)
        yield


def _connected(server: Path) -> AbstractContextManager[psycopg.Connection]:
    url = postgres.url(server, "postgres")
    return psycopg.connect(url, autocommit=True, application_name="experiment")


# A client whose worker is killed, or finds no descriptor for it, sees its connection end.
_ANSWERED = frozenset({"200", "503"})
_CUT = _ANSWERED | {"RemoteDisconnected", "ConnectionResetError", "BrokenPipeError"}

_EDGES: Mapping[str, tuple[Callable[[_Site], AbstractContextManager[None]], frozenset[str]]] = (
    MappingProxyType(
        {
            "20 descriptors": (_without_descriptors, _CUT),
            "no threads": (_without_threads, _CUT),
            "no processes, worker killed": (_without_processes, _CUT),
            "64 MiB": (_without_memory, _ANSWERED),
            "max_connections": (_without_connections, _ANSWERED),
        }
    )
)


@dataclass
class _Totals:
    """What all rounds found, by edge."""

    refused: Counter[str] = field(default_factory=Counter[str])
    wrong: Counter[str] = field(default_factory=Counter[str])
    recovered: dict[str, float] = field(default_factory=dict[str, float])


def exhausted_resources(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Exhaust each resource, on PostgreSQL and on SQLite in turn; `times` each."""
    totals = _Totals()
    for number, own in enumerate((_own_postgres, nullcontext)[: min(times, 2)]):
        with own() as server, _running(folder / str(number), server) as site:
            for _ in range((times + 1 - number) // 2):
                for name in _EDGES:
                    if server is not None or name != "max_connections":
                        _exhaust(name, site, totals)
    edges = ", ".join(
        f"{name}: {totals.refused[name]} answers 503, well after {took:.1f} s"
        for name, took in totals.recovered.items()
    )
    wrong = f"; others: {dict(totals.wrong)}" if totals.wrong else ""
    held = not totals.wrong and max(totals.recovered.values()) < _LONGEST
    return Outcome(
        "E38 exhausted resources",
        "200 or 503 (connections may be cut without descriptors or worker), back within 10 s",
        f"{times} rounds of each on PostgreSQL and SQLite; {edges}{wrong}",
        held,
    )


@contextmanager
def _own_postgres() -> Generator[Path]:
    with postgres.own_server({"max_connections": str(_CONNECTIONS)}) as server:
        yield server


@contextmanager
def _running(here: Path, server: Path | None) -> Generator[_Site]:
    host = f"127.0.0.1:{free_port()}"
    database = "sqlite:///a/auth.db" if server is None else postgres.url(server, "postgres")
    node = Node(here)
    if os.geteuid() == 0:
        program = shutil.which("setpriv")
        assert program is not None, "setpriv is missing"
        node.under = (program, f"--reuid={_OWNER}", *_AS_OWNER)
    configure(here, url=f"http://{host}", listen=host, database=database, more=_MEMORY)
    register(here)
    if node.under:
        for file in (here, *here.rglob("*")):
            os.chown(file, _OWNER, -1)
    with stopped_in_the_end(node):
        node.start()
        yield _Site(node, host, server)


def _exhaust(name: str, site: _Site, totals: _Totals) -> None:
    edge, fine = _EDGES[name]
    users = _Users(site.host)
    with asking(site.host, site.host) as load:
        with edge(site), users.acting():
            wait_until(lambda: users.answers.total() >= _HELD, f"{name}: it hangs")
        began = time.monotonic()
        wait_until(site.is_well, f"{name}: it does not recover")
        took = time.monotonic() - began
    answers = users.answers + load.answers
    totals.refused[name] += answers["503"]
    totals.recovered[name] = max(took, totals.recovered.get(name, 0.0))
    for answer, count in answers.items():
        if answer not in fine:
            totals.wrong[f"{name}: {answer}"] += count
