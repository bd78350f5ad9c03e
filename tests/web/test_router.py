"""The App: paths, methods, bodies, hosts, refusals, failures, and what they all carry."""

import asyncio
import io
import json
from ipaddress import ip_network
from itertools import pairwise

import pytest

from tests.web import FORM, NOW, ROUTES, SECURITY, ask, broken, echo, refuse, small_app
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web import log
from valetkey.web.connection.incoming_request import Message
from valetkey.web.exchange import Endpoint, Request, Response
from valetkey.web.router import Body, Route, RoutedApp
from valetkey.web.security_headers import any_origin

APP = small_app()
JSON = ("content-type", "application/json")


def seen(
    app: RoutedApp, method: str, target: str, body: bytes = b"", **more: object
) -> dict[str, object]:
    """What the endpoint saw."""
    answer = ask(app, method, target, body, **more)  # type: ignore[arg-type]
    assert answer.status == 200, answer
    request = json.loads(answer.body)
    assert isinstance(request, dict)
    return request


def error(body: bytes) -> str:
    return str(json.loads(body)["error"])


def test_an_endpoint_sees_the_request() -> None:
    assert seen(APP, "POST", "/echo?a=b%20c", b"hello", scheme="https") == {
        "method": "POST",
        "path": "/echo",
        "query": "a=b%20c",
        "hidden": "",
        "body": "hello",
        "address": "192.0.2.7",
        "secure": True,
        "at": NOW,
        "arguments": {},
    }


def test_304_has_the_fields_of_its_200() -> None:
    policy = ("content-security-policy", "script-src 'self'")
    fields = (("etag", 'W/"a"'), ("cache-control", "no-cache"), ("x-frame-options", ""), policy)

    async def page(request: Request) -> Response:
        return Response(201 if request.method == "PUT" else 200, b"text", (*fields, JSON))

    methods: dict[str, Endpoint] = dict.fromkeys(("GET", "HEAD", "POST", "PUT"), page)
    app = small_app(routes=[Route("/page", methods, refuse)])
    whole = ask(app, "GET", "/page")
    for method, tags in (("GET", '"a"'), ("HEAD", 'W/"a"'), ("GET", '"b", "a"'), ("GET", "*")):
        answer = ask(app, method, "/page", headers=[("if-none-match", tags)])
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers == {
            name: value
            for name, value in whole.headers.items()
            if name not in ("content-length", "content-type")
        }
    for method, tags, status in (
        ("GET", '"b"', 200),
        ("POST", '"a"', 200),
        ("PUT", '"a"', 201),
        ("GET", "a", 400),
    ):
        headers = [("if-none-match", tags)]
        assert ask(app, method, "/page", headers=headers).status == status


def test_segments_are_given_as_sent() -> None:
    assert seen(APP, "GET", "/v2/notes")["arguments"] == {"object": "notes"}
    request = seen(APP, "GET", "/v2/notes/%2e%2E;x=1")
    assert request["arguments"] == {"object": "notes", "id": "%2e%2E;x=1"}


@pytest.mark.parametrize(
    "path",
    [
        *("/token/", "//token", "/%74oken", "/../token", "/./token", "/TOKEN", "/token;x"),
        *("/token%00", "/v2/", "/v2//1", "/v2/notes/", "/v2/notes/1/2", "/", "", "*"),
    ],
)
def test_only_the_exact_path_is_found(path: str) -> None:
    answer = ask(APP, "POST", path)
    assert answer.status == 404
    assert error(answer.body) == "not_found"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "post"])
def test_other_method_gets_405_with_the_allowed_methods(method: str) -> None:
    answer = ask(APP, method, "/token")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


def test_allow_header_lists_all_methods() -> None:
    assert ask(APP, "PUT", "/v2/notes/1").headers["allow"] == "DELETE, GET, HEAD"


