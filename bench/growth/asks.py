"""What is asked of both servers: each caller goes round its own tokens, so that none stays warm."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from bench.load import Line, Worker
from bench.workloads import CALLBACK, CHALLENGE, SECRET, VERIFIER, Place, Repeat, location

_MACHINE = {"grant_type": "client_credentials", "client_secret": SECRET}


@dataclass
class Flow(Worker):
    """Someone signed in, who allowed it before, opens the app: a code, then tokens with ID token.

    The last fifty answers are kept.
    """

    place: Place
    cookies: Mapping[str, str]
    answers: deque[dict[str, str]] = field(default_factory=lambda: deque(maxlen=50))

    def __post_init__(self) -> None:
        """Connect when asked first."""
        self.line = Line(self.place.host, self.place.port)

    async def step(self) -> None:
        """The authorization request, the redirect, the exchange."""
        parameters = {
            "response_type": "code",
            "client_id": "phone",
            "redirect_uri": CALLBACK,
            "scope": "openid notes:read",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        path = f"/oauth/authorize?{urlencode(parameters, quote_via=quote)}"
        reply = await self.line.ask(self.place.request("GET", path, "", f"Cookie: {cookie}"))
        form = {
            "grant_type": "authorization_code",
            "client_id": "phone",
            "code": parse_qs(urlsplit(location(reply)).query)["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }
        reply = await self.line.ask(self.place.request("POST", "/oauth/token", urlencode(form)))
        self.answers.append(json.loads(reply.check().body))
        assert "id_token" in self.answers[-1]


@dataclass
class Rotation(Worker):
    """A public client with many grants, whose refresh tokens it uses in turn."""

    place: Place
    tokens: deque[str]

    def __post_init__(self) -> None:
        """Connect when asked first."""
        self.line = Line(self.place.host, self.place.port)

    async def step(self) -> None:
        """Rotate the one that was left longest."""
        form = {
            "grant_type": "refresh_token",
            "client_id": "phone",
            "refresh_token": self.tokens.popleft(),
        }
        reply = await self.line.ask(self.place.request("POST", "/oauth/token", urlencode(form)))
        self.tokens.append(json.loads(reply.check().body)["refresh_token"])


@dataclass
class Round(Worker):
    """One question about many tokens, in turn; the answer holds `expected`."""

    line: Line
    requests: deque[bytes]
    expected: bytes

    async def step(self) -> None:
        """Ask about the next."""
        reply = await self.line.ask(self.requests[0])
        self.requests.rotate(-1)
        reply.check(expected=self.expected)


def machine(address: Place, client_id: str) -> Repeat:
    """A client that fetches tokens for itself."""
    form = urlencode({**_MACHINE, "client_id": client_id})
    request = address.request("POST", "/token", form)
    return Repeat(Line(address.host, address.port), request, b'"access_token":')


async def reference_tokens(address: Place, count: int) -> list[str]:
    """So many access tokens by reference."""
    asks = machine(address, "reference")
    return [
        json.loads((await asks.connection.ask(asks.request)).check().body)["access_token"]
        for _ in range(count)
    ]


def introspection(address: Place, tokens: list[str]) -> Round:
    """An API that asks what tokens are worth."""
    who = {"client_id": "reference", "client_secret": SECRET}
    requests = (
        address.request("POST", "/oauth/introspect", urlencode({**who, "token": token}))
        for token in tokens
    )
    return Round(Line(address.host, address.port), deque(requests), b'"active":true')


def userinfo(address: Place, tokens: list[str]) -> Round:
    """Apps that ask who it is."""
    requests = (
        address.request("GET", "/oauth/userinfo", "", f"Authorization: Bearer {token}")
        for token in tokens
    )
    return Round(Line(address.host, address.port), deque(requests), b'"sub":')
