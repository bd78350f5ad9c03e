"""A stand-in for the authorization server: real tokens, real HTTP, on a loopback port."""

import asyncio
import contextlib
import ssl
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec

from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret

API = "http://127.0.0.1:8401"
SECRET = "vk_cs_between-the-two-servers"

_ROUNDS = 8


@dataclass
class Clock:
    """A clock that tests turn."""

    at: int = 1_800_000_000

    def now(self) -> Instant:
        return Instant(self.at)


@dataclass
class Issuer:
    """Signs tokens and answers what a resource server asks."""

    clock: Clock
    key: SigningKey = field(default_factory=SigningKey.generate)
    keys: KeySet = field(default_factory=KeySet)
    port: int = 0
    asked: Counter[str] = field(default_factory=Counter[str])
    references: dict[str, AccessToken] = field(default_factory=dict[str, AccessToken])
    revocations: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    clients: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    grants: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    broken: bool = False
    """Answers 500 to everything."""
    identity: tuple[int, bytes] | None = None
    """What is answered to every question about records, instead of the truth."""
    uses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Reports of what apps used."""
    tls: ssl.SSLContext | None = None
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def __post_init__(self) -> None:
        self.keys = KeySet.of(self.key.public)

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        # A connection that was accepted a moment ago is served some rounds of the event loop later,
        # and its client closes it some rounds after that.
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
            for serving in tuple(self._serving):
                serving.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
        self._server = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator["Issuer"]:
        await self.start()
        try:
            yield self
        finally:
            if self._server is not None:
                await self.stop()

    def draft(
        self, scope: str, *, uid: int | None = 1001, client: str = "printer", lifetime: int = 3600
    ) -> AccessToken:
        now = self.clock.now()
        return AccessToken(
            issuer=self.url,
            subject=client if uid is None else str(uid),
            client_id=client,
            audience=API,
            scope=Scope.parse(scope),
            token_id=fresh_id("at", SYSTEM.random),
            issued_at=now,
            expires_at=Instant(now + lifetime),
            grant_id=None if uid is None else fresh_id("gr", SYSTEM.random),
            auth_time=None,
        )

    def token(
        self, scope: str, *, uid: int | None = 1001, client: str = "printer", lifetime: int = 3600
    ) -> str:
        """An access token by value; a client's own with `uid` None."""
        return self.draft(scope, uid=uid, client=client, lifetime=lifetime).sign(self.key)

    def reference(self, scope: str, *, uid: int | None = 1001, client: str = "printer") -> str:
        """An access token by reference."""
        text = fresh_secret(Prefix.ACCESS_TOKEN, SYSTEM.random).reveal()
        self.references[text] = self.draft(scope, uid=uid, client=client)
        return text

    def revoke(self, kind: str, id: str, expires_in: int = 3600) -> None:
        now = self.clock.at
        self.revocations.append(
            {"kind": kind, "id": id, "revoked_at": now, "expires_at": now + expires_in}
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = cast("asyncio.Task[None]", asyncio.current_task())
        self._serving.add(serving)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.split("\r\n")
                method, target, _ = lines[0].split(" ")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, answer = self._answer(method, target, headers, body)
                content = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
                start = f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\n\r\n"
                writer.write(start.encode() + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self._serving.discard(serving)

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, object]:
        path, _, query = target.partition("?")
        self.asked[path] += 1
        if self.broken:
            return 500, {"error": "server_error"}
        if path == "/oauth/jwks":
            return 200, self.keys.document()
        scheme, _, pair = headers.get("authorization", "").partition(" ")
        if scheme != "Basic" or b64decode(pair).decode() != f"resource-server:{SECRET}":
            return 401, {"error": "invalid_client"}
        if path == "/oauth/introspect":
            return 200, self._introspect(parse_qs(body.decode())["token"][0])
        if path == "/oauth/revocations":
            after = int(parse_qs(query).get("after", ["0"])[0])
            new = self.revocations[after:]
            return 200, {"cursor": str(len(self.revocations)), "revocations": new}
        if path == "/oauth/identity" and method == "POST":
            if self.identity is not None:
                return self.identity
            return self._identity(msgspec.json.decode(body))
        if path == "/oauth/uses" and method == "POST":
            self.uses.append(msgspec.json.decode(body))
            return 204, b""
        return 404, {"error": "not_found"}

    def _introspect(self, text: str) -> dict[str, object]:
        token = self.references.get(text)
        if token is None or token.expires_at <= self.clock.now():
            return {"active": False}
        answer: dict[str, object] = {
            "active": True,
            "scope": str(token.scope),
            "client_id": token.client_id,
            "sub": token.subject,
            "aud": token.audience,
            "iss": token.issuer,
            "exp": token.expires_at,
            "iat": token.issued_at,
            "jti": token.token_id,
            "token_type": "bearer",
        }
        if token.bindings:
            answer["cnf"] = {binding.method: binding.thumbprint for binding in token.bindings}
        answer |= token.claims
        if token.grant_id is not None:
            answer["grant_id"] = token.grant_id
        return answer

    def _identity(self, request: dict[str, Any]) -> tuple[int, object]:
        subject = str(_claims(request["access_token"])["sub"])
        name, changes = request.get("id", ""), request.get("changes", {})
        if request["object"] == "authorizations":
            own = {key: value for key, value in self.grants.items() if value["uid"] == subject}
            shown = {key: {"id": key, **value} for key, value in own.items()}
            for grant in shown.values():
                del grant["uid"]
            if request["verb"] == "list":
                return 200, {"records": list(shown.values())}
            if name not in shown:
                return 404, {
                    "error": "not_found",
                    "error_description": "no such authorization",
                    "reference": "VK-AAAA-BBBB-CCCC",
                }
            if request["verb"] == "delete":
                del self.grants[name]
                return 200, {"record": None}
            return 200, {"record": shown[name]}
        home = self.accounts if request["object"] == "account" else self.clients
        record = home[subject]
        if changes.get("redirect_uri", "https://").startswith("javascript:"):
            return 400, {
                "error": "invalid_request",
                "error_description": "this redirect URI cannot be used",
                "reference": "VK-DDDD-EEEE-FFFF",
                "errors": [{"pointer": "/redirect_uri", "detail": "use https"}],
            }
        record.update(changes)
        return 200, {"record": record}


def _claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = msgspec.json.decode(
        b64decode(payload + "=" * (-len(payload) % 4), altchars=b"-_")
    )
    return claims
