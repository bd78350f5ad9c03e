"""What the parameters of OpenID Connect change (Core sections 3.1.2.1, 5.5 and 11)."""

import re
from pathlib import Path

import pytest

from tests.authorization.endpoints.authorize.openid import (
    EVERYTHING,
    ask,
    asks_whether,
    asks_who,
    begin,
    claims_of,
    id_token,
    payload,
    said,
    wish,
)
from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.protocol.claims import Acr
from valetkey.authorization.protocol.logout import session_state
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import days, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

ACR = Acr.PASSWORD.value


def test_prompt_none_keeps_the_auth_time_of_the_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        it.clock.forward(minutes(5))
        claims = claims_of(it, await id_token(it, alice, prompt="none", nonce="second"))
        assert claims["auth_time"] == NOON
        response = said(await ask(alice, prompt="none", max_age="10000", nonce="third"))
        assert (await payload(it, response.fields["code"])).auth_time == NOON

    run(tmp_path, story)


@pytest.mark.parametrize("changed", [{"prompt": "login"}, {"max_age": "0"}, {"max_age": "1"}])
def test_az_09_repeated_sign_in_updates_auth_time_and_keeps_the_session(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        before = claims_of(it, await id_token(it, alice, nonce="second"))
        it.clock.forward(1)
        page = await ask(alice, nonce="third", response_type="id_token", **changed)
        assert asks_who(page)
        response = said(await alice.sign_in(page))
        after = claims_of(it, response.fields["id_token"])
        assert after["auth_time"] == NOON + 1
        assert (after["sid"], after["sub"]) == (before["sid"], before["sub"])

    run(tmp_path, story)


def test_az_10_registered_default_max_age_applies_without_max_age(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        short = replace(EVERYTHING, openid=OpenIdRegistration(default_max_age=60))
        alice = await begin(it)
        await it.change(short)
        it.clock.forward(59)
        assert "code" in said(await ask(alice, nonce="2")).names
        it.clock.forward(1)
        assert asks_who(await ask(alice, nonce="3"))
        assert "code" in said(await ask(alice, nonce="4", max_age="3600")).names

    run(tmp_path, story)


def test_prompts_can_be_combined(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        page = await ask(alice, prompt="login consent", nonce="2")
        assert asks_who(page)
        page = await alice.sign_in(page)
        assert asks_whether(page)
        assert "code" in said(await alice.allow(page)).names
        page = await ask(alice, prompt="select_account", nonce="3")
        assert asks_who(page)

    run(tmp_path, story)


def test_az_11_expired_id_token_is_accepted_as_hint(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        hint = await id_token(it, alice, nonce="2")
        it.clock.forward(days(2))
        page = await ask(alice, id_token_hint=hint, nonce="3")
        assert asks_who(page)  # the session did not last so long
        assert "code" in said(await alice.sign_in(page)).names
        response = said(await ask(alice, id_token_hint=hint, prompt="none", nonce="4"))
        assert "code" in response.names

    run(tmp_path, story)


def test_az_11_sign_in_of_another_user_than_the_hinted_one_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        hint = await id_token(it, alice, nonce="2")
        bob = it.browser()
        page = await bob.sign_in(await ask(bob, nonce="3"), "bob")
        await bob.allow(page)
        response = said(await ask(bob, id_token_hint=hint, prompt="none", nonce="4"))
        assert response.fields["error"] == "login_required"
        page = await ask(bob, id_token_hint=hint, nonce="5")
        assert asks_who(page)
        # Bob again: nothing is given for him, and he is not asked for ever.
        response = said(await bob.sign_in(page, "bob"))
        assert response.fields["error"] == "login_required"
        page = await ask(bob, id_token_hint=hint, nonce="6")
        response = said(await bob.sign_in(page))
        assert (await payload(it, response.fields["code"])).uid == ALICE.uid

    run(tmp_path, story)


def test_az_11_id_token_hint_must_be_issued_to_this_client(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        await it.register(replace(EVERYTHING, id="other1"))
        good = await id_token(it, alice, nonce="2")
        claims, now = claims_of(it, good), it.clock.now
        ours, theirs = it.authorize.minter.keys.current(now), SigningKey.generate(Algorithm.ES256)
        others = await id_token(it, alice, client_id="other1", nonce="3")
        twisted = {
            "another client's": others,
            "another key": jwt.sign(claims, theirs, typ="JWT"),
            "another issuer": jwt.sign({**claims, "iss": "https://evil.test"}, ours, typ="JWT"),
            "an access token": jwt.sign(claims, ours, typ="at+jwt"),
            "a logout token": jwt.sign(claims, ours, typ="logout+jwt"),
            "without subject": jwt.sign({**claims, "sub": ""}, ours, typ="JWT"),
            "unsigned": f"eyJhbGciOiJub25lIn0.{good.split('.')[1]}.",
            "changed": good[:-6] + "AAAAAA",
            "cut": good.rpartition(".")[0],
            "no token": "x",
            "long": "x" * 6_001,
        }
        for name, hint in twisted.items():
            for prompt in ("none", "login"):
                response = said(await ask(alice, id_token_hint=hint, prompt=prompt, nonce="4"))
                assert response.fields["error"] == "invalid_request", name
        assert "code" in said(await ask(alice, id_token_hint=good, nonce="4")).names

    run(tmp_path, story)


def test_openid_cannot_be_unticked(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        alice = it.browser()
        page = await alice.sign_in(await ask(alice, scope="openid email"))
        boxes = re.findall(r'<input type="checkbox"[^>]*?value="(\w+)"', page.body)
        assert boxes == ["email"]
        response = said(await alice.allow(page, scope=[]))
        assert (await payload(it, response.fields["code"])).scope == "openid"

    run(tmp_path, story)


def test_offline_access_is_ignored_if_no_refresh_token_can_be_issued(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        await it.register(replace(EVERYTHING, id="o", grant_types=frozenset({"implicit"})))
        for client_id, response_type, shown in (
            ("oidc1", "code", True),
            ("oidc1", "code id_token", True),
            ("oidc1", "id_token", False),
            ("o", "id_token token", False),
        ):
            alice = it.browser()
            parameters = {
                "client_id": client_id,
                "response_type": response_type,
                "prompt": "consent",
            }
            parameters |= {"nonce": response_type, "scope": "openid offline_access"}
            page = await alice.sign_in(await ask(alice, **parameters))
            assert ('value="offline_access"' in page.body) is shown
            response = said(await alice.allow(page))
            assert "error" not in response.names

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("request", "invalid_request_object"),
        ("request_uri", "request_uri_not_supported"),
        ("registration", "registration_not_supported"),
    ],
)
def test_unsupported_parameters_have_their_own_errors(
    tmp_path: Path, name: str, error: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        response = said(await ask(it.browser(), response_mode="form_post", **{name: "x"}))
        assert (response.way, response.fields["error"]) == ("form_post", error)

    run(tmp_path, story)


def test_display_parameters_are_accepted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        more = {"display": "popup", "ui_locales": "fr-CA fr", "claims_locales": "se", "foo": "bar"}
        assert "code" in said(await ask(alice, nonce="2", **more)).names

    run(tmp_path, story)


def test_requested_subject_is_compared_with_the_pairwise_subject(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        pairwise = OpenIdRegistration(subject_type="pairwise", sector="app.example")
        await it.register(replace(EVERYTHING, openid=pairwise))
        alice = it.browser()
        hint = await id_token(it, alice)
        subject = claims_of(it, hint)["sub"]
        assert subject != str(ALICE.uid)
        for name, value, expected in (
            ("id_token_hint", hint, "code"),
            ("claims", wish({"sub": {"value": subject}}), "code"),
            ("claims", wish({"sub": {"value": str(ALICE.uid)}}), "error"),
        ):
            parameters = {name: value, "nonce": f"{name}{expected}"}
            response = said(await ask(alice, prompt="none", **parameters))
            assert expected in response.names

    run(tmp_path, story)


def test_session_state_is_computed_from_the_browser_state_cookie(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        states = set[str]()
        for nonce in ("2", "3"):
            response = said(await ask(alice, nonce=nonce))
            state = response.fields["session_state"]
            salt = state.partition(".")[2]
            mark = alice.cookies["__Host-browser-state"]
            assert state == session_state("oidc1", "https://app.example", mark, salt)
            states.add(state)
        assert len(states) == 2
        await it.register(replace(EVERYTHING, id="plain1", scope=Scope.of("notes:read")))
        page = await ask(alice, client_id="plain1", scope="notes:read", nonce="4")
        assert "session_state" not in said(await alice.allow(page)).names

    run(tmp_path, story)


def test_id_token_hint_without_session_requires_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        hint = await id_token(it, alice, nonce="2")
        fresh = it.browser()
        response = said(await ask(fresh, id_token_hint=hint, prompt="none", nonce="3"))
        assert response.fields["error"] == "login_required"
        assert asks_who(await ask(fresh, id_token_hint=hint, nonce="3"))

    run(tmp_path, story)
