"""What is measured: each workload does what a client, a browser or an API does, and checks it."""

import json
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from bench.load import Connection, Line, Reply, Worker, connect

SECRET = "a-secret-of-the-bench-with-more-than-32-letters"
PASSWORD = "correct horse battery staple"
CALLBACK = "https://app.example/cb"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636 appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@dataclass(frozen=True, slots=True)
class Place:
    """One server's address."""

    host: str
    port: int

    @staticmethod
    def of(url: str) -> "Place":
        """The place that an http URL names."""
        parts = urlsplit(url)
        return Place(parts.hostname or "", parts.port or 80)

    def request(self, method: str, path: str, body: str = "", *headers: str) -> bytes:
        """The bytes of a request; a body is a form."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", *headers]
        if method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        if body:
            lines.append("Content-Type: application/x-www-form-urlencoded")
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@dataclass
class Repeat(Worker):
    """The same request again and again; the answer is 200 and holds `expected`."""

    connection: Connection | Line
    request: bytes
    expected: bytes

    async def step(self) -> None:
        """Ask once."""
        reply = await self.connection.ask(self.request)
        assert reply.status == 200, reply.body
        assert self.expected in reply.body, reply.body


@dataclass
class Refresh(Worker):
    """A public client that uses its refresh token, gets its successor, and goes on."""

    place: Place
    connection: Connection
    token: str

    async def step(self) -> None:
        """Rotate once."""
        form = urlencode(
            {"grant_type": "refresh_token", "client_id": "phone", "refresh_token": self.token}
        )
        reply = await self.connection.ask(self.place.request("POST", "/oauth/token", form))
        assert reply.status == 200, reply.body
        successor = json.loads(reply.body)["refresh_token"]
        assert successor != self.token
        self.token = successor


@dataclass
class CodeFlow(Worker):
    """Someone who is signed in and allowed it before opens the app: code with PKCE, then token."""

    place: Place
    connection: Connection
    cookies: dict[str, str] = field(default_factory=dict[str, str])

    async def step(self) -> None:
        """The authorization request, the redirect, the exchange."""
        reply = await self._get(authorize_path())
        answer = parse_qs(urlsplit(location(reply)).query)
        form = urlencode(
            {
                "grant_type": "authorization_code",
                "client_id": "phone",
                "code": answer["code"][0],
                "redirect_uri": CALLBACK,
                "code_verifier": VERIFIER,
            }
        )
        reply = await self.connection.ask(self.place.request("POST", "/oauth/token", form))
        assert reply.status == 200, reply.body
        self.tokens: dict[str, str] = json.loads(reply.body)
        assert self.tokens["scope"] == "notes:read"

    async def _get(self, path: str) -> Reply:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return await self.connection.ask(self.place.request("GET", path, "", f"Cookie: {cookie}"))


def location(reply: Reply) -> str:
    """Where the answer sends to."""
    for line in reply.head.decode().split("\r\n"):
        name, _, value = line.partition(": ")
        if name.lower() == "location":
            return value
    raise AssertionError(reply)


def authorize_path() -> str:
    """The authorization request of the app on the phone."""
    return "/oauth/authorize?" + urlencode(
        {
            "response_type": "code",
            "client_id": "phone",
            "redirect_uri": CALLBACK,
            "scope": "notes:read",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        },
        quote_via=quote,
    )


def basic(client_id: str, secret: str) -> str:
    """An HTTP Basic header."""
    return "Authorization: Basic " + b64encode(f"{client_id}:{secret}".encode()).decode()


async def client_credentials(place: Place, client_id: str, expected: bytes) -> Repeat:
    """A client that fetches tokens for itself."""
    form = urlencode(
        {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": SECRET,
        }
    )
    request = place.request("POST", "/token", form)
    return Repeat(await connect(place.host, place.port), request, expected)


async def introspection(place: Place, token: str) -> Repeat:
    """A client that asks what its token is worth."""
    request = place.request(
        "POST", "/oauth/introspect", urlencode({"token": token}), basic("reference", SECRET)
    )
    return Repeat(await connect(place.host, place.port), request, b'"active":true')


async def resource_call(place: Place, token: str, expected: bytes) -> Repeat:
    """An app that reads its user's notes."""
    request = place.request("GET", "/v2/notes", "", f"Authorization: Bearer {token}")
    return Repeat(await connect(place.host, place.port), request, expected)
