"""A server that begins with one person and one flow, is filled while it is down, and goes on."""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bench.growth.asks import Flow, machine
from bench.growth.fill import Size, fill
from bench.servers import family, start, worked
from bench.workloads import CALLBACK, CHALLENGE, PASSWORD, Place
from valetkey.testing.person import Person

PEOPLE = 32
"""So many sign in, each with a name of their own."""


@dataclass(frozen=True, slots=True)
class Site:
    """It, while it answers; `cookies` are those of the people who are signed in."""

    name: str
    url: str
    parent: int
    database: Path
    cookies: tuple[dict[str, str], ...]

    @property
    def place(self) -> Place:
        """Where it answers."""
        return Place.of(self.url)

    def worked(self) -> float:
        """Seconds of CPU used so far, by all its processes."""
        return sum(worked(pid) for pid in family(self.parent))

    def memory(self) -> int:
        """Megabytes resident in the process that answers."""
        for pid in family(self.parent):
            if ".serving.authorization" in Path(f"/proc/{pid}/cmdline").read_text():
                status = Path(f"/proc/{pid}/status").read_text()
                return int(status.partition("VmRSS:")[2].split()[0]) // 1_000
        raise AssertionError(self.parent)


@contextmanager
def site(here: Path, name: str, size: Size) -> Generator[Site]:
    """Serve with `size` more of everything than one flow leaves, and `PEOPLE` signed in."""
    database = here / "valetkey" / "authorization.db"
    with start(here, workers=1) as began:
        url = began.auth
        asyncio.run(_first(Place.of(url), _sign_in(url, "ada")))
    fill(database, size)
    with _again(here) as parent:
        people = tuple(_sign_in(url, f"user{number}") for number in range(PEOPLE))
        yield Site(name, url, parent, database, people)


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


async def _first(place: Place, cookies: dict[str, str]) -> None:
    """One of every row that is copied."""
    await Flow(place, cookies).step()
    await machine(place, "reference").step()


def _sign_in(url: str, username: str) -> dict[str, str]:
    person = Person(url)
    asked = {
        "response_type": "code",
        "client_id": "phone",
        "redirect_uri": CALLBACK,
        "scope": "openid notes:read",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    page = person.open(f"{url}/oauth/authorize?{urlencode(asked)}")
    page = person.allow(person.sign_in(page, username, PASSWORD))
    assert page.told["code"], page.text
    return dict(person.cookies)
