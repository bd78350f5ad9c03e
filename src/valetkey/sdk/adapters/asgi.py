"""Any ASGI application behind a gate (ASGI 3: Starlette, Litestar, Quart and all others)."""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any

from valetkey.kernel.refusal import Refused
from valetkey.sdk.adapters.gate import METADATA_HEADERS, Denial, Gate, Running
from valetkey.sdk.caller import Caller

# As in Starlette, so that `add_middleware` is typed.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KEY = "valetkey.caller"
"""The key of the caller in the scope of an admitted request."""

_DENIAL = "websocket.http.response"


class Protected:
    """Require one of the scopes in `needs` for every request to an application.

    With `roles`, callers need one of these roles at the API as well. It serves the API's metadata
    itself, and `open_paths`, exact paths, need no token. `Refused` that the application raises
    before its response began is answered with that error.
    """

    def __init__(
        self,
        app: App,
        gate: Gate,
        needs: Collection[str] = (),
        open_paths: Collection[str] = (),
        roles: Collection[str] = (),
    ) -> None:
        """Wrap `app`."""
        gate.needs(needs)
        self._app = app
        self._gate = gate
        self._needs = tuple(needs)
        self._roles = tuple(roles)
        self._open = frozenset(open_paths)
        self._running = Running(gate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit one connection or answer with the error."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, self._closing(send))
            return
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if path == self._gate.metadata_path and scope["type"] == "http":
            await _serve(self._gate, scope, send)
            return
        if path in self._open:
            await self._app(scope, receive, send)
            return
        await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            fields = authorization(scope)
            scope[KEY] = await self._running.admit(fields, *self._needs, roles=self._roles)
            await self._app(scope, receive, watched)
        except Refused as refused:
            if begun:
                raise
            await deny(self._gate.deny(refused.refusal, self._needs), scope, send)

    def _closing(self, send: Send) -> Send:
        async def closing(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await self._running.start()
            if message["type"].startswith("lifespan.shutdown."):
                await self._running.close()
            await send(message)

        return closing


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Return the caller of a request's scope. Raises KeyError without a gate before it."""
    caller: Caller = scope[KEY]
    return caller


def authorization(scope: Mapping[str, Any]) -> list[str]:
    """Return all Authorization fields of a request, as sent."""
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]


async def deny(denial: Denial, scope: Scope, send: Send) -> None:
    """Answer a request, or a WebSocket handshake, with this denial."""
    kind = "http"
    if scope["type"] == "websocket":
        if _DENIAL not in scope.get("extensions", {}):
            # Every server turns closing before acceptance into a 403.
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        kind = _DENIAL.removesuffix(".response")
    headers = [(name.encode(), value.encode()) for name, value in denial.headers]
    headers.append((b"content-length", str(len(denial.body)).encode()))
    await send({"type": f"{kind}.response.start", "status": denial.status, "headers": headers})
    body = b"" if scope.get("method") == "HEAD" else denial.body
    await send({"type": f"{kind}.response.body", "body": body})


async def _serve(gate: Gate, scope: Scope, send: Send) -> None:
    if scope["method"] == "OPTIONS":
        # Browsers send a preflight request, because of headers that MCP clients and tracing set.
        allowed = ("access-control-allow-headers", "mcp-protocol-version, *")
        await deny(Denial(204, (allowed, *METADATA_HEADERS.items()), b""), scope, send)
        return
    if scope["method"] not in {"GET", "HEAD"}:
        await deny(Denial(405, (("allow", "GET, HEAD, OPTIONS"),), b""), scope, send)
        return
    content = (("content-type", "application/json"), *METADATA_HEADERS.items())
    await deny(Denial(200, content, gate.metadata()), scope, send)