def test_head_is_get_without_a_body() -> None:
    answer = ask(APP, "HEAD", "/echo")
    assert answer.status == 200
    assert answer.body == b""
    get = ask(APP, "GET", "/echo").body.replace(b"GET", b"HEAD")
    assert int(answer.headers["content-length"]) == len(get)
    assert ask(APP, "HEAD", "/none").status == 200
    step = small_app((Route("/step", {"GET": echo}, refuse, step=True),))
    refused = ask(step, "HEAD", "/step")
    assert (refused.status, refused.headers["allow"]) == (405, "GET")


def test_preflight_is_answered_where_other_origins_may_call() -> None:
    app = small_app((Route("/open", {"POST": echo, "GET": echo}, refuse, cors=any_origin),))
    answer = ask(app, "OPTIONS", "/open")
    assert answer.status == 204
    assert answer.headers["allow"] == answer.headers["access-control-allow-methods"]
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert ask(APP, "OPTIONS", "/none").status == 405


def test_a_hidden_query_is_shown_to_the_endpoint_alone() -> None:
    request = seen(APP, "POST", "/token?client_secret=x")
    assert (request["query"], request["hidden"]) == ("", "client_secret=x")


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/token?canary"), ("POST", "/token/?canary"), ("POST", "/nowhere?canary")],
)
def test_a_refusal_does_not_see_the_query_of_a_path_that_hides_it(method: str, target: str) -> None:
    shown: list[Request] = []

    def look(request: Request, refusal: Refusal) -> Response:
        shown.append(request)
        return refuse(request, refusal)

    routes = (Route("/token", {"POST": echo}, look, Body.FORM, hides_query=True),)
    runtime = APP._runtime
    app = RoutedApp(routes, runtime=runtime, refuse=look, hosts=("h.example",))
    ask(app, method, target)
    assert shown[0].query == ""


@pytest.mark.parametrize(
    "type_",
    [
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded; charset=utf-8",
        'Application/X-WWW-Form-Urlencoded;charset="UTF-8"',
    ],
)
def test_a_form_is_known_by_its_type(type_: str) -> None:
    assert seen(APP, "POST", "/form", b"a=1", headers=[("content-type", type_)])["body"] == "a=1"


@pytest.mark.parametrize(
    "type_",
    [
        "application/json",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/x-www-form-urlencoded; charset=utf-16",
        "application/x-www-form-urlencoded, application/json",
        "application/x-www-form-urlencodedx",
        "",
    ],
)
def test_other_content_type_is_refused_for_a_form(type_: str) -> None:
    answer = ask(APP, "POST", "/form", b"a=1", [("content-type", type_)])
    assert (answer.status, error(answer.body)) == (400, "invalid_request")


def test_a_form_without_type_is_refused_and_no_body_needs_none() -> None:
    assert ask(APP, "POST", "/form", b"a=1").status == 400
    assert ask(APP, "POST", "/form").status == 200


def test_json_needs_its_type() -> None:
    assert ask(APP, "POST", "/json", b"{}", [JSON]).status == 200
    patch = ("content-type", "application/merge-patch+json; charset=utf-8")
    assert ask(APP, "PATCH", "/json", b"{}", [patch]).status == 200
    answer = ask(APP, "POST", "/json", b"{}", [FORM])
    assert (answer.status, error(answer.body)) == (415, "unsupported_media_type")


@pytest.mark.parametrize("path", ["/form", "/json", "/none", "/echo"])
def test_compressed_body_is_refused(path: str) -> None:
    answer = ask(APP, "POST", path, b"x", [FORM, ("content-encoding", "gzip")])
    assert answer.status == 415
    types = FORM if path == "/form" else JSON
    assert ask(APP, "POST", path, b"x", [types, ("content-encoding", "Identity")]).status == 200


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/form", 65_536), ("/none", 65_536), ("/json", 1_048_576), ("/echo", 1_048_576)],
)
@pytest.mark.parametrize("pieces", [1, 5])
def test_a_body_may_reach_its_limit_and_not_pass_it(path: str, limit: int, pieces: int) -> None:
    types = FORM if path == "/form" else JSON
    assert ask(APP, "POST", path, b"x" * limit, [types], pieces=pieces).status == 200
    answer = ask(APP, "POST", path, b"x" * (limit + 1), [types], pieces=pieces)
    assert (answer.status, error(answer.body)) == (413, "content_too_large")


