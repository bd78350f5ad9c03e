"""The address a browser is sent back to."""

from urllib.parse import parse_qsl, urlsplit

from valetkey.authorization.protocol.authorization_response import (
    Pairs,
    ResponseMode,
    ReturnAddress,
    answer,
    error_answer,
    redirect_to,
)
from valetkey.kernel.refusal import ErrorCode, Refusal

ISSUER = "https://auth.example"
STATE = '\r\n"><\0&code=evil +%\U0001f600'


def _sent(returns: ReturnAddress, pairs: Pairs) -> str:
    return redirect_to(returns, answer(returns, ISSUER, pairs))


def test_a_code_goes_into_the_query_with_state_and_issuer() -> None:
    returns = ReturnAddress("https://app.example/cb", True, ResponseMode.QUERY, STATE)
    url = _sent(returns, (("code", "abc"),))
    pairs = parse_qsl(urlsplit(url).query, strict_parsing=True)
    assert pairs == [("code", "abc"), ("state", STATE), ("iss", ISSUER)]
    assert url.isascii()
    assert url.isprintable()


def test_registered_query_precedes_the_response_parameters() -> None:
    returns = ReturnAddress("https://app.example/cb?a=1&b=2", True, ResponseMode.QUERY, None)
    url = _sent(returns, (("code", "abc"),))
    assert url.startswith("https://app.example/cb?a=1&b=2&code=abc&iss=")


def test_az_23_response_url_ends_with_an_empty_fragment() -> None:
    returns = ReturnAddress("https://app.example/cb", True, ResponseMode.QUERY, None)
    assert _sent(returns, (("code", "abc"),)).endswith("#")


def test_a_token_goes_into_the_fragment_and_only_there() -> None:
    returns = ReturnAddress("https://app.example/cb", True, ResponseMode.FRAGMENT, "s")
    parts = urlsplit(_sent(returns, (("access_token", "abc"),)))
    assert parts.query == ""
    assert dict(parse_qsl(parts.fragment)) == {"access_token": "abc", "state": "s", "iss": ISSUER}


def test_error_response_has_description_uri_and_reference_without_details() -> None:
    returns = ReturnAddress("https://app.example/cb", True, ResponseMode.QUERY, "s")
    refusal = Refusal(ErrorCode.INVALID_SCOPE, "scope is wrong", "check", "secret", "secret")
    url = redirect_to(returns, error_answer(returns, ISSUER, refusal, "VK-1"))
    assert "secret" not in url
    assert dict(parse_qsl(urlsplit(url).query)) == {
        "error": "invalid_scope",
        "error_description": "scope is wrong",
        "error_uri": "https://auth.example/errors/invalid_scope?reference=VK-1",
        "state": "s",
        "iss": ISSUER,
    }
