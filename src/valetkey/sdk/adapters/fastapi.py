"""FastAPI: a dependency that gives the typed caller and fills the OpenAPI document."""

from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, cast

from fastapi import FastAPI, Request, Response, Security, WebSocketException
from fastapi.openapi.models import HTTPBearer, OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from fastapi.requests import HTTPConnection
from fastapi.security.base import SecurityBase

from valetkey.kernel.refusal import Refusal, Refused
from valetkey.sdk.adapters.gate import METADATA_HEADERS, Gate, Running
from valetkey.sdk.caller import Caller

_POLICY = 1008  # RFC 6455 section 7.4.1; before acceptance, servers turn it into a 403

Dependency = Callable[..., Coroutine[object, object, Caller]]


class _Denied(Exception):
    """Carries a refusal and the sufficient scopes to the exception handler."""

    def __init__(self, refusal: Refusal, needs: tuple[str, ...]) -> None:
        super().__init__(refusal.description)
        self.refusal = refusal
        self.needs = needs


class _Scheme(SecurityBase):
    """The OpenAPI security scheme: bearer tokens, and where to get them."""

    def __init__(self, gate: Gate) -> None:
        self.scopes: dict[str, str] = {}
        self.scheme_name = "valetkey"
        issuer = gate.issuer
        if not issuer.authorization or not issuer.token:
            self.model = HTTPBearer(bearerFormat="JWT")
            return
        self._flow = OAuthFlowAuthorizationCode(
            authorizationUrl=issuer.authorization, tokenUrl=issuer.token, scopes={}
        )
        self.model = OAuth2(flows=OAuthFlows(authorizationCode=self._flow))

    def needs(self, names: tuple[str, ...]) -> None:
        if isinstance(self.model, OAuth2):
            self._flow.scopes = self._flow.scopes | dict.fromkeys(names, "")

    async def __call__(self) -> None:
        """Do nothing: the dependency beside it calls the gate."""


class Require:
    """Create dependencies: `Depends(require("notes:read"))` gives the `Caller`."""

    def __init__(self, gate: Gate, running: Running) -> None:
        """Use `gate`, which runs as `running`."""
        self._gate = gate
        self._running = running
        self._scheme = _Scheme(gate)

    def __call__(self, *needs: str, roles: Collection[str] = ()) -> Dependency:
        """Return a dependency that admits callers with any of the scopes in `needs`.

        The challenge for others names the first scope; without scopes, a live token suffices. With
        `roles`, the caller needs one of these roles at the API as well.
        """
        self._gate.needs(needs)
        self._scheme.needs(needs)
        scheme = Security(self._scheme, scopes=needs[:1])

        # HTTPConnection: WebSockets use this dependency too.
        async def caller(connection: HTTPConnection, _: Annotated[None, scheme]) -> Caller:
            fields = connection.headers.getlist("authorization")
            try:
                return await self._running.admit(fields, *needs, roles=roles)
            except Refused as refused:
                if connection.scope["type"] == "websocket":
                    raise WebSocketException(_POLICY) from None
                raise _Denied(refused.refusal, needs) from None

        return caller


def protect(app: FastAPI, gate: Gate) -> Require:
    """Install RFC 6750 error responses, metadata, and following the issuer in `app`.

    Returns the factory of dependencies. `Refused` that an endpoint raises, by `demand` for example,
    is answered likewise.
    """
    running = Running(gate)

    async def denied(_: Request, error: Exception) -> Response:
        if isinstance(error, _Denied):
            return _response(gate, error.refusal, error.needs)
        if isinstance(error, Refused):
            return _response(gate, error.refusal, ())
        raise error

    app.add_exception_handler(_Denied, denied)
    app.add_exception_handler(Refused, denied)
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[Mapping[str, object]]:
        async with inner(app) as state:
            await running.start()
            try:
                yield cast("Mapping[str, object]", state)
            finally:
                await running.close()

    app.router.lifespan_context = lifespan
    if gate.metadata_path:

        async def metadata() -> Response:
            return Response(
                gate.metadata(), media_type="application/json", headers=METADATA_HEADERS
            )

        app.add_api_route(gate.metadata_path, metadata, include_in_schema=False)
    return Require(gate, running)


def _response(gate: Gate, refusal: Refusal, needs: tuple[str, ...]) -> Response:
    denial = gate.deny(refusal, needs)
    return Response(denial.body, denial.status, dict(denial.headers))