def test_a_body_of_unknown_length_is_stopped_at_the_limit() -> None:
    read = 0

    async def receive() -> Message:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 10_000, "more_body": True}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Message = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "raw_path": b"/form",
        "query_string": b"",
        "headers": [(b"host", b"h.example"), (b"transfer-encoding", b"chunked")],
        "client": None,
    }
    asyncio.run(APP(scope, receive, send))
    assert sent[0]["status"] == 413
    assert read == 7


@pytest.mark.parametrize("length", ["-1", "+5", "0x10", "²", "1e3", "", "9" * 10_000])
def test_invalid_content_length_is_refused(length: str) -> None:
    answer = ask(APP, "POST", "/echo", headers=[("content-length", length)])
    assert answer.status in {400, 413}


def test_unwanted_body_is_discarded() -> None:
    assert seen(APP, "GET", "/none", b"hello")["body"] == ""


def test_a_client_that_goes_away_is_not_answered() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Message = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "raw_path": b"/echo",
        "query_string": b"",
        "headers": [(b"host", b"h.example")],
        "client": None,
    }
    asyncio.run(APP(scope, receive, send))
    assert not sent


@pytest.mark.parametrize("host", ["h.example", "H.Example"])
def test_our_host_is_answered(host: str) -> None:
    assert ask(APP, "GET", "/none", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.test", "", None, "h.example:81", "h.example.evil", "xh.example", "h.example/a?b=c"],
)
def test_another_host_is_misdirected(host: str | None) -> None:
    answer = ask(APP, "GET", "/none", host=host)
    assert (answer.status, error(answer.body)) == (421, "invalid_request")


@pytest.mark.parametrize(
    "name",
    ["host", "content-type", "authorization", "x-forwarded-for", "x-forwarded-proto"],
)
def test_repeated_singleton_header_is_refused(name: str) -> None:
    assert ask(APP, "POST", "/none", headers=[(name, "h.example")] * 2).status == 400


def test_a_target_of_nine_kibibytes_is_too_long() -> None:
    answer = ask(APP, "POST", "/token?" + "x" * 9_216)
    assert (answer.status, error(answer.body)) == (414, "uri_too_long")


BEHIND = small_app(trusted_proxies=[ip_network("10.0.0.0/8")], hsts=True)


def test_forwarded_address_and_scheme_are_taken_from_a_trusted_proxy_only() -> None:
    came = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https")]
    request = seen(BEHIND, "GET", "/none", headers=came, peer="10.0.0.1")
    assert (request["address"], request["secure"]) == ("203.0.113.9", True)
    request = seen(BEHIND, "GET", "/none", headers=came)
    assert (request["address"], request["secure"]) == ("192.0.2.7", False)


def test_plain_http_behind_a_proxy_is_refused_without_a_redirect() -> None:
    came = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "http")]
    answer = ask(BEHIND, "POST", "/token?client_secret=x", headers=came, peer="10.0.0.1")
    assert answer.status == 403
    assert "location" not in answer.headers


def test_tls_proxy_setting_makes_every_request_secure() -> None:
    assert seen(small_app(tls_proxy=True), "GET", "/none")["secure"] is True


def test_hsts_is_sent_only_to_those_who_came_securely() -> None:
    name = "strict-transport-security"
    assert name in ask(BEHIND, "GET", "/none", scheme="https").headers
    assert name not in ask(BEHIND, "GET", "/none").headers
    assert name not in ask(APP, "GET", "/none", scheme="https").headers


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/none", 200),
        ("GET", "/nowhere", 404),
        ("PUT", "/none", 405),
        ("GET", "/none?" + "x" * 9_000, 414),
        ("GET", "/broken", 500),
    ],
)
def test_every_answer_carries_the_security_headers(method: str, target: str, status: int) -> None:
    answer = ask(APP, method, target)
    assert answer.status == status
    assert answer.headers.keys() >= SECURITY
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


