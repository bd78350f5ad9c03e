"""What a server must tell about itself to be measured, and what its processes have used."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from bench.load import Line
from bench.workloads import Place

PUBLIC = "phone"
SCOPE = "openid notes:read"
"""What users allow the app."""

TOKENS = 3_200
"""How many tokens are asked about in turn."""

FEW_TOKENS = 320
"""Of a server that remembers none of them, and needs minutes to issue more."""

_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Paths:
    """Where a server answers what; "" for what it does not have."""

    token: str
    machine_token: str
    authorize: str
    introspection: str
    userinfo: str
    keys: str
    discovery: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that runs. `pids` are all of its processes, those of its database included.

    `machine` is what the token endpoint needs for a JWT and for a token by reference, beside the
    grant type, as far as the server has them; `asked` what an authorization request needs beside
    what all need and `scope`. `posts_secret` says that who introspects sends its secret in the
    form, `spaced` that the server's JSON has a space after each colon. `api` is where a resource
    server of its own answers; `started` the seconds from its start to its first answer; `warm` the
    seconds of CPU that it is given before anything is measured; `tokens` how many are asked about
    in turn; `only` the workloads of a server that has no others.

    `databases` are those of `pids` that are its database's. `admin` is where it answers
    introspection, if that is another place; `refresh_scope` is asked for beside the scope where a
    refresh token needs it. `public` is the app that users open, whose ID tokens are signed by
    `signs`; `by_rs256` is the same server with RS256, if it can do both. `ordinary` are the cookies
    of a user with three connected apps and three sessions.
    """

    name: str
    place: Place
    paths: Paths
    pids: Callable[[], Sequence[int]]
    versions: str
    machine: Mapping[str, Mapping[str, str]]
    cookies: Mapping[str, str] = field(default_factory=dict[str, str])
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    scope: str = SCOPE
    introspects_as: str = "reference"
    posts_secret: bool = False
    spaced: bool = False
    api: Place | None = None
    started: float = 0.0
    warm: float = 0.0
    tokens: int = TOKENS
    only: Sequence[str] = ()
    databases: Callable[[], Sequence[int]] = tuple
    admin: Place | None = None
    refresh_scope: str = ""
    public: str = PUBLIC
    signs: str = "ES256"
    by_rs256: "Peer | None" = None
    ordinary: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def issues(self) -> str:
        """The kind of token that is introspected and written: by reference if it has such."""
        return "reference" if "reference" in self.machine else "jwt"

    def worked(self) -> float:
        """Seconds of CPU that it has used so far; to a hundredth if threads of it ended."""
        return sum(worked(pid) for pid in self.pids())

    def memory(self) -> list[int]:
        """Megabytes of each process, largest first, those of its database not included.

        They are proportional set sizes: what several processes share is divided among them.
        """
        apart = set(self.databases())
        return sorted((_megabytes(pid) for pid in self.pids() if pid not in apart), reverse=True)

    def database_memory(self) -> int:
        """Megabytes of all processes of its database together."""
        return sum(_megabytes(pid) for pid in self.databases())

    def post(self, path: str, form: Mapping[str, str], *headers: str) -> bytes:
        """The bytes of a form."""
        return self.place.request("POST", path, urlencode(form), *headers)

    def get(self, path: str, *headers: str) -> bytes:
        """The bytes of a question."""
        return self.place.request("GET", path, "", *headers)

    def said(self, json: bytes) -> bytes:
        """How this server spells `json`."""
        return json.replace(b":", b": ") if self.spaced else json

    def line(self, address: Place | None = None) -> Line:
        """A connection to it, or to another of its places."""
        address = address or self.place
        return Line(address.host, address.port)


def worked(pid: int) -> float:
    """Seconds of CPU of a process, its threads and its children that ended; 0 if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    alive = 0.0
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):
            alive += int((thread / "schedstat").read_text().split()[0]) / 1e9
    # Threads that ended are only in the sum of all, which is counted in ticks.
    own, children = (
        (int(stat[first]) + int(stat[first + 1])) / os.sysconf("SC_CLK_TCK") for first in (11, 13)
    )
    return max(alive, own) + children


def first_answer(address: Place, path: str, began: float, patience: float = _PATIENCE) -> float:
    """Seconds from `began`, by the monotonic clock, until `address` answers `path`."""
    while True:
        asking = HTTPConnection(address.host, address.port, timeout=_PATIENCE)
        try:
            asking.request("GET", path)
            assert asking.getresponse().status == 200
            return time.monotonic() - began
        except ConnectionError:
            assert time.monotonic() - began < patience, "it did not start"
            time.sleep(0.01)
        finally:
            asking.close()


def _megabytes(pid: int) -> int:
    try:
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    kilobytes = int(shares.partition("\nPss:")[2].split()[0])
    return kilobytes // 1_000
