"""What a client may ask for: where the answer may go, and everything that is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.authorization.protocol.samples import (
    API,
    CHALLENGE,
    IMPLICIT,
    NATIVE,
    NOW,
    PKCE,
    WEB,
    asked,
    parameters,
)
from valetkey.authorization.model.client import CLIENT_SCOPE, Client, ClientType, ProfileName
from valetkey.authorization.protocol.authorization_request import (
    PARAMETERS,
    UNSUPPORTED,
    AuthorizationRequest,
    Prompt,
    known_parameters,
    plausible_client_id,
    require_client,
)
from valetkey.authorization.protocol.authorization_response import (
    ResponseMode,
    ResponseType,
    verify_return_address,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope


def test_valid_request_is_parsed_completely() -> None:
    request = asked(
        WEB, nonce="n", login_hint="alice", prompt="login consent", max_age="60", **PKCE
    )
    assert request.client_id == "web1"
    assert request.response_type is ResponseType.CODE
    assert request.returns.redirect_uri == "https://app.example/cb"
    assert request.returns.redirect_uri_given
    assert request.returns.mode is ResponseMode.QUERY
    assert request.returns.state == "xyz"
    assert str(request.scope) == "read notes:read"
    assert request.code_challenge == CHALLENGE
    assert (request.nonce, request.login_hint, request.max_age) == ("n", "alice", 60)
    assert request.prompt == {Prompt.LOGIN, Prompt.CONSENT}
    assert request.may_interact


def test_unknown_parameters_and_empty_values_are_ignored() -> None:
    request_parameters = known_parameters(
        {"foo": "bar", "scope": "", "state": "x", "redirect_uri": ""}
    )
    assert request_parameters == {"state": "x"}


@pytest.mark.parametrize("text", [None, "", "a" * 201, "a\0", "a\n", "\u0430pp", "\x7f"], ids=repr)
def test_implausible_client_id_is_not_looked_up(text: str | None) -> None:
    assert plausible_client_id(text) is None
    assert plausible_client_id("web1' or 1=1--") is not None


def test_unknown_and_disabled_clients_are_refused_in_the_same_words() -> None:
    refusals = []
    for client in (None, replace(WEB, disabled_at=NOW)):
        with pytest.raises(Refused) as caught:
            require_client(client)
        refusals.append(caught.value.refusal)
    assert refusals[0].code is refusals[1].code is ErrorCode.INVALID_REQUEST
    assert refusals[0].description == refusals[1].description
    assert require_client(WEB) is WEB


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://app.example/cb/",
        "https://app.example/cb?x=1",
        "https://app.example/cb#",
        "https://APP.example/cb",
        "https://app.example@evil.test/cb",
        "https://evil.test",
    ],
)
def test_unregistered_redirect_uri_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        verify_return_address({"redirect_uri": text, "state": "x"}, WEB)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST
    assert caught.value.refusal.check == "redirect_uri.unknown"


def test_record_of_a_wrong_redirect_uri_omits_query_and_fragment() -> None:
    with pytest.raises(Refused) as caught:
        verify_return_address({"redirect_uri": "https://evil.test/cb?token=s3cret#s3cret"}, WEB)
    assert caught.value.refusal.received == "'https://evil.test/cb'"
    expected = f"one of the redirect URIs of {WEB.id}: https://app.example/cb"
    assert caught.value.refusal.expected == expected


def test_the_record_of_a_wrong_redirect_uri_can_be_stored_and_shown() -> None:
    with pytest.raises(Refused) as caught:
        verify_return_address({"redirect_uri": "https://app\0\n\u0430"}, WEB)
    assert caught.value.refusal.received == r"'https://app\x00\n\u0430'"


def test_redirect_uri_may_be_omitted_only_if_exactly_one_is_registered() -> None:
    returns = verify_return_address(parameters(redirect_uri="-"), WEB)
    assert returns.redirect_uri == "https://app.example/cb"
    assert not returns.redirect_uri_given
    for uris in ((), ("https://app.example/cb", "https://app.example/cb2")):
        with pytest.raises(Refused) as caught:
            verify_return_address(parameters(redirect_uri="-"), replace(WEB, redirect_uris=uris))
        assert caught.value.refusal.check == "redirect_uri.missing"


def test_native_app_may_use_any_port_on_loopback() -> None:
    request_parameters = parameters(redirect_uri="http://127.0.0.1:65535/cb")
    assert (
        verify_return_address(request_parameters, NATIVE).redirect_uri
        == "http://127.0.0.1:65535/cb"
    )
    with pytest.raises(Refused):
        verify_return_address(request_parameters, replace(WEB, redirect_uris=NATIVE.redirect_uris))


def test_state_is_kept_byte_for_byte_up_to_its_limit() -> None:
    for state in ("x", '"><\r\n\0&code=evil', "\U0001f600" * 1_024, "a" * 4_096):
        assert asked(state=state).returns.state == state


def test_a_state_that_is_too_long_is_refused_and_not_returned() -> None:
    for state in ("a" * 4_097, "\U0001f600" * 1_025):
        assert verify_return_address(parameters(state=state), WEB).state is None
        with pytest.raises(Refused) as caught:
            asked(state=state)
        assert caught.value.refusal.check == "state.long"


INVALID = ErrorCode.INVALID_REQUEST
MODERN = replace(
    WEB, profile_name=ProfileName.MODERN, scope=WEB.scope | Scope.of("openid"), id="modern1"
)
OPENID_NONCE = {"scope": "openid", "nonce": "n"}


REFUSED: list[tuple[Client, dict[str, str], ErrorCode, str]] = [
    (WEB, {"response_type": "-"}, INVALID, "response_type.missing"),
    (
        WEB,
        {"response_type": "none"},
        ErrorCode.UNSUPPORTED_RESPONSE_TYPE,
        "response_type.unknown",
    ),
    (
        WEB,
        {"response_type": "code code"},
        ErrorCode.UNSUPPORTED_RESPONSE_TYPE,
        "response_type.unknown",
    ),
    (
        WEB,
        {"response_type": "CODE"},
        ErrorCode.UNSUPPORTED_RESPONSE_TYPE,
        "response_type.unknown",
    ),
    (
        WEB,
        {"response_type": "token"},
        ErrorCode.UNAUTHORIZED_CLIENT,
        "response_type.forbidden",
    ),
    (IMPLICIT, {}, ErrorCode.UNAUTHORIZED_CLIENT, "response_type.forbidden"),
    (
        replace(IMPLICIT, profile_name=ProfileName.MODERN),
        {"response_type": "token"},
        ErrorCode.UNAUTHORIZED_CLIENT,
        "response_type.forbidden",
    ),
    (WEB, {"response_mode": "web_message"}, INVALID, "response_mode.unknown"),
    (
        IMPLICIT,
        {"response_type": "token", "response_mode": "query"},
        INVALID,
        "response_mode.unknown",
    ),
    (WEB, {"request": "e30.e30."}, ErrorCode.REQUEST_NOT_SUPPORTED, "request.unsupported"),
    (
        WEB,
        {"request_uri": "https://evil.test"},
        ErrorCode.REQUEST_URI_NOT_SUPPORTED,
        "request_uri.unsupported",
    ),
    (
        WEB,
        {"registration": "{}"},
        ErrorCode.REGISTRATION_NOT_SUPPORTED,
        "registration.unsupported",
    ),
    (WEB, {"id_token_hint": "e" * 6_001}, INVALID, "id_token_hint.long"),
    (WEB, {"scope": "admin"}, ErrorCode.INVALID_SCOPE, "scope.wider"),
    (WEB, {"scope": "read admin"}, ErrorCode.INVALID_SCOPE, "scope.wider"),
    (WEB, {"scope": "client:read"}, ErrorCode.INVALID_SCOPE, "scope.wider"),
    (WEB, {"scope": "gone:read"}, ErrorCode.INVALID_SCOPE, "scope.wider"),
    (WEB, {"scope": "read  write"}, ErrorCode.INVALID_SCOPE, "scope.malformed"),
    (WEB, {"scope": "a" * 1_001}, ErrorCode.INVALID_SCOPE, "scope.long"),
    (
        replace(WEB, scope=Scope.of("client:read"), default_scope=Scope()),
        {"scope": "-"},
        ErrorCode.INVALID_SCOPE,
        "scope.wider",
    ),
    (WEB, {"nonce": "n" * 513}, INVALID, "nonce.malformed"),
    (WEB, {"nonce": "n\n"}, INVALID, "nonce.malformed"),
    (WEB, {"prompt": "select"}, INVALID, "prompt.unknown"),
    (WEB, {"prompt": "none login"}, INVALID, "prompt.none"),
    (WEB, {"prompt": "none create"}, INVALID, "prompt.none"),
    (WEB, {"prompt": " ".join(["login"] * 100)}, INVALID, "prompt.unknown"),
    (WEB, {"prompt": "login  consent"}, INVALID, "prompt.unknown"),
    (WEB, {"max_age": "-1"}, INVALID, "max_age.malformed"),
    (WEB, {"max_age": "1.5"}, INVALID, "max_age.malformed"),
    (WEB, {"max_age": "٣"}, INVALID, "max_age.malformed"),
    (WEB, {"max_age": "9" * 4_400}, INVALID, "max_age.malformed"),
    (WEB, {"login_hint": "a\nb"}, INVALID, "login_hint.malformed"),
    (WEB, {"login_hint": "a" * 321}, INVALID, "login_hint.malformed"),
    (WEB, {"code_challenge": CHALLENGE}, INVALID, "pkce.method"),
    (replace(WEB, requires_pkce=True), {}, INVALID, "pkce.missing"),
    (MODERN, {}, INVALID, "pkce.missing"),
    (MODERN, {"nonce": "n"}, INVALID, "pkce.missing"),
    (MODERN, {"scope": "openid"}, INVALID, "pkce.missing"),
    (MODERN, {"scope": "openid", "nonce": "n", "code_challenge": "x"}, INVALID, "pkce.method"),
    (replace(MODERN, requires_pkce=True), OPENID_NONCE, INVALID, "pkce.missing"),
    (replace(MODERN, type=ClientType.PUBLIC), OPENID_NONCE, INVALID, "pkce.missing"),
    (MODERN, {"scope": "openid client:read"}, ErrorCode.INVALID_SCOPE, "scope.wider"),
    (WEB, {"scope": "openid offline"}, ErrorCode.INVALID_SCOPE, "scope.wider"),
    (NATIVE, {"redirect_uri": "http://127.0.0.1/cb"}, INVALID, "pkce.missing"),
]


def test_confidential_openid_client_may_use_nonce_instead_of_pkce() -> None:
    assert asked(MODERN, **OPENID_NONCE).code_challenge == ""
    assert asked(MODERN, **PKCE).code_challenge == CHALLENGE
    assert asked(MODERN, **OPENID_NONCE, **PKCE).code_challenge == CHALLENGE


def test_unknown_scopes_are_ignored_with_openid_alone() -> None:
    assert str(asked(MODERN, **{**OPENID_NONCE, "scope": "team openid x"}).scope) == "openid"
    with pytest.raises(Refused, match="scope"):
        asked(MODERN, scope="team read", **PKCE)


@pytest.mark.parametrize(("client", "changed", "code", "check"), REFUSED)
def test_invalid_authorization_request_is_refused(
    client: Client, changed: dict[str, str], code: ErrorCode, check: str
) -> None:
    with pytest.raises(Refused) as caught:
        asked(client, **changed)
    refusal = caught.value.refusal
    assert (refusal.code, refusal.check) == (code, check)
    # RFC 6749 section 4.1.2.1: what an error_description may be made of.
    assert all(" " <= c <= "~" and c not in '"\\' for c in refusal.description)


def test_public_client_with_a_challenge_is_accepted() -> None:
    assert asked(NATIVE, redirect_uri="http://127.0.0.1/cb", **PKCE).code_challenge == CHALLENGE


def test_explicit_default_response_mode_and_resource_change_nothing() -> None:
    assert asked(response_mode="query", resource=API) == asked()


def test_omitted_scope_means_the_default_scope_or_else_every_user_scope() -> None:
    assert str(asked(scope="-").scope) == "notes:read"
    bare = replace(WEB, default_scope=Scope())
    assert str(asked(bare, scope="-").scope) == "read write notes:read"
    assert str(asked(bare, scope="").scope) == "read write notes:read"


def test_an_implicit_request_is_answered_in_the_fragment() -> None:
    request = asked(IMPLICIT, response_type="token", response_mode="fragment")
    assert request.returns.mode is ResponseMode.FRAGMENT
    assert request.response_type is ResponseType.TOKEN


@pytest.mark.parametrize(
    ("changed", "age", "fresh"),
    [
        ({}, 10**6, False),
        ({"prompt": "consent"}, 0, False),
        ({"prompt": "login"}, 0, True),
        ({"prompt": "select_account"}, 0, True),
        ({"max_age": "60"}, 59, False),
        ({"max_age": "60"}, 60, True),
        ({"max_age": "1"}, 1, True),
        ({"max_age": "1"}, 0, False),
        ({"max_age": "0"}, 0, True),
    ],
)
def test_prompt_or_max_age_forces_a_sign_in(changed: dict[str, str], age: int, fresh: bool) -> None:
    assert asked(WEB, **changed).wants_fresh_sign_in(Instant(NOW - age), NOW) is fresh


_NAMES = st.sampled_from((*PARAMETERS, *UNSUPPORTED, "foo"))
_TEXTS = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    ("code", "token", "query", "none", "login consent", "read", "S256", CHALLENGE, "60", API)
)


@given(st.dictionaries(_NAMES, _TEXTS), st.sampled_from((WEB, NATIVE, IMPLICIT)))
def test_any_input_is_a_request_or_an_rfc_error(changed: dict[str, str], client: Client) -> None:
    answer = _asked_or_refused(client, changed)
    if isinstance(answer, Refusal):
        assert answer.code.status == 400
        assert all(" " <= c <= "~" and c not in '"\\' for c in answer.description)
        return
    assert answer.returns.redirect_uri in client.redirect_uris
    assert answer.scope
    assert answer.scope <= client.scope
    assert not answer.scope & CLIENT_SCOPE


def _asked_or_refused(client: Client, changed: dict[str, str]) -> AuthorizationRequest | Refusal:
    try:
        return asked(client, **changed)
    except Refused as refused:
        return refused.refusal
