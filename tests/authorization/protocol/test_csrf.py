"""Forged forms: the token, and what browsers say about where a form came from."""

import pytest

from valetkey.authorization.protocol.csrf import check_csrf_token, check_origin, csrf_token
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import FingerprintKey
from valetkey.web.exchange import Headers

KEY = FingerprintKey(bytes(32))
OWN = "https://auth.example"


def headers(**fields: str) -> Headers:
    return Headers((k.replace("_", "-").encode(), v.encode()) for k, v in fields.items())


def test_csrf_token_is_valid_only_for_its_form_browser_and_session() -> None:
    token = csrf_token(KEY, "browser", "consent", "in_1", "se_1")
    check_csrf_token(token, [token])
    others = {
        csrf_token(FingerprintKey(b"1" * 32), "browser", "consent", "in_1", "se_1"),
        csrf_token(KEY, "another", "consent", "in_1", "se_1"),
        csrf_token(KEY, "browser", "sign-in", "in_1", "se_1"),
        csrf_token(KEY, "browser", "consent", "in_2", "se_1"),
        csrf_token(KEY, "browser", "consent", "in_1", "se_2"),
        csrf_token(KEY, "browser", "consent", "in_1"),
    }
    assert len(others) == 6
    for other in others:
        with pytest.raises(Refused) as caught:
            check_csrf_token(token, [other])
        assert caught.value.refusal.code is ErrorCode.FORBIDDEN
        assert other not in repr(caught.value.refusal)


@pytest.mark.parametrize("count", [0, 2])
def test_missing_or_repeated_csrf_token_is_refused(count: int) -> None:
    token = csrf_token(KEY, "browser", "consent")
    with pytest.raises(Refused):
        check_csrf_token(token, [token] * count)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"origin": OWN},
        {"origin": OWN, "sec_fetch_site": "same-origin"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
    ],
)
def test_same_origin_requests_pass_the_origin_check(fields: dict[str, str]) -> None:
    check_origin(headers(**fields), OWN)


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "null"},
        {"origin": "https://evil.test"},
        {"origin": "https://auth.example.evil.test"},
        {"origin": "http://auth.example"},
        {"origin": "https://auth.example:8443"},
        {"origin": "https://evil.test", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": OWN, "sec_fetch_site": "cross-site"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": ""},
    ],
)
def test_cross_origin_request_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(Refused) as caught:
        check_origin(headers(**fields), OWN)
    assert caught.value.refusal.code is ErrorCode.FORBIDDEN


def test_second_origin_header_of_another_site_is_refused() -> None:
    both = Headers(((b"origin", OWN.encode()), (b"origin", b"https://evil.test")))
    with pytest.raises(Refused):
        check_origin(both, OWN)
