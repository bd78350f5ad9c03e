"""What the Basic, Implicit, Hybrid and Form Post profiles ask of every response type."""

import json
import math
import time
from collections import Counter
from urllib.parse import urlencode, urljoin

import pytest
import requests

from tests.openid.provider import Provider
from tests.openid.relying_party import (
    ALWAYS,
    HASHES,
    PASSWORD,
    REDIRECT_URI,
    SECONDS,
    RelyingParty,
    read_answer,
)
from valetkey.kernel.moment import seconds
from valetkey.testing.person import Page, Person

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


def asks_to_sign_in(page: Page) -> bool:
    return any(button.id == "sign-in" for button in page.buttons)


def about_the_person(rp: RelyingParty, tokens: dict[str, object]) -> dict[str, object]:
    """The claims where they belong: userinfo, or the ID token where nothing else was given."""
    if "access_token" in tokens:
        return rp.userinfo(str(tokens["access_token"]))
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    return claims


def test_the_whole_flow_is_right_to_the_byte(op: Provider, rp: RelyingParty) -> None:
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
    known = {"code", "id_token", "access_token", "token_type", "expires_in", "scope"}
    assert set(answer.said) <= known | {"state", "iss", "session_state", "uid"}


def test_a_request_without_response_type_is_told_so(op: Provider, rp: RelyingParty) -> None:
    page = rp.ask(op.person(), ("response_type", "response_mode"))
    if page.location:
        assert read_answer(page).error in {"invalid_request", "unsupported_response_type"}
    else:
        assert page.status == requests.codes.bad_request
        assert "response_type" in page.text


def test_userinfo_answers_get_and_post(op: Provider, rp: RelyingParty) -> None:
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


def test_a_nonce_is_needed_where_the_id_token_comes_by_the_browser(
    op: Provider, rp: RelyingParty
) -> None:
    answer = rp.authenticate(op.person(), ("nonce",))
    if "id_token" in rp.response_type.split():
        assert answer.error == "invalid_request"
    else:
        assert "nonce" not in rp.tokens(answer)["claims"]  # type: ignore[operator]


@pytest.mark.parametrize("scope", [*SCOPES, "profile email address phone"])
def test_a_scope_brings_its_claims_and_no_others(
    op: Provider, rp: RelyingParty, scope: str
) -> None:
    tokens = rp.tokens(rp.authenticate(op.person(), scope=f"openid {scope}"))
    wanted = set().union(*(SCOPES[name] for name in scope.split()))
    claims, said = tokens["claims"], about_the_person(rp, tokens)
    assert isinstance(claims, dict)
    assert wanted <= set(said)
    if "access_token" in tokens:
        assert set(said) == wanted | {"sub"}
        assert set(claims) <= ALWAYS | HASHES
    if "updated_at" in wanted:
        assert isinstance(said["updated_at"], int)
        assert abs(said["updated_at"] - time.time()) < 60 * 60 * 24
    if "address" in wanted:
        assert isinstance(said["address"], dict)
    if "email_verified" in wanted:
        assert said["email_verified"] is True


def test_the_order_of_scopes_does_not_matter(op: Provider, rp: RelyingParty) -> None:
    tokens = rp.tokens(rp.authenticate(op.person(), scope="email openid"))
    assert "email" in about_the_person(rp, tokens)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("display", "page"),
        ("display", "popup"),
        ("ui_locales", "se"),
        ("claims_locales", "se"),
        ("login_hint", "ada@example.com"),
        ("extra", "foobar"),
        ("acr_values", "1 2"),
    ],
)
def test_a_parameter_that_asks_for_nothing_we_must_give_does_no_harm(
    op: Provider, rp: RelyingParty, name: str, value: str
) -> None:
    tokens = rp.tokens(rp.authenticate(op.person(), **{name: value}))
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    assert "acr" in claims


def test_a_login_hint_is_written_into_the_form(op: Provider, rp: RelyingParty) -> None:
    page = rp.ask(op.person(), login_hint="ada@example.com")
    assert ("username", "ada@example.com") in page.forms[0].fields


