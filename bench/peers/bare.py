"""The bare ceiling: uvloop and httptools, none of Valetkey's classes, one durable row per token.

`POST /token` checks a client's secret, signs a JWT by ES256 and answers when a row is on disk:
SQLite with `synchronous=FULL`, all rows that came meanwhile in one commit. `POST /unwritten` does
the same without the row. What Valetkey does of the same workload, over this, is what its promises
leave of the machine.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
import socket
import sqlite3
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl

import httptools
import uvloop
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from bench.peers.peer import Peer
from bench.peers.work import JWT, KEYS
from bench.servers import TOKENS_AND_KEYS, program
from bench.workloads import SECRET
from valetkey.kernel.replace import replace

NAME = "bare, one durable row"
UNWRITTEN = "bare, no row"
_SECONDS = 600


@contextmanager
def bare(directory: Path) -> Generator[tuple[Peer, Peer]]:
    """It, in a process of its own: with a row for each token, and without."""
    with program(NAME, "bench.peers.bare", str(directory / "rows")) as peer:
        written = replace(peer, only=(JWT, KEYS))
        paths = replace(TOKENS_AND_KEYS, machine_token="/unwritten")
        yield written, replace(peer, name=UNWRITTEN, paths=paths, only=(JWT,))


class Writer:
    """A thread that commits rows: all that wait, in one transaction."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        """Make the table at `path`; `loop` is told when rows are on disk."""
        self._loop = loop
        self._path = path
        self._waiting: deque[tuple[tuple[str, str, int], asyncio.Future[None]]] = deque()
        self._woken = threading.Event()
        threading.Thread(target=self._write, daemon=True).start()

    def add(self, row: tuple[str, str, int]) -> asyncio.Future[None]:
        """Return what is done when this row is on disk."""
        done = self._loop.create_future()
        self._waiting.append((row, done))
        self._woken.set()
        return done

    def _write(self) -> None:
        kept = sqlite3.connect(self._path, isolation_level=None)
        kept.execute("PRAGMA journal_mode = WAL")
        kept.execute("PRAGMA synchronous = FULL")
        kept.execute("CREATE TABLE tokens (id TEXT PRIMARY KEY, client TEXT, expires INTEGER)")
        while self._woken.wait():
            self._woken.clear()
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if batch:
                kept.execute("BEGIN IMMEDIATE")
                kept.executemany("INSERT INTO tokens VALUES (?, ?, ?)", [row for row, _ in batch])
                kept.execute("COMMIT")
                self._loop.call_soon_threadsafe(self._tell, [done for _, done in batch])

    @staticmethod
    def _tell(written: list[asyncio.Future[None]]) -> None:
        for future in written:
            future.set_result(None)


class Signer:
    """JWTs signed by ES256 with a key of its own."""

    def __init__(self, issuer: str) -> None:
        """Make the key."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issuer = issuer
        header = {"typ": "at+jwt", "alg": "ES256", "kid": "bench"}
        self._head = _base64url(json.dumps(header).encode())
        self._algorithm = ec.ECDSA(SHA256())

    def published(self) -> bytes:
        """Return the JWK set."""
        numbers = self._key.public_key().public_numbers()
        x, y = (
            _base64url(coordinate.to_bytes(32)).decode() for coordinate in (numbers.x, numbers.y)
        )
        key = {"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "bench", "alg": "ES256"}
        return json.dumps({"keys": [key]}).encode()

    def token(self, client: str, token_id: str, expires: int) -> str:
        """Return an access token."""
        claims = {
            "iss": self._issuer,
            "sub": client,
            "client_id": client,
            "aud": "https://api.example",
            "jti": token_id,
            "iat": expires - _SECONDS,
            "exp": expires,
        }
        text = self._head + b"." + _base64url(json.dumps(claims, separators=(",", ":")).encode())
        r, s = decode_dss_signature(self._key.sign(text, self._algorithm))
        return (text + b"." + _base64url(r.to_bytes(32) + s.to_bytes(32))).decode()


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, signer: Signer, writer: Writer) -> None:
        """Sign with `signer`; keep with `writer`."""
        self._signer, self._writer = signer, writer
        self._secrets = {"service": hashlib.sha256(SECRET.encode()).digest()}
        self._document = _answer(200, signer.published())
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._body = b""

    def on_url(self, url: bytes) -> None:
        """Keep the path."""
        self._url = url

    def on_body(self, body: bytes) -> None:
        """Keep the form."""
        self._body += body

    def on_message_complete(self) -> None:
        """Answer."""
        if self._url == b"/jwks":
            self._send(self._document)
            return
        form = dict(parse_qsl(self._body.decode(), keep_blank_values=True, strict_parsing=True))
        client = form.get("client_id", "")
        offered = hashlib.sha256(form.get("client_secret", "").encode()).digest()
        if not hmac.compare_digest(offered, self._secrets.get(client, b"")):
            self._send(_answer(401, b"{}"))
            return
        token_id, expires = secrets.token_urlsafe(16), int(time.time()) + _SECONDS
        body = {
            "access_token": self._signer.token(client, token_id, expires),
            "token_type": "Bearer",
            "expires_in": _SECONDS,
        }
        answer = _answer(200, json.dumps(body, separators=(",", ":")).encode())
        if self._url == b"/unwritten":
            self._send(answer)
            return
        row = self._writer.add((token_id, client, expires))
        row.add_done_callback(lambda _: self._send(answer))

    def _send(self, answer: bytes) -> None:
        if self._transport is not None:
            self._transport.write(answer)


def _answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


def _base64url(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")


async def _serve(port: int, path: str) -> None:
    loop = asyncio.get_running_loop()
    signer, writer = Signer(f"http://127.0.0.1:{port}"), Writer(path, loop)
    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    server = await loop.create_server(lambda: Connection(signer, writer), sock=listening)
    await server.serve_forever()


def main() -> None:
    """Answer at the port that the command line names, keep rows in the file, until SIGTERM."""
    uvloop.run(_serve(int(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
