"""What comes, how it travels, and who may ask for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.authorization.protocol.samples import IMPLICIT, WEB
from valetkey.authorization.model.client import OpenIdRegistration, ProfileName
from valetkey.authorization.protocol.authorization_response import (
    ResponseMode,
    ResponseType,
    default_mode,
    may_ask_for,
    mode_of_answer,
)
from valetkey.kernel.replace import replace

BOTH = replace(WEB, grant_types=frozenset({"authorization_code", "implicit"}))


@given(st.permutations(["code", "id_token", "token"]), st.integers(1, 3))
def test_order_of_response_type_words_is_irrelevant(words: list[str], count: int) -> None:
    chosen = words[:count]
    response_type = ResponseType.parse(" ".join(chosen))
    assert response_type is not None
    assert response_type.words == frozenset(chosen)


@pytest.mark.parametrize(
    "text",
    ["", " ", "none", "CODE", "code ", " code", "code  token", "code code", "code\ttoken",
     "code token code", "id_token,token", "code id_token token x", "x" * 10_000],
)  # fmt: skip
def test_unknown_response_type_is_none(text: str) -> None:
    assert ResponseType.parse(text) is None


@pytest.mark.parametrize(
    ("response_type", "response_mode", "mode"),
    [
        ("code", None, "query"),
        ("code", "fragment", "fragment"),
        ("code", "form_post", "form_post"),
        ("token", None, "fragment"),
        ("token", "query", "fragment"),
        ("token", "form_post", "fragment"),
        ("id_token", "query", "fragment"),
        ("token code", "query", "fragment"),
        ("token code", "form_post", "form_post"),
        ("", None, "query"),
        ("", "form_post", "form_post"),
        ("none", None, "query"),
        ("none token", None, "fragment"),
        ("none id_token", "query", "fragment"),
        ("none id_token", "form_post", "form_post"),
        ("code", "web_message", "query"),
        ("id_token", "web_message", "fragment"),
    ],
)
def test_requested_response_mode_is_used_if_allowed_otherwise_the_default(
    response_type: str, response_mode: str | None, mode: str
) -> None:
    assert mode_of_answer(response_type, response_mode) == mode


@given(st.text(), st.none() | st.text() | st.sampled_from(ResponseMode))
def test_token_is_never_returned_in_the_query(text: str, mode: str | None) -> None:
    for response_type in (text, *ResponseType):
        answer_mode = mode_of_answer(response_type, mode)
        if (named := ResponseType.parse(response_type)) is not None:
            assert answer_mode.fits(named)
            assert default_mode(named).fits(named)
            assert named is ResponseType.CODE or answer_mode is not ResponseMode.QUERY


@pytest.mark.parametrize("response_type", ResponseType)
def test_response_types_of_a_client_follow_from_its_grants_profile_and_registration(
    response_type: ResponseType,
) -> None:
    assert may_ask_for(BOTH, response_type)
    assert may_ask_for(WEB, response_type) is (response_type is ResponseType.CODE)
    assert may_ask_for(IMPLICIT, response_type) is not response_type.has_code
    modern = replace(BOTH, profile_name=ProfileName.MODERN)
    assert may_ask_for(modern, response_type) is (response_type is ResponseType.CODE)
    chosen = OpenIdRegistration(response_types=("token id_token code", "id_token"))
    registered_types = {ResponseType.CODE_ID_TOKEN_TOKEN, ResponseType.ID_TOKEN}
    assert may_ask_for(replace(BOTH, openid=chosen), response_type) is (
        response_type in registered_types
    )
    # What is registered never gives what the grant types do not.
    assert not may_ask_for(replace(WEB, openid=chosen), response_type)
