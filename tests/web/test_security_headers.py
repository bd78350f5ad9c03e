"""Every answer carries them."""

import pytest

from tests.web import SECURITY
from valetkey.web.exchange import Pairs
from valetkey.web.security_headers import harden, head


def test_an_answer_without_headers_gets_all_of_them() -> None:
    headers = dict(harden((), hsts=False))
    assert {name.decode() for name in headers} == SECURITY | {"cache-control"}
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"x-frame-options"] == b"DENY"


def test_hsts_is_for_two_years_and_only_when_secure() -> None:
    name = b"strict-transport-security"
    assert dict(harden((), hsts=True))[name] == b"max-age=63072000"
    assert name not in dict(harden((), hsts=False))


def test_headers_of_the_answer_replace_the_defaults() -> None:
    own = (("Cache-Control", "public, max-age=300"), ("Content-Security-Policy", "sandbox"))
    headers = harden(own, hsts=False)
    names = [name for name, _ in headers]
    assert len(names) == len(set(names))
    assert dict(headers)[b"cache-control"] == b"public, max-age=300"
    assert dict(headers)[b"content-security-policy"] == b"sandbox"


def test_default_header_with_an_empty_value_is_left_out() -> None:
    headers = dict(harden((("x-frame-options", ""), ("x-other", "")), hsts=False))
    assert b"x-frame-options" not in headers
    assert headers[b"x-other"] == b""
    assert {name.decode() for name in headers} > SECURITY - {"x-frame-options"}


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "a\nb", "a\x00", "ü", "a\tb", "\u2028"])
def test_header_value_with_line_break_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="location"):
        harden((("location", value),), hsts=False)


HEADERS: list[Pairs] = [
    (),
    (("content-type", "application/json"),),
    (("cache-control", "public, max-age=300"), ("content-type", "text/css")),
    (("Location", "https://app.example/?code=1"), ("cache-control", "no-store")),
    (("x-frame-options", ""), ("set-cookie", "a=b"), ("set-cookie", "c=d")),
    (("strict-transport-security", ""), ("etag", '"1"')),
]


@pytest.mark.parametrize("hsts", [False, True])
@pytest.mark.parametrize("headers", HEADERS)
def test_response_head_has_the_fields_of_harden(headers: Pairs, hsts: bool) -> None:
    for _ in range(2):
        lines = head(200, headers, hsts=hsts).split(b"\r\n")
        assert lines[0] == b"HTTP/1.1 200 OK"
        assert lines[-1] == b""
        assert lines[1:-1] == [b"%b: %b" % field for field in harden(headers, hsts=hsts)]


@pytest.mark.parametrize("name", ["location", "content-type", "cache-control"])
@pytest.mark.parametrize("value", ["a\r\nb: c", "\x00", "\u2028", "é"])
def test_control_character_in_a_response_header_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        head(200, ((name, value),), hsts=False)


@pytest.mark.parametrize("name", ["pragma", "access-control-expose-headers"])
def test_fields_of_token_responses_are_encoded_once(name: str) -> None:
    fields = (("cache-control", "no-store"), (name, "something"))
    first = head(200, fields, hsts=True)
    assert head(200, fields, hsts=True) is first
    secret = (*fields, ("location", "something"))
    first = head(200, secret, hsts=True)
    assert head(200, secret, hsts=True) is not first
