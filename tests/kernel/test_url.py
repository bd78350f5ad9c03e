"""URLs: what may be registered, what matches, what is put on them."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.vectors.rows import rows
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.url import (
    LONGEST,
    append_query,
    canonical,
    check_redirect_uri,
    encode_pairs,
    masked,
    matches_redirect_uri,
    origin,
    same_identifiers,
    with_fragment,
)

_OWN = ("https://as.example", "http://127.0.0.1:9000")


@dataclass(frozen=True, slots=True)
class _Uri:
    text: str
    why: str
    native: bool = False
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Match:
    registered: str
    presented: str
    why: str
    native: bool = False
    matches: bool = False


@pytest.mark.parametrize("row", rows("redirect_uri.toml", "uri", _Uri), ids=lambda row: row.why)
def test_redirect_uri_is_accepted_or_refused_with_its_check_name(row: _Uri) -> None:
    if not row.refused:
        check_redirect_uri(row.text, native=row.native, own_origins=_OWN)
        return
    with pytest.raises(Refused) as refused:
        check_redirect_uri(row.text, native=row.native, own_origins=_OWN)
    assert refused.value.refusal.check == row.refused
    assert refused.value.refusal.code is ErrorCode.INVALID_REDIRECT_URI
    assert not row.text or row.text not in refused.value.refusal.description


@pytest.mark.parametrize("row", rows("redirect_uri.toml", "match", _Match), ids=lambda row: row.why)
def test_a_redirect_uri_matches_byte_for_byte(row: _Match) -> None:
    assert matches_redirect_uri(row.registered, row.presented, native=row.native) is row.matches


@pytest.mark.parametrize("size", [8 * 1_024, 1_024 * 1_024])
def test_a_very_long_redirect_uri_is_refused_for_its_length(size: int) -> None:
    with pytest.raises(Refused) as refused:
        check_redirect_uri("https://app.example/".ljust(size, "a"), native=False)
    assert refused.value.refusal.check == "redirect_uri.length"
    check_redirect_uri("https://app.example/".ljust(LONGEST, "a"), native=False)


def test_lone_surrogate_is_refused_without_an_exception() -> None:
    with pytest.raises(Refused) as refused:
        check_redirect_uri("https://app.example/\ud800", native=False)
    assert refused.value.refusal.check == "redirect_uri.ascii"
    assert not matches_redirect_uri("https://a.example", "https://a.example\ud800", native=True)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://app.example/cb?x=1", "https://app.example"),
        ("https://app.example:443/cb", "https://app.example"),
        ("http://127.0.0.1:80/cb", "http://127.0.0.1"),
        ("https://app.example:8443/cb", "https://app.example:8443"),
        ("http://[::1]:5000/", "http://[::1]:5000"),
        ("com.example.app:/cb", "com.example.app:"),
    ],
)
def test_an_origin_is_what_a_content_security_policy_can_name(url: str, expected: str) -> None:
    assert origin(url) == expected


def test_invalid_url_has_no_origin() -> None:
    for text in ("javascript:alert(1)", "/cb", "https://a;b/", "https://a.example,evil.test/"):
        with pytest.raises(Refused) as refused:
            origin(text)
        assert refused.value.refusal.check == "redirect_uri.form"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example", "https://a.example/", True),
        ("http://[::1]:8000/", "http://[::1]:8000", True),
        ("https://a.example//", "https://a.example/", False),
        ("https://a.example/x", "https://a.example/x/", False),
        ("https://a.example?x", "https://a.example?x/", False),
        ("https://a.example/?x", "https://a.example?x", False),
        ("https://a.example", "https://A.example", False),
    ],
)
def test_identifier_without_path_is_the_same_with_a_slash(
    one: str, other: str, *, same: bool
) -> None:
    assert (canonical(one) == canonical(other)) is same
    assert (one in same_identifiers(other)) is same
    assert {one} <= same_identifiers(one) <= {one, other, f"{one}/"}


def test_response_parameters_are_appended_to_the_existing_query() -> None:
    pairs = [("code", "a b&c=d"), ("state", "é+%\u0000#")]
    query = "code=a%20b%26c%3Dd&state=%C3%A9%2B%25%00%23"
    assert encode_pairs(pairs) == query
    assert append_query("https://a.example/cb", pairs) == f"https://a.example/cb?{query}"
    assert append_query("https://a.example/cb?x=1", pairs) == f"https://a.example/cb?x=1&{query}"
    assert append_query("https://a.example/cb?", pairs) == f"https://a.example/cb?{query}"
    assert append_query("https://a.example/cb?x&", pairs) == f"https://a.example/cb?x&{query}"
    assert append_query("https://a.example/cb", []) == "https://a.example/cb"
    assert with_fragment("https://a.example/cb", pairs) == f"https://a.example/cb#{query}"
    assert parse_qsl(urlsplit(append_query("https://a.example/cb", pairs)).query) == pairs


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("https://r.example", "https://r.example/"),
        ("https://r.example/", "https://r.example/"),
        ("https://r.example:8443/hook/secret", "https://r.example:8443/…"),
        ("https://r.example?token=secret", "https://r.example/…"),
    ],
)
def test_path_and_query_are_masked(url: str, shown: str) -> None:
    assert masked(url) == shown
