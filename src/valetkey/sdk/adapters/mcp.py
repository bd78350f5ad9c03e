"""MCP servers, written with the official Python SDK or with FastMCP (Model Context Protocol)."""

from collections.abc import Collection

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from valetkey.sdk.adapters.asgi import App, Protected, Receive, Scope, Send, caller_of
from valetkey.sdk.adapters.gate import Gate


def protect(
    app: App, gate: Gate, needs: Collection[str] = (), roles: Collection[str] = ()
) -> Protected:
    """Require one of the scopes in `needs`, and of the `roles`, for requests to an MCP server.

    `app` is its streamable HTTP application; the path of `gate.audience` is the one it is served
    at. Metadata and challenges are those that MCP clients discover the issuer by. Tools get the
    caller from the framework's `get_access_token`, and a session is bound to the caller that began
    it.
    """
    return Protected(_Authenticated(app, gate), gate, needs, roles=roles)


class _Authenticated:
    """Pass the caller to the framework as its own type of user."""

    def __init__(self, app: App, gate: Gate) -> None:
        self._app = AuthContextMiddleware(app)
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller = caller_of(scope)
            token = AccessToken(
                # The token itself is left out: tools must not pass it on to other servers.
                token="",
                client_id=caller.client_id,
                scopes=list(caller.scope),
                expires_at=caller.expires_at,
                resource=self._gate.audience,
                subject=caller.subject,
                claims={**caller.claims, "iss": self._gate.issuer.url},
            )
            scope["user"] = AuthenticatedUser(token)
        await self._app(scope, receive, send)
