"""The `claims` parameter: what is understood, what is ignored, what is refused (Core 5.5)."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.authorization.model.user import Address, StandardClaims, Uid, User
from valetkey.authorization.protocol.claims import (
    CLAIMS_OF,
    IDENTITY_SCOPES,
    PERSONAL_CLAIMS,
    SIGN_IN_CLAIMS,
    Acr,
    ClaimRequest,
    ClaimsRequest,
    acr_of,
    claims_of_scope,
    user_claims,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

NOW = Instant(1_800_000_000)
USER = User(Uid(1001), "ada", "ada@example.com", NOW, "", NOW, Instant(NOW + 5), None)

# The example of Core section 5.5, with one claim that nobody here knows.
EXAMPLE = """{
   "userinfo": {
     "given_name": {"essential": true},
     "nickname": null,
     "email": {"essential": true},
     "picture": null,
     "http://example.info/claims/groups": null
   },
   "id_token": {
     "auth_time": {"essential": true},
     "acr": {"values": ["urn:mace:incommon:iap:silver"] }
   }
}"""


def test_claims_request_example_of_the_specification_is_parsed() -> None:
    request = ClaimsRequest.parse(EXAMPLE)
    assert request.userinfo == {
        "given_name": ClaimRequest(essential=True),
        "nickname": ClaimRequest(),
        "email": ClaimRequest(essential=True),
        "picture": ClaimRequest(),
    }
    assert request.id_token["auth_time"].essential
    assert request.id_token["acr"].accepted == ("urn:mace:incommon:iap:silver",)
    assert request.names == {"given_name", "nickname", "email", "picture"}


@pytest.mark.parametrize(
    "text",
    [
        *("x", "[]", "null", '"userinfo"', "{", '{"a":1,"a":2}', "{}" * 2_049, '{"a":NaN}'),
        *('{"userinfo":[]}', '{"userinfo":null}', '{"id_token":"email"}', '{"id_token":1}'),
        *('{"userinfo":{"email":true}}', '{"userinfo":{"email":"x"}}', '{"id_token":{"acr":[]}}'),
        '{"userinfo":{"email":{"essential":1}}}',
        '{"id_token":{"acr":{"values":"x"}}}',
        '{"userinfo":' + '{"x":' * 9 + "1" + "}" * 10,
        "\ud800",
    ],
)
def test_malformed_claims_request_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        ClaimsRequest.parse(text)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "text", ["", "{}", '{"userinfo":{}}', '{"other":7}', '{"userinfo":{"name#ja":null,"x":{}}}']
)
def test_claims_request_without_known_claims_is_empty(text: str) -> None:
    assert ClaimsRequest.parse(text) == ClaimsRequest.EMPTY
    assert ClaimsRequest.parse(text).encode() == ""


def test_claim_values_that_are_not_strings_are_ignored() -> None:
    request = ClaimsRequest.parse('{"id_token":{"email_verified":{"value":true,"values":[1,"x"]}}}')
    assert request.id_token["email_verified"] == ClaimRequest(values=("x",))


def test_requested_sub_names_the_only_subject() -> None:
    assert ClaimsRequest.parse('{"id_token":{"sub":{"value":"7"}}}').subject == "7"
    assert ClaimsRequest.parse('{"userinfo":{"sub":{"value":"8"}}}').subject == "8"
    assert ClaimsRequest.parse('{"id_token":{"sub":null}}').subject == ""


def test_claims_that_were_not_allowed_are_removed() -> None:
    request = ClaimsRequest.parse(EXAMPLE).only({"email"})
    assert request.names == {"email"}
    assert set(request.id_token) == {"auth_time", "acr"}


WISHES = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "essential": st.booleans(),
            "value": st.text(max_size=9),
            "values": st.lists(st.text(max_size=9), max_size=3),
        },
    ),
)
NAMES = st.dictionaries(st.sampled_from([*sorted(PERSONAL_CLAIMS), *SIGN_IN_CLAIMS, "x"]), WISHES)


@given(NAMES, NAMES)
def test_stored_claims_request_is_read_back_unchanged(userinfo: object, id_token: object) -> None:
    text = json.dumps({"userinfo": userinfo, "id_token": id_token})
    if len(text) > 4_096 or "\\u0000" in text or "\\ud" in text.lower():
        return
    request = ClaimsRequest.parse(text)
    assert ClaimsRequest.parse(request.encode()) == request
    assert ClaimsRequest.parse(request.encode()).encode() == request.encode()


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(Refused):
        assert ClaimsRequest.parse(text).names <= PERSONAL_CLAIMS


def test_complete_user_record_yields_every_claim_of_every_scope() -> None:
    values = dict.fromkeys(PERSONAL_CLAIMS & set(StandardClaims.__struct_fields__), "x")
    claims = replace(
        StandardClaims.NOTHING,
        **{**values, "phone_number_verified": False, "address": Address("x")},  # type: ignore[arg-type]
    )
    whole = replace(USER, name="Ada", claims=claims)
    # Groups are not part of the user's record.
    assert set(user_claims(whole, PERSONAL_CLAIMS)) == PERSONAL_CLAIMS - {"groups"}
    assert set(claims_of_scope(IDENTITY_SCOPES)) == PERSONAL_CLAIMS
    assert set(CLAIMS_OF) < set(IDENTITY_SCOPES)


def test_minimal_user_record_yields_only_the_claims_of_every_user() -> None:
    claims = user_claims(USER, PERSONAL_CLAIMS)
    assert claims == {
        "preferred_username": "ada",
        "updated_at": NOW + 5,
        "email": "ada@example.com",
        "email_verified": True,
    }


def test_scope_sentences_begin_with_a_verb_and_have_no_full_stop() -> None:
    for sentence in IDENTITY_SCOPES.values():
        assert sentence.split()[0] in {"know", "read", "confirm", "keep"}
        assert not sentence.endswith(".")


def test_acr_follows_from_the_authentication_methods() -> None:
    assert acr_of(("pwd",)) == Acr.PASSWORD
    assert acr_of(("pwd", "otp", "mfa")) == Acr.TWO_FACTORS
    assert acr_of(("swk", "user", "mfa")) == Acr.PASSKEY
    assert acr_of(("pwd", "hwk", "user", "mfa")) == Acr.PASSKEY
    # A key that asked for nothing is something that one has, and no more.
    assert acr_of(("pwd", "hwk", "mfa")) == Acr.TWO_FACTORS
    assert acr_of(()) == acr_of(("sms",)) == acr_of(("hwk",)) == "0"


def test_acr_is_the_requested_class_if_the_sign_in_meets_it() -> None:
    assert acr_of(("pwd", "otp", "mfa"), (Acr.PASSWORD,)) == Acr.PASSWORD
    assert acr_of(("swk", "user", "mfa"), ("x", Acr.TWO_FACTORS)) == Acr.TWO_FACTORS
    assert acr_of(("pwd",), (Acr.PASSKEY,)) == Acr.PASSWORD
