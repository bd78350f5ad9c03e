"""A server that begins with one person and one flow, is filled while it is down, and goes on."""

import asyncio
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psycopg

from bench.growth.asks import Flow, machine
from bench.growth.fill import Size
from bench.growth.on_postgresql import PostgreSQLDatabase
from bench.growth.on_sqlite import SQLiteFile
from bench.peers.peer import worked
from bench.peers.postgres import SETTINGS
from bench.servers import family, start
from bench.workloads import CALLBACK, CHALLENGE, PASSWORD, Place
from tests.support import postgres as cluster
from valetkey.testing.browser import UserAgent

PEOPLE = 32
"""So many sign in, each with a name of their own."""

_DATABASES = ("tokens", "objects")


@dataclass(frozen=True, slots=True)
class Site:
    """It, while it answers; `cookies` are those of the people who are signed in.

    `parents` are the processes whose families do its work: those of PostgreSQL, and ours.
    """

    name: str
    url: str
    parents: Sequence[int]
    database: SQLiteFile | PostgreSQLDatabase
    cookies: tuple[dict[str, str], ...]

    @property
    def place(self) -> Place:
        """Where it answers."""
        return Place.of(self.url)

    def worked(self) -> float:
        """Seconds of CPU used so far, by all its processes and those of its database."""
        return sum(worked(pid) for parent in self.parents for pid in family(parent))

    def memory(self) -> int:
        """Megabytes resident in the process that answers."""
        for pid in family(self.parents[-1]):
            if ".serving.authorization" in Path(f"/proc/{pid}/cmdline").read_text():
                status = Path(f"/proc/{pid}/status").read_text()
                return int(status.partition("VmRSS:")[2].split()[0]) // 1_000
        raise AssertionError(self.parents)


@contextmanager
def site(here: Path, name: str, size: Size, *, on_postgresql: bool = False) -> Generator[Site]:
    """Serve with `size` more of everything than one flow leaves, and `PEOPLE` signed in.

    What is in the folder `here` from an earlier time is served as it is.
    """
    here.mkdir(exist_ok=True, parents=True)
    with ExitStack() as stack:
        parents: list[int] = []
        urls: list[str] = []
        database: SQLiteFile | PostgreSQLDatabase
        if on_postgresql:
            urls, parent = stack.enter_context(_cluster(here / "pg"))
            parents.append(parent)
            database = PostgreSQLDatabase(urls[0])
        else:
            database = SQLiteFile(here / "valetkey" / "authorization.db")
        filled = here / "url"
        if not filled.exists():
            url = begin(here, urls)
            database.fill(size)
            filled.write_text(url)
        url = filled.read_text()
        parents.append(stack.enter_context(_again(here)))
        people = tuple(_sign_in(url, f"user{number}") for number in range(PEOPLE))
        yield Site(name, url, parents, database, people)


def begin(here: Path, databases: Sequence[str] = ()) -> str:
    """Serve until there is one of every row that is copied; the URL at which it answered."""
    with start(here, workers=1, databases=databases) as began:
        asyncio.run(_first(Place.of(began.auth), _sign_in(began.auth, "ada")))
    return began.auth


@contextmanager
def _cluster(folder: Path) -> Generator[tuple[list[str], int]]:
    """A PostgreSQL of its own, with every commit on disk: two databases, and its process."""
    folder.mkdir(exist_ok=True)
    if not (folder / "data").exists():
        cluster.create(folder)
    cluster.start(folder / "data", folder, SETTINGS)
    try:
        with psycopg.connect(cluster.url(folder, "postgres"), autocommit=True) as raw:
            for name in _DATABASES:
                with suppress(psycopg.errors.DuplicateDatabase):
                    raw.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        parent = int((folder / "data/postmaster.pid").read_text().split()[0])
        yield [cluster.url(folder, name) for name in _DATABASES], parent
    finally:
        cluster.stop(folder / "data", mode="fast")


@contextmanager
def _again(here: Path) -> Generator[int]:
    program = str(Path(sys.executable).with_name("valetkey"))
    with (here / "log").open("a") as log:
        process = subprocess.Popen(
            [program, "serve", "--config", str(here / "valetkey.toml")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("ready "), (here / "log").read_text()
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


async def _first(address: Place, cookies: dict[str, str]) -> None:
    flow, fetch = Flow(address, cookies), machine(address, "reference")
    await flow.step()
    await fetch.step()
    for connection in (flow.line, fetch.connection):
        connection.close()
    # Who closes a connection is heard in the next turn of the loop.
    await asyncio.sleep(0)


def _sign_in(url: str, username: str) -> dict[str, str]:
    person = UserAgent(url)
    parameters = {
        "response_type": "code",
        "client_id": "phone",
        "redirect_uri": CALLBACK,
        "scope": "openid notes:read",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    page = person.open(f"{url}/oauth/authorize?{urlencode(parameters)}")
    page = person.sign_in(page, username, PASSWORD)
    if "code" not in page.redirect_parameters:
        page = person.allow(page)
    assert page.redirect_parameters["code"], page.text
    return dict(person.cookies)
