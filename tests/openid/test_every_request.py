"""What the Basic, Implicit, Hybrid and Form Post profiles ask of every request and parameter."""

import time
from urllib.parse import urlencode, urljoin

import pytest
import requests

from tests.openid.provider import Provider
from tests.openid.relying_party import (
    PASSWORD,
    REDIRECT_URI,
    SECONDS,
    RelyingParty,
    read_answer,
)
from valetkey.kernel.moment import seconds
from valetkey.testing.browser import Page, UserAgent


def asks_to_sign_in(page: Page) -> bool:
    return any(button.id == "sign-in" for button in page.buttons)


def test_request_without_response_type_is_refused(op: Provider, rp: RelyingParty) -> None:
    page = rp.ask(op.person(), ("response_type", "response_mode"))
    if page.location:
        assert read_answer(page).error in {"invalid_request", "unsupported_response_type"}
    else:
        assert page.status == requests.codes.bad_request
        assert "response_type" in page.text


def test_nonce_is_required_if_the_authorization_response_has_an_id_token(
    op: Provider, rp: RelyingParty
) -> None:
    answer = rp.authenticate(op.person(), ("nonce",))
    if "id_token" in rp.response_type.split():
        assert answer.error == "invalid_request"
    else:
        assert "nonce" not in rp.tokens(answer)["claims"]  # type: ignore[operator]


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
def test_request_with_optional_or_unknown_parameter_succeeds(
    op: Provider, rp: RelyingParty, name: str, value: str
) -> None:
    tokens = rp.tokens(rp.authenticate(op.person(), **{name: value}))
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    assert "acr" in claims


def test_a_login_hint_is_written_into_the_form(op: Provider, rp: RelyingParty) -> None:
    page = rp.ask(op.person(), login_hint="ada@example.com")
    assert ("username", "ada@example.com") in page.forms[0].fields


def test_prompt_login_requires_sign_in_and_renews_auth_time(op: Provider, rp: RelyingParty) -> None:
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


def test_prompt_none_with_a_session_returns_the_same_sub_and_auth_time(
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
def test_sign_in_older_than_max_age_is_repeated(
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


def test_id_token_hint_of_another_user_is_not_answered_for_this_user(
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


def test_unregistered_redirect_uri_is_refused_without_redirect(
    op: Provider, rp: RelyingParty
) -> None:
    page = rp.ask(op.person(), redirect_uri="https://rp.example/another")
    assert not page.location
    assert page.status == requests.codes.bad_request
    assert page.url.startswith(rp.at("authorization_endpoint"))
    assert "redirect_uri" in page.text


def test_request_without_redirect_uri_redirects_to_the_registered_one_at_most(
    op: Provider, rp: RelyingParty
) -> None:
    page = rp.ask(op.person(), ("redirect_uri",))
    assert not page.location or page.location.startswith(REDIRECT_URI)


def test_request_by_post_is_accepted(op: Provider, rp: RelyingParty) -> None:
    person, form = op.person(), rp.request()
    endpoint = rp.at("authorization_endpoint")
    response = requests.post(endpoint, form, timeout=SECONDS, allow_redirects=False)
    assert response.status_code == requests.codes.see_other
    page = person.open(urljoin(endpoint, response.headers["location"]))
    assert rp.tokens(rp.go_through(person, page))["claims"]


def test_supported_acr_values_are_returned_in_acr(op: Provider, rp: RelyingParty) -> None:
    supported = rp.discovered["acr_values_supported"]
    assert isinstance(supported, list)
    claims = rp.tokens(rp.authenticate(op.person(), acr_values=" ".join(supported)))["claims"]
    assert isinstance(claims, dict)
    assert claims["acr"] in supported


def test_authorization_request_without_a_session_leads_to_the_sign_in_page(
    op: Provider, rp: RelyingParty
) -> None:
    page = UserAgent(op.servers.auth_url).open(
        f"{rp.at('authorization_endpoint')}?{urlencode(rp.request())}"
    )
    assert "/oauth/sign-in" in page.url
    assert {"username", "password"} <= {name for name, _ in page.forms[0].fields}
