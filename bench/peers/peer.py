"""What a server must tell about itself to be measured, and the work that all of them do alike."""

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from bench.load import Line, Worker
from bench.workloads import CALLBACK, CHALLENGE, SECRET, VERIFIER, Place, Repeat, location

PUBLIC = "phone"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where a server answers what."""

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
    what all need. `spaced` says that its JSON has a space after each colon.
    """

    name: str
    place: Place
    paths: Paths
    pids: Callable[[], Sequence[int]]
    versions: str
    machine: Mapping[str, Mapping[str, str]]
    cookies: Mapping[str, str] = field(default_factory=dict[str, str])
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    introspects_as: str = "reference"
    spaced: bool = False

    def worked(self) -> float:
        """Seconds of CPU that it has used so far, to the nanosecond."""
        return sum(worked(pid) for pid in self.pids())

    def memory(self) -> int:
        """Megabytes resident, of all processes."""
        size = os.sysconf("SC_PAGE_SIZE")
        pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())
        return sum(pages) * size // 1_000_000

    def post(self, path: str, form: Mapping[str, str], *headers: str) -> bytes:
        """The bytes of a form."""
        return self.place.request("POST", path, urlencode(form), *headers)

    def get(self, path: str, *headers: str) -> bytes:
        """The bytes of a question."""
        return self.place.request("GET", path, "", *headers)

    def said(self, json: bytes) -> bytes:
        """How this server spells `json`."""
        return json.replace(b":", b": ") if self.spaced else json

    def line(self) -> Line:
        """A connection to it."""
        return Line(self.place.host, self.place.port)


def worked(pid: int) -> float:
    """Seconds of CPU of a process with all its threads; 0 for one that is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
    except FileNotFoundError:
        return 0.0


@dataclass
class Flow(Worker):
    """Someone signed in, who allowed it before, opens the app: a code, then tokens."""

    peer: Peer
    connection: Line
    scope: str
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def step(self) -> None:
        """The authorization request, the redirect, the exchange."""
        asked = {
            "response_type": "code",
            "client_id": PUBLIC,
            "redirect_uri": CALLBACK,
            "scope": self.scope,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }
        query = urlencode(asked | dict(self.peer.asked), quote_via=quote)
        cookie = "; ".join(f"{name}={value}" for name, value in self.peer.cookies.items())
        path = f"{self.peer.paths.authorize}?{query}"
        reply = await self.connection.ask(self.peer.get(path, f"Cookie: {cookie}"))
        answer = parse_qs(urlsplit(location(reply)).query)
        form = {
            "grant_type": "authorization_code",
            "client_id": PUBLIC,
            "code": answer["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }
        reply = await self.connection.ask(self.peer.post(self.peer.paths.token, form))
        assert reply.status == 200, reply.body
        self.tokens = json.loads(reply.body)
        assert ("openid" in self.scope.split()) == ("id_token" in self.tokens)


@dataclass
class Rotation(Worker):
    """A public client uses its refresh token, gets the successor, and goes on."""

    peer: Peer
    connection: Line
    token: str

    async def step(self) -> None:
        """Rotate once."""
        form = {"grant_type": "refresh_token", "client_id": PUBLIC, "refresh_token": self.token}
        reply = await self.connection.ask(self.peer.post(self.peer.paths.token, form))
        assert reply.status == 200, reply.body
        successor = json.loads(reply.body)["refresh_token"]
        assert successor != self.token
        self.token = successor


def machine(peer: Peer, kind: str) -> Repeat:
    """A client that fetches tokens for itself: `kind` is "jwt" or "reference"."""
    secret = {"grant_type": "client_credentials", "client_secret": SECRET}
    request = peer.post(peer.paths.machine_token, secret | dict(peer.machine[kind]))
    expected = b'"access_token":"eyJ' if kind == "jwt" else b'"access_token":"'
    return Repeat(peer.line(), request, peer.said(expected))


def introspection(peer: Peer, token: str) -> Repeat:
    """An API that asks what a token is worth."""
    credentials = b64encode(f"{peer.introspects_as}:{SECRET}".encode()).decode()
    form = {"token": token}
    if peer.name.startswith("oidc-provider"):
        form |= {"client_id": peer.introspects_as, "client_secret": SECRET}
        request = peer.post(peer.paths.introspection, form)
    else:
        header = f"Authorization: Basic {credentials}"
        request = peer.post(peer.paths.introspection, form, header)
    return Repeat(peer.line(), request, peer.said(b'"active":true'))


def userinfo(peer: Peer, token: str) -> Repeat:
    """An app that asks who it is."""
    request = peer.get(peer.paths.userinfo, f"Authorization: Bearer {token}")
    return Repeat(peer.line(), request, peer.said(b'"sub":'))


def document(peer: Peer, path: str, expected: bytes) -> Repeat:
    """Somebody who reads what the server says about itself."""
    return Repeat(peer.line(), peer.get(path), peer.said(expected))
