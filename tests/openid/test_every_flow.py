"""What the Basic, Implicit, Hybrid and Form Post profiles ask of every answer."""

import json
import math
import time
from collections import Counter

import pytest
import requests

from tests.openid.provider import Provider
from tests.openid.relying_party import (
    ALWAYS,
    HASHES,
    PASSWORD,
    SECONDS,
    RelyingParty,
)
from valetkey.kernel.moment import seconds

PROFILE = {
    "name",
    "family_name",
    "given_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "gender",
    "birthdate",
    "zoneinfo",
    "locale",
    "updated_at",
}
SCOPES = {
    "profile": PROFILE,
    "email": {"email", "email_verified"},
    "address": {"address"},
    "phone": {"phone_number", "phone_number_verified"},
}


def about_the_person(rp: RelyingParty, tokens: dict[str, object]) -> dict[str, object]:
    """The claims where they belong: userinfo, or the ID token where nothing else was given."""
    if "access_token" in tokens:
        return rp.userinfo(str(tokens["access_token"]))
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    return claims


def test_responses_have_only_specified_members(op: Provider, rp: RelyingParty) -> None:
    answer = rp.authenticate(op.person())
    tokens = rp.tokens(answer)
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    assert set(claims) <= ALWAYS | HASHES
    if "code" in answer.said:
        code = answer.said["code"]
        counts = Counter(code)
        entropy = -sum(n / len(code) * math.log2(n / len(code)) for n in counts.values())
        assert len(code) * entropy > 128
    parameters = {"code", "id_token", "access_token", "token_type", "expires_in", "scope"}
    assert set(answer.said) <= parameters | {"state", "iss", "session_state", "uid"}


def test_userinfo_is_the_same_by_get_and_post(op: Provider, rp: RelyingParty) -> None:
    tokens = rp.tokens(rp.authenticate(op.person()))
    if "access_token" not in tokens:
        return
    access_token, claims = str(tokens["access_token"]), tokens["claims"]
    assert isinstance(claims, dict)
    in_form = requests.post(
        rp.at("userinfo_endpoint"), {"access_token": access_token}, timeout=SECONDS
    )
    assert in_form.status_code == requests.codes.ok
    assert rp.userinfo(access_token) == rp.userinfo(access_token, "POST") == in_form.json()
    assert in_form.json()["sub"] == claims["sub"]


@pytest.mark.parametrize("scope", [*SCOPES, "profile email address phone"])
def test_each_requested_scope_returns_its_claims_and_no_other_claims(
    op: Provider, rp: RelyingParty, scope: str
) -> None:
    tokens = rp.tokens(rp.authenticate(op.person(), scope=f"openid {scope}"))
    scope_claims = set().union(*(SCOPES[name] for name in scope.split()))
    claims, user_claims = tokens["claims"], about_the_person(rp, tokens)
    assert isinstance(claims, dict)
    assert scope_claims <= set(user_claims)
    if "access_token" in tokens:
        assert set(user_claims) == scope_claims | {"sub"}
        assert set(claims) <= ALWAYS | HASHES
    if "updated_at" in scope_claims:
        assert isinstance(user_claims["updated_at"], int)
        assert abs(user_claims["updated_at"] - time.time()) < 60 * 60 * 24
    if "address" in scope_claims:
        assert isinstance(user_claims["address"], dict)
    if "email_verified" in scope_claims:
        assert user_claims["email_verified"] is True


def test_the_order_of_scopes_does_not_matter(op: Provider, rp: RelyingParty) -> None:
    tokens = rp.tokens(rp.authenticate(op.person(), scope="email openid"))
    assert "email" in about_the_person(rp, tokens)


def test_reused_code_is_refused_and_its_tokens_are_revoked(op: Provider, rp: RelyingParty) -> None:
    answer = rp.authenticate(op.person(), scope="openid offline_access", prompt="consent")
    if "code" not in answer.said:
        return
    first = rp.redeem(answer.said["code"]).json()
    op.servers.clock.forward(seconds(30))
    again = rp.redeem(answer.said["code"])
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    gone = requests.get(
        rp.at("userinfo_endpoint"),
        headers={"authorization": f"Bearer {first['access_token']}"},
        timeout=SECONDS,
    )
    assert gone.status_code == requests.codes.unauthorized
    if "refresh_token" in first:
        assert rp.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"


def test_requested_single_claims_are_returned(op: Provider, rp: RelyingParty) -> None:
    where = "id_token" if rp.response_type == "id_token" else "userinfo"
    wish = json.dumps({where: {"name": {"essential": True}}})
    tokens = rp.tokens(rp.authenticate(op.person(), claims=wish))
    assert about_the_person(rp, tokens)["name"] == "Ada King Lovelace"


def test_refresh_returns_the_same_sub_and_is_refused_for_another_app(
    op: Provider, rp: RelyingParty
) -> None:
    if "code" not in rp.response_type.split():
        return
    answer = rp.authenticate(op.person(), scope="openid offline_access", prompt="consent")
    first = rp.tokens(answer)
    stranger = op.register(rp.response_type)
    stolen = stranger.refresh(str(first["refresh_token"]))
    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    op.servers.clock.forward(seconds(2))
    body = rp.refresh(str(first["refresh_token"])).json()
    before, token = first["claims"], str(body["access_token"])
    after = rp.check_id_token(body["id_token"], access_token=token, nonce=False)
    assert isinstance(before, dict)
    for name in ("iss", "sub", "aud", "auth_time"):
        assert after[name] == before[name]
    assert int(str(after["iat"])) > int(str(before["iat"]))
    assert rp.userinfo(token)["sub"] == before["sub"]


def test_pkce_with_a_wrong_verifier_is_refused(op: Provider, rp: RelyingParty) -> None:
    if "code" not in rp.response_type.split():
        return
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    parameters = {"code_challenge": challenge, "code_challenge_method": "S256"}
    code = rp.authenticate(op.person(), **parameters).said["code"]
    assert "id_token" in rp.redeem(code, code_verifier=verifier).json()
    code = rp.authenticate(op.person(), **parameters).said["code"]
    assert rp.redeem(code, code_verifier=verifier[::-1]).json()["error"] == "invalid_grant"


def test_denial_is_returned_in_the_same_way_as_an_approval(op: Provider, rp: RelyingParty) -> None:
    person = op.person()
    page = person.sign_in(rp.ask(person), "ada", PASSWORD)
    assert rp.receive(person.deny(page)).error == "access_denied"
