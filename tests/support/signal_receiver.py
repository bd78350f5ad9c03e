"""A receiver of Shared Signals over HTTP: it verifies each token with PyJWT, and may misbehave."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt

SECRET = "Bearer of-the-receiver"


@dataclass
class SignalReceiver:
    """What was pushed, by path, and how the next requests are answered.

    `keys` is the key set of the transmitter. `status`, `body` and `headers` are the response to a
    valid token; without a `status` the connection is closed without one.
    """

    issuer: str
    keys: dict[str, Any]
    port: int = 0
    status: str = "202 Accepted"
    body: bytes = b""
    headers: str = ""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0
    faults: list[str] = field(default_factory=list[str])
    tokens: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])

    def url(self, path: str = "/events", host: int = 1) -> str:
        """Return an address; each of the `hosts` is another one for the transmitter."""
        return f"http://127.0.0.{host}:{self.port}{path}"

    def of(self, path: str = "/events") -> list[dict[str, Any]]:
        """Return the claims of the tokens accepted at a path, in their order."""
        return self.tokens.get(path, [])

    def types(self, path: str = "/events") -> list[str]:
        """Return the last parts of the event types accepted at a path."""
        return [next(iter(claims["events"])).rpartition("/")[2] for claims in self.of(path)]

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that is valid for a receiver of SSF 1.0."""
        header = jwt.get_unverified_header(token)
        assert header["typ"] == "secevent+jwt", header
        key = jwt.PyJWKSet.from_dict(self.keys)[header["kid"]]
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[header["alg"]],
            issuer=self.issuer,
            options={"verify_aud": False, "verify_iat": False, "require": ["iss", "iat", "jti"]},
        )
        assert "sub" not in claims
        assert "exp" not in claims
        assert claims["aud"]
        assert len(claims["events"]) == 1
        return claims

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *fields = head.split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests += 1
            await self.opened.wait()
            path = line.split(" ")[1]
            answer = self._receive(path, headers, body)
            if self.status:
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    def _receive(self, path: str, headers: dict[str, str], body: bytes) -> bytes:
        expected_headers = {
            "content-type": "application/secevent+jwt",
            "accept": "application/json",
            "authorization": SECRET,
        }
        self.faults += [
            f"{n}: {headers.get(n)}"
            for n in expected_headers
            if headers.get(n) != expected_headers[n]
        ]
        try:
            claims = self.verify(body.decode())
        except (AssertionError, jwt.PyJWTError, KeyError) as error:
            self.faults.append(repr(error))
            return _response("400 Bad Request", json.dumps({"err": "invalid_request"}).encode())
        if self.status.startswith("202"):
            self.tokens.setdefault(path, []).append(claims)
        return _response(self.status, self.body, self.headers)


def _response(status: str, body: bytes, headers: str = "") -> bytes:
    size = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"HTTP/1.1 {status}\r\n{size}{headers}\r\n".encode() + body


@asynccontextmanager
async def receiving(
    issuer: str, keys: dict[str, Any], hosts: int = 1
) -> AsyncGenerator[SignalReceiver]:
    """A receiver on a free port of loopback that answers at once, at so many addresses."""
    receiver = SignalReceiver(issuer, keys)
    receiver.opened.set()
    async with AsyncExitStack() as stack:
        for host in range(1, hosts + 1):
            server = await asyncio.start_server(receiver.serve, f"127.0.0.{host}", receiver.port)
            receiver.port = server.sockets[0].getsockname()[1]
            await stack.enter_async_context(server)
        yield receiver
