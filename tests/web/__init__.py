"""A small App, a request to it in memory, and raw bytes over a socket."""

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.wait import CEILING
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.runtime import Runtime
from valetkey.web.client_address import Network
from valetkey.web.connection.gate import Limits
from valetkey.web.connection.incoming_request import Message
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.router import Body, Route, RoutedApp

NOW = Instant(1_800_000_000)
RUNTIME = Runtime(now=lambda: NOW, random=lambda count: bytes(range(count)))
FORM = ("content-type", "application/x-www-form-urlencoded")
SECURITY = frozenset(
    (
        "content-security-policy",
        "cross-origin-opener-policy",
        "cross-origin-resource-policy",
        "permissions-policy",
        "referrer-policy",
        "x-content-type-options",
        "x-frame-options",
    )
)
"""What every answer must carry, HSTS apart."""

QUICK = Limits(handshake=0.5, header=0.3, body=0.4, idle=0.6, write=0.5, linger=0.2)
"""For tests of a deadline over real sockets."""

PATIENT = Limits(handshake=CEILING, header=CEILING, body=CEILING, idle=CEILING, write=CEILING)
"""For tests of anything else: on a busy machine no client misses a deadline."""


def refuse(request: Request, refusal: Refusal) -> Response:
    """No, as most of our endpoints say it."""
    body = {"error": refusal.code, "error_description": refusal.description}
    return json_response(body, refusal.code.status)


async def echo(request: Request) -> Response:
    """What arrived, as the endpoint sees it."""
    seen = {
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "hidden": request.hidden_query,
        "body": request.body.decode("latin-1"),
        "address": request.address,
        "secure": request.secure,
        "at": request.at,
        "arguments": dict(request.arguments),
    }
    return json_response(seen)


async def broken(request: Request) -> Response:
    """Fails with a secret in its message."""
    raise RuntimeError("vk_cs_canary")


async def large(request: Request) -> Response:
    """More than any socket buffer takes."""
    return Response(200, b"x" * 20_000_000)


ROUTES = (
    Route("/echo", {"GET": echo, "HEAD": echo, "POST": echo}, refuse, Body.ANY),
    Route("/form", {"POST": echo}, refuse, Body.FORM),
    Route("/json", {"POST": echo, "PATCH": echo}, refuse, Body.JSON),
    Route("/none", {"GET": echo, "POST": echo}, refuse),
    Route("/token", {"POST": echo}, refuse, Body.FORM, hides_query=True),
    Route("/broken", {"GET": broken}, refuse),
    Route("/large", {"GET": large}, refuse),
    Route("/v2/{object}", {"GET": echo}, refuse),
    Route("/v2/{object}/{id}", {"GET": echo, "DELETE": echo}, refuse),
)


def small_app(
    routes: Sequence[Route] = ROUTES,
    *,
    hosts: Sequence[str] = ("h.example",),
    trusted_proxies: Sequence[Network] = (),
    traced_peers: Sequence[Network] = (),
    hsts: bool = False,
    tls_proxy: bool = False,
    unavailable: tuple[type[Exception], ...] = (),
) -> RoutedApp:
    """An App that answers for h.example."""
    return RoutedApp(
        routes,
        runtime=RUNTIME,
        refuse=refuse,
        hosts=hosts,
        trusted_proxies=trusted_proxies,
        traced_peers=traced_peers,
        hsts=hsts,
        tls_proxy=tls_proxy,
        unavailable=unavailable,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(
    app: RoutedApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Sequence[tuple[str, str]] = (),
    *,
    peer: str = "192.0.2.7",
    scheme: str = "http",
    host: str | None = "h.example",
    pieces: int = 1,
) -> Answer:
    """One request in memory, its body in as many pieces."""
    path, _, query = target.partition("?")
    fields = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    if host is not None:
        fields.insert(0, (b"host", host.encode()))
    if body:
        fields.append((b"content-length", str(len(body)).encode()))
    size = max(1, -(-len(body) // pieces))
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    came: list[Message] = [
        {"type": "http.request", "body": part, "more_body": index < len(parts) - 1}
        for index, part in enumerate(parts)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return came.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Message = {
        "type": "http",
        "method": method,
        "scheme": scheme,
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": fields,
        "client": (peer, 40_000) if peer else None,
    }
    asyncio.run(app(scope, receive, send))
    assert scope["query_string"] == b""
    start, end = sent
    status, raw, content = start["status"], start["headers"], end["body"]
    assert isinstance(status, int)
    assert isinstance(raw, list)
    assert isinstance(content, bytes)
    return Answer(status, {name.decode(): value.decode() for name, value in raw}, content)


def connect(port: int) -> socket.socket:
    """A connection to a server on this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=CEILING)


def exchange_bytes(port: int, *parts: bytes) -> bytes:
    """Everything the server says to `parts` until it closes the connection."""
    with connect(port) as connection:
        for part in parts:
            connection.sendall(part)
        return read_all(connection)


def reset_by(connection: socket.socket, sent: bytes = b"") -> bool:
    """Whether the server cuts the connection off, while `sent` is sent again and again."""
    try:
        for _ in range(10_000):
            if sent:
                connection.sendall(sent)
            elif not connection.recv(1_000_000):
                return True
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def read_all(connection: socket.socket) -> bytes:
    """What comes until the end; TimeoutError if there is none."""
    heard = bytearray()
    while piece := connection.recv(65_536):
        heard += piece
    return bytes(heard)


def statuses(heard: bytes) -> list[int]:
    """The status of each answer in what was heard."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", heard)]
