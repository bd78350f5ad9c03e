"""A request's parameters as claims."""

import json

import pytest

from valetkey.authorization.endpoints.authorize.request_object import (
    is_registered,
    merged,
    read_request_object,
)
from valetkey.authorization.model.client import Client, OpenIdRegistration, client_without_rights
from valetkey.kernel.jose.jwt import Claims
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

NOW = Instant(1_800_000_000)
ISSUER = "https://auth.example"
CLIENT = client_without_rights("printer", NOW)


def _read(**claims: object) -> Claims:
    payload = json.dumps(claims).encode()
    return read_request_object(payload, CLIENT, issuer=ISSUER, now=NOW, by_value=False)


def _read_by_value(**claims: object) -> Claims:
    payload = json.dumps(claims).encode()
    return read_request_object(payload, CLIENT, issuer=ISSUER, now=NOW, by_value=True)


def test_claims_of_the_request_object_override_outer_parameters() -> None:
    outside = {"client_id": "printer", "state": "outside", "scope": "openid", "request": "a.b.c"}
    inside: Claims = {
        "iss": "printer",
        "aud": ISSUER,
        "exp": NOW + 1,
        "client_id": "printer",
        "state": "inside",
        "max_age": 0,
        "claims": {"id_token": {"acr": None}},
    }
    assert merged(outside, inside) == {
        "client_id": "printer",
        "state": "inside",
        "scope": "openid",
        "max_age": "0",
        "claims": '{"id_token":{"acr":null}}',
    }


@pytest.mark.parametrize("name", ["client_id", "response_type"])
def test_client_id_and_response_type_must_be_equal_inside_and_outside(name: str) -> None:
    assert merged({name: "a"}, {name: "a"}) == {name: "a"}
    assert merged({}, {name: "a"}) == {name: "a"}
    assert merged({name: "a"}, {}) == {name: "a"}
    for other in ("b", "", 1, ["a"]):
        with pytest.raises(Refused) as caught:
            merged({name: "a"}, {name: other})
        assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST_OBJECT


def test_iss_aud_and_exp_of_a_request_object_are_optional() -> None:
    for claims in ({}, {"iss": "printer", "aud": ISSUER, "exp": NOW}, {"aud": ["x", ISSUER]}):
        assert _read(**claims) == claims
    assert _read_by_value(exp=NOW) == {"exp": NOW}
    with pytest.raises(Refused) as caught:
        _read_by_value(iss="printer")
    assert caught.value.refusal.check == "request_object.exp.missing"


@pytest.mark.parametrize(
    ("said", "check"),
    [
        ({"iss": "other"}, "jwt.iss"),
        ({"aud": "other"}, "jwt.aud"),
        ({"exp": NOW - 10}, "jwt.exp"),
        ({"nbf": NOW + 11}, "jwt.nbf"),
        ({"iat": NOW + 61}, "jwt.iat"),
        ({"sub": "printer"}, "assertion"),
        ({"request": "a.b.c"}, "nested"),
        ({"request_uri": ""}, "nested"),
    ],
    ids=json.dumps,
)
def test_object_with_an_invalid_claim_is_refused(said: dict[str, object], check: str) -> None:
    with pytest.raises(Refused) as caught:
        _read(**said)
    refusal = caught.value.refusal
    assert refusal.code is ErrorCode.INVALID_REQUEST_OBJECT
    assert refusal.check == f"request_object.{check}"


@pytest.mark.parametrize(
    ("uri", "known"),
    [
        ("https://app.example/r", True),
        ("https://app.example/r#hash", True),
        ("https://app.example/r#", True),
        ("https://app.example/s", True),
        ("https://app.example/s#other", True),
        ("https://app.example/r?x", False),
        ("https://app.example/r/", False),
        ("https://app.example/R", False),
        ("#https://app.example/r", False),
        ("", False),
    ],
)
def test_request_uri_must_equal_a_registered_one_except_for_its_fragment(
    uri: str, known: bool
) -> None:
    uris = ("https://app.example/r", "https://app.example/s#hash")
    openid = replace(OpenIdRegistration.NOTHING, request_uris=uris)
    client: Client = replace(CLIENT, openid=openid)
    assert is_registered(uri, client) is known
