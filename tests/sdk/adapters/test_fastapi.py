"""FastAPI behind a gate."""

from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, WebSocket, WebSocketDisconnect
from fastapi.testclient import TestClient

from tests.sdk.adapters.stories import AUDIENCE, METADATA, Answer, every_story, gate, role_story
from valetkey.sdk import Caller, demand
from valetkey.sdk.adapters.fastapi import protect
from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.testing import trusted
from valetkey.sdk.upstream.discovery import Issuer


def _app(gate: Gate) -> FastAPI:
    app = FastAPI()
    require = protect(app, gate)

    @app.get("/notes")
    def notes(caller: Annotated[Caller, Depends(require("notes:read", "read"))]) -> dict[str, str]:
        return {"subject": caller.subject}

    @app.get("/any")
    async def any_token(caller: Annotated[Caller, Depends(require())]) -> dict[str, str]:
        return {"subject": caller.subject}

    editor = require("read", roles=("editor", "owner"))

    @app.get("/editors")
    async def editors(caller: Annotated[Caller, Depends(editor)]) -> dict[str, str]:
        return {"subject": caller.subject}

    @app.get("/late")
    async def late(caller: Annotated[Caller, Depends(require("read"))]) -> None:
        demand(caller, "admin")

    @app.websocket("/talk")
    async def talk(socket: WebSocket, caller: Annotated[Caller, Depends(require("read"))]) -> None:
        await socket.accept()
        await socket.send_text(caller.subject)
        await socket.close()

    return app


def test_websocket_opens_only_with_a_token() -> None:
    at = gate()
    with trusted(at) as mint, TestClient(_app(at)) as client:
        with client.websocket_connect("/talk", headers=mint.headers("read")) as socket:
            assert socket.receive_text() == "1001"
        with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/talk"):
            pass
        assert closed.value.code == 1008


def test_route_accepts_and_refuses_tokens_as_rfc_6750_says() -> None:
    at = gate()
    with trusted(at) as mint, TestClient(_app(at)) as client:

        def ask(path: str, headers: dict[str, str]) -> Answer:
            answer = client.get(path, headers=headers)
            return Answer(answer.status_code, dict(answer.headers), answer.content)

        every_story(ask, mint)
        role_story(ask, mint)
        late = client.get("/late", headers=mint.headers("read"))
        assert (late.status_code, late.json()["code"]) == (403, "insufficient_scope")


def test_openapi_names_the_token_endpoint_and_the_required_scopes() -> None:
    document = _app(gate()).openapi()
    scheme = document["components"]["securitySchemes"]["valetkey"]
    flow = scheme["flows"]["authorizationCode"]
    assert flow["tokenUrl"] == "https://as.example/oauth/token"
    assert set(flow["scopes"]) == {"notes:read", "read"}
    assert document["paths"]["/notes"]["get"]["security"] == [{"valetkey": ["notes:read"]}]
    assert METADATA not in document["paths"]


def test_openapi_declares_bearer_when_the_endpoints_are_unknown() -> None:
    issuer = Issuer("https://as.example", "https://as.example/keys")
    document = _app(Gate(issuer, audience=AUDIENCE)).openapi()
    scheme = document["components"]["securitySchemes"]["valetkey"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
