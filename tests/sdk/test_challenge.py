"""What a refused request is told (RFC 6750 section 3)."""

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.sdk.caller import NO_TOKEN, Challenge

CHALLENGE = Challenge("https://api.example")


def test_challenge_to_a_request_without_a_token_has_no_error() -> None:
    assert CHALLENGE.header(NO_TOKEN) == 'Bearer realm="https://api.example"'


def test_refused_token_is_reported_as_invalid_token() -> None:
    refusal = Refusal(ErrorCode.INVALID_TOKEN, "the token has expired")
    assert CHALLENGE.header(refusal) == (
        'Bearer realm="https://api.example", error="invalid_token",'
        ' error_description="the token has expired"'
    )


def test_insufficient_scope_challenge_names_the_required_scope() -> None:
    refusal = Refusal(ErrorCode.INSUFFICIENT_SCOPE, "more")
    assert CHALLENGE.header(refusal, "notes:read").endswith(
        'error="insufficient_scope", error_description="more", scope="notes:read"'
    )


def test_error_that_is_not_about_tokens_is_not_in_the_challenge() -> None:
    header = CHALLENGE.header(Refusal(ErrorCode.NOT_FOUND, "gone"))
    assert header == 'Bearer realm="https://api.example"'


def test_challenge_has_no_injected_quotes_or_line_breaks() -> None:
    hostile = 'a"b\\c\r\nset-cookie: x\u00e9'
    header = Challenge(hostile).header(Refusal(ErrorCode.INVALID_TOKEN, hostile), hostile)
    assert header.count('"') == 8
    assert header.isprintable()
    assert header.isascii()
    assert "\\" not in header


def test_challenge_names_the_metadata_url() -> None:
    url = "https://api.example/.well-known/oauth-protected-resource"
    assert Challenge("x", url).header(NO_TOKEN).endswith(f'resource_metadata="{url}"')
