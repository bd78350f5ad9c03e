"""What all measurements share: who asks, how a request is spelled, and how it is repeated."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from bench.load import Connection, Line, Reply, Worker

SECRET = "a-secret-of-the-bench-with-more-than-32-letters"
PASSWORD = "correct horse battery staple"
CALLBACK = "https://app.example/cb"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636 appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

_FORM = "application/x-www-form-urlencoded"


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

    def request(
        self, method: str, path: str, body: str = "", *headers: str, kind: str = _FORM
    ) -> bytes:
        """The bytes of a request; `kind` is the content type of its body."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", *headers]
        if method in {"POST", "PUT"}:
            lines.append(f"Content-Length: {len(body)}")
        if body:
            lines.append(f"Content-Type: {kind}")
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@dataclass
class Repeat(Worker):
    """The same request again and again; the answer is 200 and holds `expected`."""

    connection: Connection | Line
    request: bytes
    expected: bytes

    async def step(self) -> None:
        """Ask once."""
        (await self.connection.ask(self.request)).check(expected=self.expected)


def location(reply: Reply) -> str:
    """Where the answer sends to."""
    for line in reply.head.decode().split("\r\n"):
        name, _, value = line.partition(": ")
        if name.lower() == "location":
            return value
    raise AssertionError(f"no redirect: status {reply.status}, body {reply.body[:200]!r}")
