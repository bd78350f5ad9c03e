"""Requests and responses."""

import pytest

from valetkey.web.exchange import Headers, Request, html_response, json_response, redirect


def with_cookies(*fields: str) -> Request:
    return Request(
        "GET", "/", headers=Headers([(b"cookie", field.encode("latin-1")) for field in fields])
    )


def test_a_header_is_found_by_its_lower_case_name() -> None:
    headers = Headers([(b"host", b"h"), (b"x-a", b"1"), (b"x-a", b"2")])
    assert headers.get("host") == "h"
    assert headers.get("x-b") is None
    assert headers.get("x-a") == "1"
    assert headers.all("x-a") == ("1", "2")
    assert headers.all("x-b") == ()


@pytest.mark.parametrize(
    "name",
    ["authorization", "content-length", "content-type", "forwarded", "host", "x-forwarded-for"],
)
def test_repeated_singleton_header_is_detected(name: str) -> None:
    once = [(b"accept", b"a"), (b"accept", b"b"), (name.encode(), b"1")]
    assert not Headers(once).repeats()
    assert Headers([*once, (name.encode(), b"1")]).repeats()


def test_a_cookie_is_found_among_others() -> None:
    request = with_cookies("a=1; __Host-session=vk_se_x;b=2;c")
    assert request.cookie("__Host-session") == "vk_se_x"
    assert request.cookie("b") == "2"
    assert request.cookie("c") is None
    assert request.cookie("d") is None
    assert with_cookies().cookie("a") is None


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(["a=1; a=2"], id="twice"),
        pytest.param(["a=1; a=1"], id="twice the same"),
        pytest.param(["a=1", "b=2"], id="two fields"),
        pytest.param(["a=x y"], id="space"),
        pytest.param(['a="x"'], id="quoted"),
        pytest.param(["a=x,y"], id="comma"),
        pytest.param(["a=\xff"], id="not ASCII"),
        pytest.param(["a=1; " + "x" * 4_096], id="too long"),
        pytest.param(["a=1" + ";x" * 100], id="too many"),
    ],
)
def test_ambiguous_or_invalid_cookie_is_ignored(fields: list[str]) -> None:
    assert with_cookies(*fields).cookie("a") is None


def test_a_hundred_cookies_are_read() -> None:
    assert with_cookies("a=1" + ";x" * 99).cookie("a") == "1"


def test_repr_of_a_request_contains_no_values() -> None:
    headers = Headers([(b"authorization", b"canary")])
    request = Request("POST", "/token", "canary", "canary", headers, b"canary")
    assert repr(request) == "Request(POST /token)"
    assert "canary" not in repr(headers)


def test_a_page_is_not_stored_and_has_its_own_policy() -> None:
    response = html_response(b"<p>", 403, "default-src 'none'", (("set-cookie", "a=b"),))
    headers = dict(response.headers)
    assert response.status == 403
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"] == "default-src 'none'"
    assert headers["cache-control"] == "no-store"
    assert headers["set-cookie"] == "a=b"


def test_redirect_has_status_303() -> None:
    response = redirect("https://app.example/cb?code=1")
    assert response.status == 303
    assert ("location", "https://app.example/cb?code=1") in response.headers


def test_json_is_compact() -> None:
    response = json_response({"a": [1, "ü"]}, 201, (("etag", '"1"'),))
    assert response.status == 201
    assert response.body == '{"a":[1,"ü"]}'.encode()
    assert ("etag", '"1"') in response.headers
