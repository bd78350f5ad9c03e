"""Any WSGI application behind a gate, as the standard library serves it."""

from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from tests.sdk.adapters.stories import Answer, every_story, gate, role_story
from valetkey.sdk import demand
from valetkey.sdk.adapters.wsgi import Protected, caller_of
from valetkey.sdk.testing import trusted


def _app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/health":
        body = b"well"
    else:
        if environ["PATH_INFO"] == "/late":
            demand(caller_of(environ), "admin")
        body = b'{"subject":"' + caller_of(environ).subject.encode() + b'"}'
    headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]


def _ask(app: WSGIApplication, path: str, headers: dict[str, str], method: str = "GET") -> Answer:
    environ: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": "", "SCRIPT_NAME": ""}
    environ["REQUEST_METHOD"] = method
    setup_testing_defaults(environ)
    if "Authorization" in headers:
        environ["HTTP_AUTHORIZATION"] = headers["Authorization"]
    started: list[Any] = []

    def start_response(status: str, headers: Any, error: Any = None) -> Any:
        started.extend((status, headers))

    answer = validator(app)(environ, start_response)
    body = b"".join(answer)
    answer.close()  # type: ignore[attr-defined]
    return Answer(int(started[0].split(" ")[0]), dict(started[1]), body)


def test_app_accepts_and_refuses_tokens_as_rfc_6750_says() -> None:
    at = gate()
    app = Protected(_app, at, ("notes:read", "read"), ["/health"])
    with trusted(at) as mint:

        def ask(path: str, headers: dict[str, str]) -> Answer:
            return _ask(app, path, headers)

        every_story(ask, mint, wide=False)
        assert ask("/health", {}).body == b"well"
        assert ask("/nowhere", {}).status == 401
        assert ask("/late", mint.headers("read")).status == 403
        head = _ask(app, "/notes", {}, "HEAD")
        assert (head.status, head.body) == (401, b"")


def test_a_role_is_required_of_every_request() -> None:
    at = gate()
    app = Protected(_app, at, ["read"], roles=["editor", "owner"])
    with trusted(at) as mint:
        role_story(lambda path, headers: _ask(app, path, headers), mint)


def test_refusal_after_the_response_began_aborts_it() -> None:
    at = gate()
    starts: list[object] = []

    def late(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        demand(caller_of(environ), "admin")
        return []

    def start_response(status: str, headers: Any, error: Any = None, /) -> Any:
        starts.append((status, error is not None))

    with trusted(at) as mint:
        environ: dict[str, Any] = {}
        setup_testing_defaults(environ)
        environ["HTTP_AUTHORIZATION"] = mint.headers("read")["Authorization"]
        list(Protected(late, at)(environ, start_response))
    assert starts == [("200 OK", False), ("403 Forbidden", True)]