def test_failure_is_logged_under_its_reference_without_its_message() -> None:
    stream = io.StringIO()
    log.set_up("debug", "json", stream)
    answer = ask(APP, "GET", "/broken")
    log.set_up("warning", "json")
    line = json.loads(stream.getvalue())
    assert answer.status == 500
    assert line["event"] == "request.failed"
    assert line["reference"].startswith("VK-")
    assert line["reference"] in json.loads(answer.body)["error_description"]
    assert line["failure"] == "RuntimeError"
    assert "broken" in line["where"]
    assert "canary" not in stream.getvalue() + answer.body.decode()


def route(path: str, *, raises: Exception) -> Route:
    async def endpoint(request: Request) -> Response:
        raise raises

    return Route(path, {"GET": endpoint}, refuse)


def test_refusal_is_answered_by_its_route_with_retry_after() -> None:
    slow_down = Refused(Refusal(ErrorCode.SLOW_DOWN, "wait", retry_after=7))
    answer = ask(small_app([route("/a", raises=slow_down)]), "GET", "/a")
    assert (answer.status, error(answer.body)) == (429, "slow_down")
    assert answer.headers["retry-after"] == "7"


def test_unavailability_is_answered_503_with_retry_after() -> None:
    app = small_app([route("/a", raises=TimeoutError())], unavailable=(TimeoutError,))
    answer = ask(app, "GET", "/a")
    assert (answer.status, error(answer.body)) == (503, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "1"


def test_exception_in_a_refusal_handler_is_answered_with_500() -> None:
    def fail(request: Request, refusal: Refusal) -> Response:
        raise KeyError("canary")

    app = small_app([Route("/a", {"GET": broken}, fail)])
    answer = ask(app, "GET", "/a")
    assert (answer.status, error(answer.body)) == (500, "server_error")
    assert answer.headers.keys() >= SECURITY


def test_an_answer_that_would_split_a_header_is_a_failure() -> None:
    async def endpoint(request: Request) -> Response:
        return Response(303, headers=(("location", "https://a\r\nset-cookie: b"),))

    answer = ask(small_app([Route("/a", {"GET": endpoint}, refuse)]), "GET", "/a")
    assert answer.status == 500
    assert "location" not in answer.headers


def test_an_answer_without_content_has_no_length() -> None:
    async def endpoint(request: Request) -> Response:
        return Response(204)

    answer = ask(small_app([Route("/a", {"GET": endpoint}, refuse)]), "GET", "/a")
    assert "content-length" not in answer.headers


def test_two_routes_of_one_path_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="same path"):
        small_app([*ROUTES, ROUTES[0]])


def test_references_of_failures_differ() -> None:
    number = 0

    def dice(count: int) -> bytes:
        nonlocal number
        number += 1
        return number.to_bytes(count, "big")

    app = small_app()
    app._runtime = type(app._runtime)(now=app._runtime.now, random=dice)
    bodies = [ask(app, "GET", "/broken").body for _ in range(3)]
    assert all(one != other for one, other in pairwise(bodies))


@pytest.mark.parametrize("other", ["/{+rest}", "/a/{+rest}", "/{x}/{y}"])
@pytest.mark.parametrize("place", [0, 1])
def test_of_two_patterns_that_match_the_more_precise_one_answers(other: str, place: int) -> None:
    paths = [other, "/a/{id}"]
    routes = [Route(path, {"GET": echo}, refuse) for path in (paths if place else paths[::-1])]
    assert seen(small_app(routes), "GET", "/a/1")["arguments"] == {"id": "1"}


def test_of_patterns_that_differ_in_names_alone_the_first_answers() -> None:
    routes = [Route(path, {"GET": echo}, refuse) for path in ("/{x}/{y}", "/{a}/{b}")]
    assert seen(small_app(routes), "GET", "/a/1")["arguments"] == {"x": "a", "y": "1"}
