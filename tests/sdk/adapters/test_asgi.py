"""Any ASGI application behind a gate; Starlette stands for all."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket

from tests.sdk.adapters.stories import AUDIENCE, METADATA, Answer, every_story, gate, role_story
from valetkey.kernel.refusal import Refused
from valetkey.sdk import demand
from valetkey.sdk.adapters.asgi import Protected, caller_of
from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.testing import trusted

NEEDS = ("notes:read", "read")


async def _notes(request: Request) -> JSONResponse:
    return JSONResponse({"subject": caller_of(request.scope).subject})


async def _late(request: Request) -> JSONResponse:
    demand(caller_of(request.scope), "admin")
    return JSONResponse({})


async def _health(_: Request) -> PlainTextResponse:
    return PlainTextResponse("well")


async def _talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text(caller_of(socket.scope).subject)
    await socket.close()


def _app(at: Gate) -> Starlette:
    routes = [
        Route("/notes", _notes),
        Route("/late", _late),
        Route("/health", _health),
        WebSocketRoute("/talk", _talk),
    ]
    guarded = Middleware(Protected, gate=at, needs=NEEDS, open_paths=["/health"])
    return Starlette(routes=routes, middleware=[guarded])


def test_app_accepts_and_refuses_tokens_as_rfc_6750_says() -> None:
    at = gate()
    with trusted(at) as mint, TestClient(_app(at)) as client:

        def ask(path: str, headers: dict[str, str]) -> Answer:
            answer = client.get(path, headers=headers)
            return Answer(answer.status_code, dict(answer.headers), answer.content)

        every_story(ask, mint, wide=False)
        late = client.get("/late", headers=mint.headers("read"))
        assert (late.status_code, late.json()["code"]) == (403, "insufficient_scope")
        assert client.get("/health").text == "well"
        assert client.get("/nowhere").status_code == 401
        assert client.post(METADATA).status_code == 405
        two = client.get("/notes", headers=[("authorization", "Bearer a")] * 2)
        assert (two.status_code, two.json()["code"]) == (400, "invalid_request")


def test_a_role_is_required_of_every_request() -> None:
    at = gate()
    app = Starlette(routes=[Route("/editors", _notes)])
    guarded = Protected(app, at, ["read"], roles=["editor", "owner"])
    with trusted(at) as mint, TestClient(guarded) as client:

        def ask(path: str, headers: dict[str, str]) -> Answer:
            answer = client.get(path, headers=headers)
            return Answer(answer.status_code, dict(answer.headers), answer.content)

        role_story(ask, mint)


def test_websocket_without_a_token_is_refused_before_it_opens() -> None:
    at = gate()
    with trusted(at) as mint, TestClient(_app(at)) as client:
        with client.websocket_connect("/talk", headers=mint.headers("read")) as socket:
            assert socket.receive_text() == "1001"
        with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/talk"):
            pass
        assert denied.value.status_code == 401
        assert AUDIENCE in denied.value.headers["www-authenticate"]


def test_websocket_is_closed_where_denial_responses_are_unsupported() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/talk", "headers": []}
    at = gate()
    with trusted(at):
        asyncio.run(Protected(_app(at), at)(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_refusal_after_the_answer_began_is_not_answered_twice() -> None:
    at = gate()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        demand(caller_of(scope), "admin")

    async def story() -> None:
        with trusted(at) as mint:
            value = mint.headers("read")["Authorization"].encode()
            scope = {"type": "http", "path": "/", "headers": [(b"authorization", value)]}
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            async def receive() -> dict[str, Any]:
                return {}

            with pytest.raises(Refused):
                await Protected(late, at)(scope, receive, send)
            assert len(sent) == 1

    asyncio.run(story())