def test_prompt_login_asks_again_and_says_when(op: Provider, rp: RelyingParty) -> None:
    person = op.person()
    before = rp.tokens(rp.authenticate(person))["claims"]
    op.servers.clock.forward(seconds(2))
    page = rp.ask(person, prompt="login")
    assert asks_to_sign_in(page)
    after = rp.tokens(rp.go_through(person, page))["claims"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["auth_time"] > before["auth_time"]
    assert after["sub"] == before["sub"]


def test_prompt_none_without_a_session_is_login_required(op: Provider, rp: RelyingParty) -> None:
    page = rp.ask(op.person(), prompt="none")
    answer = rp.receive(page)
    assert answer.error == "login_required"
    assert not set(answer.said) & {"code", "id_token", "access_token"}


def test_prompt_none_with_a_session_brings_the_same_person_and_time(
    op: Provider, rp: RelyingParty
) -> None:
    person = op.person()
    first = rp.tokens(rp.authenticate(person))
    op.servers.clock.forward(seconds(2))
    before, hint = first["claims"], str(first["id_token"])
    for more in ({}, {"id_token_hint": hint}, {"max_age": "10000"}):
        answer = rp.receive(rp.ask(person, prompt="none", **more))
        after = rp.tokens(answer)["claims"]
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        assert (after["sub"], after["auth_time"]) == (before["sub"], before["auth_time"])


@pytest.mark.parametrize("max_age", ["0", "1"])
def test_a_sign_in_older_than_max_age_is_made_again(
    op: Provider, rp: RelyingParty, max_age: str
) -> None:
    person = op.person()
    before = rp.tokens(rp.authenticate(person))["claims"]
    op.servers.clock.forward(seconds(2))
    page = rp.ask(person, max_age=max_age)
    assert asks_to_sign_in(page)
    after = rp.tokens(rp.go_through(person, page))["claims"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["auth_time"] > before["auth_time"]


def test_an_id_token_hint_of_somebody_else_is_not_answered_for_this_person(
    op: Provider, rp: RelyingParty
) -> None:
    op.servers.register_user(name := f"bob{time.monotonic_ns()}", PASSWORD)
    other = op.person()
    page = other.sign_in(rp.ask(other), name, PASSWORD)
    hint = str(rp.tokens(rp.receive(other.allow(page)))["id_token"])
    person = op.person()
    rp.tokens(rp.authenticate(person))
    answer = rp.receive(rp.ask(person, prompt="none", id_token_hint=hint))
    assert answer.error == "login_required"


def test_a_code_works_once_and_takes_back_what_it_gave(op: Provider, rp: RelyingParty) -> None:
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


def test_an_address_that_is_not_registered_never_gets_an_answer(
    op: Provider, rp: RelyingParty
) -> None:
    page = rp.ask(op.person(), redirect_uri="https://rp.example/another")
    assert not page.location
    assert page.status == requests.codes.bad_request
    assert page.url.startswith(rp.at("authorization_endpoint"))
    assert "redirect_uri" in page.text


def test_a_request_without_redirect_uri_never_gets_an_answer_elsewhere(
    op: Provider, rp: RelyingParty
) -> None:
    page = rp.ask(op.person(), ("redirect_uri",))
    assert not page.location or page.location.startswith(REDIRECT_URI)


def test_the_request_may_come_by_post(op: Provider, rp: RelyingParty) -> None:
    person, form = op.person(), rp.request()
    endpoint = rp.at("authorization_endpoint")
    response = requests.post(endpoint, form, timeout=SECONDS, allow_redirects=False)
    assert response.status_code == requests.codes.see_other
    page = person.open(urljoin(endpoint, response.headers["location"]))
    assert rp.tokens(rp.go_through(person, page))["claims"]


def test_single_claims_asked_for_are_given(op: Provider, rp: RelyingParty) -> None:
    where = "id_token" if rp.response_type == "id_token" else "userinfo"
    wish = json.dumps({where: {"name": {"essential": True}}})
    tokens = rp.tokens(rp.authenticate(op.person(), claims=wish))
    assert about_the_person(rp, tokens)["name"] == "Ada King Lovelace"


def test_acr_values_we_support_are_confirmed(op: Provider, rp: RelyingParty) -> None:
    supported = rp.discovered["acr_values_supported"]
    assert isinstance(supported, list)
    claims = rp.tokens(rp.authenticate(op.person(), acr_values=" ".join(supported)))["claims"]
    assert isinstance(claims, dict)
    assert claims["acr"] in supported


def test_a_refresh_brings_the_same_person_and_belongs_to_its_app(
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


def test_proof_of_possession_of_the_request_is_taken(op: Provider, rp: RelyingParty) -> None:
    if "code" not in rp.response_type.split():
        return
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    asked = {"code_challenge": challenge, "code_challenge_method": "S256"}
    code = rp.authenticate(op.person(), **asked).said["code"]
    assert "id_token" in rp.redeem(code, code_verifier=verifier).json()
    code = rp.authenticate(op.person(), **asked).said["code"]
    assert rp.redeem(code, code_verifier=verifier[::-1]).json()["error"] == "invalid_grant"


def test_a_no_is_told_in_the_same_way_as_a_yes(op: Provider, rp: RelyingParty) -> None:
    person = op.person()
    page = person.sign_in(rp.ask(person), "ada", PASSWORD)
    assert rp.receive(person.deny(page)).error == "access_denied"


def test_a_person_who_follows_an_address_sees_the_provider_first(
    op: Provider, rp: RelyingParty
) -> None:
    page = Person(op.servers.auth_url).open(
        f"{rp.at('authorization_endpoint')}?{urlencode(rp.request())}"
    )
    assert "/oauth/sign-in" in page.url
    assert {"username", "password"} <= {name for name, _ in page.forms[0].fields}
