"""The tutorial's API lets in whom it should, and says no as the tutorial says."""

import asyncio
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.documents.pages import blocks
from valetkey.kernel.access_token import AccessToken
from valetkey.kernel.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope

PAGE = "docs/tutorials/protect-your-api.md"
AUDIENCE = "http://127.0.0.1:8401"
KEY = SigningKey.generate()


class Issuer(BaseHTTPRequestHandler):
    """An issuer that has a key and nothing else."""

    def do_GET(self) -> None:
        document = KeySet.of(KEY.public).document()
        self.send_response(200 if self.path == "/oauth/jwks" else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(document)))
        self.end_headers()
        self.wfile.write(document)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def issuer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def api_of_the_page(issuer: str) -> Any:
    """The ASGI application that the tutorial shows, with the issuer of this test."""
    (block,) = (block for block in blocks(PAGE) if block.title == "api.py")
    names: dict[str, Any] = {}
    code = block.code.replace("http://127.0.0.1:8400", issuer)
    exec(compile(code, PAGE, "exec"), names)
    return names["app"]


def token(issuer: str, scope: str) -> str:
    """An access token of Ada's."""
    now = Instant(int(time.time()))
    later = Instant(now + 600)
    return AccessToken(
        issuer, "1001", "printer", AUDIENCE, Scope.parse(scope), "t1", now, later, "g1", now
    ).sign(KEY)


async def ask(app: Any, *authorization: str) -> tuple[int, dict[bytes, bytes], Any]:
    """One request; status, headers and body of the answer."""
    said: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    headers = [(b"authorization", value.encode()) for value in authorization]
    await app({"type": "http", "method": "GET", "path": "/", "headers": headers}, None, send)
    return said[0]["status"], dict(said[0]["headers"]), json.loads(said[1]["body"])


async def live(app: Any, *requests: tuple[str, ...]) -> list[tuple[int, dict[bytes, bytes], Any]]:
    """The answers to these requests, from an application that lives as a server lets it."""
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    assert (await from_app.get())["type"] == "lifespan.startup.complete"
    answers = [await ask(app, *request) for request in requests]
    await to_app.put({"type": "lifespan.shutdown"})
    assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
    await life
    return answers


def test_the_api_of_the_tutorial_lets_in_whom_it_should(issuer: str) -> None:
    good = f"Bearer {token(issuer, 'notes:read')}"
    narrow = f"Bearer {token(issuer, 'account:read')}"
    welcome, nobody, not_enough, rubbish = asyncio.run(
        live(api_of_the_page(issuer), (good,), (), (narrow,), ("Bearer rubbish",))
    )
    assert welcome[0] == 200
    assert welcome[2] == {"hello": "1001", "by": "printer"}
    assert nobody[0] == 401
    assert nobody[1][b"www-authenticate"].startswith(b"Bearer ")
    assert b"error=" not in nobody[1][b"www-authenticate"]
    assert not_enough[0] == 403
    assert b'error="insufficient_scope"' in not_enough[1][b"www-authenticate"]
    assert rubbish[0] == 401
    assert b'error="invalid_token"' in rubbish[1][b"www-authenticate"]
