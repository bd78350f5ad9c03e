"""HEAD and OPTIONS follow one rule at every route of both servers."""

import asyncio
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import pytest

from tests.resource.api import api
from tests.resource.requests.test_manners import serving_with
from tests.support import asgi
from tests.support.harness import Harness, run
from valetkey.testing.server import Servers
from valetkey.web.router import Route, RoutedApp

_STEPS = {
    "/oauth/authorize",
    "/oauth/consent",
    "/oauth/logout",
    "/oauth/sign-in",
    "/oauth/second-factor",
    "/oauth/sign-in/with/{provider}",
    "/oauth/sign-in/with/{provider}/callback",
    "/oauth/sign-out",
}
_OPEN = {
    "/.well-known/jwks.json",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/.well-known/ssf-configuration",
    "/oauth/device-authorization",
    "/oauth/jwks",
    "/oauth/register",
    "/oauth/register/{client_id}",
    "/oauth/revoke",
    "/oauth/token",
    "/oauth/userinfo",
    "/token",
}
_SENT = (
    "authorization",
    "baggage",
    "content-type",
    "dpop",
    "traceparent",
    "tracestate",
    "x-requested-with",
)
_DIFFERS = {"content-security-policy", "date", "set-cookie"}


def _target(route: Route) -> str:
    return route.path.replace("{uid}", "1001").replace("{+", "{").replace("{", "").replace("}", "")


async def _same(app: RoutedApp, route: Route, host: str) -> None:
    """Fail unless HEAD is answered as GET is, without the body."""
    answers = []
    for method in ("GET", "HEAD"):
        status, pairs, body = await asgi.request(app, method, _target(route), {"host": host})
        kept = {name: text for name, text in pairs if name not in _DIFFERS}
        answers.append((status, sorted(kept), body))
    got, head = answers
    assert head == (*got[:2], b""), route.path
    assert got[0] != 405


async def _answers_preflight(app: RoutedApp, route: Route, host: str) -> None:
    request_headers = {
        "host": host,
        "origin": "https://app.example",
        "access-control-request-method": next(iter(route.methods)),
        "access-control-request-headers": ",".join(_SENT),
    }
    status, pairs, body = await asgi.request(app, "OPTIONS", _target(route), request_headers)
    answer_headers = dict(pairs)
    assert (status, body) == (204, b""), route.path
    assert answer_headers["access-control-allow-origin"] in {"*", "https://app.example"}
    assert "access-control-allow-credentials" not in answer_headers
    allowed = answer_headers["access-control-allow-headers"].split(", ")
    assert {*_SENT, "*"} <= set(allowed)
    assert set(answer_headers["allow"].split(", ")) == set(route.methods) - {"OPTIONS"}


async def _judge(app: RoutedApp, host: str, opened: set[str]) -> set[str]:
    """Try each route; return those with GET that refuse HEAD."""
    steps = set[str]()
    for route in app.routes:
        if "GET" in route.methods and "HEAD" not in route.methods:
            steps.add(route.path)
        elif "GET" in route.methods:
            await _same(app, route, host)
        if route.path in opened:
            await _answers_preflight(app, route, host)
        elif "OPTIONS" not in route.methods:
            status, pairs, _ = await asgi.request(app, "OPTIONS", _target(route), {"host": host})
            assert (status, dict(pairs)["allow"]) == (405, route.allow)
    return steps


def test_authorization_server_answers_head_and_preflights(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        opened = {route.path for route in it.app.routes if route.cors is not None}
        assert opened == _OPEN
        assert await _judge(it.app, "localhost:8400", opened) == _STEPS

    run(tmp_path, story)


@pytest.mark.parametrize("origins", [(), ("https://app.example",)])
def test_resource_server_answers_head_and_preflights(
    tmp_path: Path, origins: tuple[str, ...]
) -> None:
    async def story() -> None:
        async with serving_with(tmp_path, cors_origins=origins) as call:
            app = call.app
            opened = {route.path for route in app.routes if route.cors is not None}
            metadata = {"/.well-known/oauth-protected-resource"}
            objects = {p.path for p in app.routes if p.path.startswith("/v2/") and len(p.path) > 4}
            assert opened == (metadata | objects - {"/v2/openapi.json"} if origins else metadata)
            assert not await _judge(app, str(call.settings.resource.url).split("//")[1], opened)

    asyncio.run(story())


def test_head_needs_the_same_rights_as_get(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await call("HEAD", "/v2/notes")).status == 200
            assert (await call("HEAD", "/v2/notes", token="")).status == 401

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/admin/api/v1/users", "application/problem+json"),
        ("/admin/api/v1/none", "application/problem+json"),
        ("/oauth/token", "application/json"),
    ],
)
def test_long_target_is_refused_in_the_form_of_its_route(
    tmp_path: Path, path: str, kind: str
) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        status, pairs, body = _raw(servers.auth_url, f"{path}?q={'x' * 20_000}")
        assert (status, pairs["content-type"]) == (414, kind)
        problem = msgspec.json.decode(body)
        assert problem.get("status", 414) == 414
        assert problem.get("code", problem.get("error")) == "uri_too_long"


def _raw(base: str, target: str) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(base.removeprefix("http://"), timeout=20)
    connection.request("GET", target)
    answer = connection.getresponse()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
