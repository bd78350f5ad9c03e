"""Every response type by every mode (OpenID Connect Core section 3, Multiple Response Types)."""

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest

from tests.authorization.endpoints.authorize.openid import (
    EVERYTHING,
    NONCE,
    Said,
    allowed,
    ask,
    asking,
    claims_of,
    payload,
    said,
)
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import Answer
from tests.support.visitors import API, ISSUER, run
from valetkey.authorization.claims.model import Declarations, DeclaredClaim
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.model.client import OpenIdRegistration, ProfileName
from valetkey.authorization.protocol.authorization_response import ResponseMode, ResponseType
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose import access_token
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import to_base64url

STATE = "\t\"><&\u0085\ufeff\ufffe\U0001f600%0d+ '`"
FRONT = [response_type for response_type in ResponseType if response_type is not ResponseType.CODE]
BROUGHT = {
    "code": {"code"},
    "token": {"access_token", "token_type", "expires_in", "scope", "uid"},
    "id_token": {"id_token"},
}


def half(text: str) -> str:
    return to_base64url(sha256(text.encode()).digest()[:16])


def brought(response_type: ResponseType) -> set[str]:
    """What comes beside state and issuer."""
    names = set().union(*(BROUGHT[word] for word in response_type.words))
    has_session = response_type is not ResponseType.TOKEN
    return names | ({"session_state"} if has_session else set())


@pytest.mark.parametrize("mode", ["", "query", "fragment", "form_post"])
@pytest.mark.parametrize("response_type", ResponseType)
def test_each_response_type_returns_exactly_what_it_names(
    tmp_path: Path, response_type: ResponseType, mode: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        browser = it.browser()
        if mode and not ResponseMode(mode).fits(response_type):
            response = said(await ask(browser, response_type=response_type, response_mode=mode))
            assert (response.way, response.fields["error"]) == ("fragment", "invalid_request")
            return
        parameters = {"response_type": response_type.value, "state": STATE}
        response = await allowed(
            it, browser, **parameters, **({"response_mode": mode} if mode else {})
        )
        usual = "query" if response_type is ResponseType.CODE else "fragment"
        assert response.way == (mode or usual)
        assert response.names == brought(response_type) | {"state", "iss"}
        assert response.fields["state"] == STATE
        await check(it, response_type, response)

    run(tmp_path, story)


async def check(it: Harness, response_type: ResponseType, response: Said) -> None:
    (session,) = await it.store.read(lambda tx: tx.sessions.live_of(1001, it.clock.now))  # type: ignore[arg-type]
    if response_type.has_id_token:
        claims = claims_of(it, response.fields["id_token"])
        hashes = {"s_hash": half(STATE)}
        if response_type.has_code:
            hashes["c_hash"] = half(response.fields["code"])
        if response_type.has_token:
            hashes["at_hash"] = half(response.fields["access_token"])
        assert {name: text for name, text in claims.items() if name.endswith("_hash")} == hashes
        assert (claims["nonce"], claims["auth_time"]) == (NONCE, NOON)
        assert (claims["sub"], claims["sid"]) == ("1001", session.id)
    if response_type.has_code:
        code = await payload(it, response.fields["code"])
        assert (code.nonce, code.methods, code.session_id) == (NONCE, ("pwd",), session.id)
    if response_type.has_token:
        keys = it.authorize.minter.keys.published(it.clock.now)
        token = access_token.verify(
            response.fields["access_token"], keys, issuer=ISSUER, audience=API, now=it.clock.now
        )
        assert (token.client_id, token.expires_at) == ("oidc1", NOON + 600)
        stored_grant = await it.store.read(lambda tx: tx.grants.find(token.grant_id or ""))
        assert stored_grant is not None
        assert (stored_grant.grant.grant_type, stored_grant.grant.refresh_print) == (
            "implicit",
            None,
        )
        assert (stored_grant.grant.sid, stored_grant.grant.methods) == (session.id, ("pwd",))
    told_of = await it.store.read(lambda tx: tx.participants.of_session(session.id))
    assert list(told_of) == ([] if response_type is ResponseType.TOKEN else ["oidc1"])


def test_order_of_response_type_values_does_not_matter(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        response = await allowed(it, it.browser(), response_type="token id_token code")
        assert response.names >= {"code", "id_token", "access_token"}

    run(tmp_path, story)


@pytest.mark.parametrize(
    "text", ["none", "code none", "code code", "id_token  token", "TOKEN", " "]
)
def test_unknown_response_type_is_refused_in_query_or_fragment(tmp_path: Path, text: str) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        response = said(await ask(it.browser(), response_type=text))
        assert response.fields["error"] == "unsupported_response_type"
        assert response.fields["state"] == "xyz"
        assert response.way == ("fragment" if "id_token" in text else "query")

    run(tmp_path, story)


@pytest.mark.parametrize("response_type", FRONT)
def test_front_channel_response_types_require_grant_and_profile(
    tmp_path: Path, response_type: ResponseType
) -> None:
    async def story(it: Harness) -> None:
        code_only = frozenset({"authorization_code"})
        only = OpenIdRegistration(response_types=("code", "token id_token"))
        await it.register(replace(EVERYTHING, id="c", grant_types=code_only))
        await it.register(replace(EVERYTHING, id="m", profile_name=ProfileName.MODERN))
        await it.register(replace(EVERYTHING, id="i", grant_types=frozenset({"implicit"})))
        await it.register(replace(EVERYTHING, id="o", openid=only))
        refused = {"c", "m"}
        if response_type.has_code:
            refused.add("i")
        if response_type is not ResponseType.ID_TOKEN_TOKEN:
            refused.add("o")
        for client_id in "cmio":
            answer = await ask(it.browser(), client_id=client_id, response_type=response_type)
            if client_id in refused:
                response = said(answer)
                assert (response.way, response.fields["error"]) == (
                    "fragment",
                    "unauthorized_client",
                )
                assert response.fields["iss"] == ISSUER
            else:
                assert 'id="sign-in"' in answer.body

    run(tmp_path, story)


@pytest.mark.parametrize("response_type", FRONT)
def test_az_13_an_id_token_through_the_browser_needs_a_nonce(
    tmp_path: Path, response_type: ResponseType
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        answer = await ask(it.browser(), response_type=response_type, nonce="-")
        if response_type.has_id_token:
            assert said(answer).fields["error"] == "invalid_request"
        else:
            assert 'id="sign-in"' in answer.body

    run(tmp_path, story)


def test_an_id_token_needs_the_scope_openid(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        response = said(await ask(it.browser(), response_type="id_token", scope="notes:read"))
        assert (response.way, response.fields["error"]) == ("fragment", "invalid_request")
        # By default it is asked for.
        response = await allowed(it, it.browser(), response_type="id_token", scope="-")
        assert "id_token" in response.names

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"prompt": "none"}, "login_required"),
        ({"scope": "openid notes:write"}, "invalid_scope"),
        ({"max_age": "soon"}, "invalid_request"),
        ({"id_token_hint": "e30.e30.e30"}, "invalid_request"),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ResponseMode)
def test_error_is_returned_in_the_requested_response_mode(
    tmp_path: Path, changed: dict[str, str], error: str, mode: ResponseMode
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        response = said(await ask(it.browser(), response_mode=mode.value, **changed))
        assert response.way == mode.value
        assert response.fields["error"] == error
        assert (response.fields["state"], response.fields["iss"]) == ("xyz", ISSUER)

    run(tmp_path, story)


@pytest.mark.parametrize("response_mode", ["web_message", "query.jwt", "FORM_POST", "form_post "])
def test_unknown_mode_is_refused_in_the_default_mode(tmp_path: Path, response_mode: str) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        for response_type, way in (("code", "query"), ("code id_token", "fragment")):
            parameters = {"response_type": response_type, "response_mode": response_mode}
            response = said(await ask(it.browser(), **parameters))
            assert (response.way, response.fields["error"]) == (way, "invalid_request")

    run(tmp_path, story)


@pytest.mark.parametrize("state", ["a\0b", "a\nb", "a\r\nb"], ids=repr)
def test_az_05_state_with_control_characters_is_refused_for_form_post(
    tmp_path: Path, state: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        response = said(await ask(it.browser(), response_mode="form_post", state=state))
        assert response.fields["error"] == "invalid_request"
        assert "state" not in response.names
        response = await allowed(it, it.browser(), state=state)
        assert response.fields["state"] == state

    run(tmp_path, story)


def test_form_has_one_script_posts_only_to_client_and_is_not_cached(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        nonces = set[str]()
        for _ in range(2):
            answer = await ask(it.browser(), response_mode="form_post", prompt="none")
            parts = answer.header("content-security-policy").split("; ")
            policy = {name: text for name, _, text in (part.partition(" ") for part in parts)}
            assert policy["form-action"] == "https://app.example"
            assert policy["default-src"] == "'none'"
            assert policy["frame-ancestors"] == "'none'"
            nonce = policy["script-src"].removeprefix("'nonce-").removesuffix("'")
            assert answer.body.count("<script") == 1
            assert f'<script nonce="{nonce}">' in answer.body
            assert 'id="continue"' in answer.body
            assert answer.header("cache-control") == "no-store"
            nonces.add(nonce)
        assert len(nonces) == 2

    run(tmp_path, story)


def test_64_parallel_hybrid_consents_issue_tokens_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        browser = it.browser()
        parameters = {"response_type": "code id_token token", "response_mode": "form_post"}
        page = await browser.sign_in(await ask(browser, **parameters))

        async def press() -> Answer:
            return await browser.allow(page)

        answers = await asyncio.gather(*(press() for _ in range(64)))
        won = [answer for answer in answers if 'action="https://app.example/cb"' in answer.body]
        assert len(won) == 1
        assert said(won[0]).names >= {"code", "id_token", "access_token"}
        assert {answer.status for answer in answers if answer is not won[0]} == {400}
        names = await it.events()
        assert names.count("code.issued") == names.count("access_token.issued") == 1
        assert await it.count("grants") == 1
        assert await it.count("participants") == 1

    run(tmp_path, story, database_url)


def test_sign_out_before_consent_issues_nothing(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        browser = it.browser()
        page = await browser.sign_in(await ask(browser, response_type="code id_token"))
        (session,) = await it.store.read(lambda tx: tx.sessions.live_of(1001, it.clock.now))  # type: ignore[arg-type]
        await it.store.write(lambda tx: tx.sessions.end(session.id, it.clock.now))
        answer = await browser.allow(page)
        assert 'id="sign-in"' in answer.body
        assert await it.count("participants") == 0
        assert "code.issued" not in await it.events()

    run(tmp_path, story, database_url)


def test_posted_request_keeps_state_and_nonce(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        browser = it.browser()
        parameters = asking(response_type="code id_token", response_mode="form_post", state=STATE)
        page = await browser.sign_in(
            await browser.follow(await browser.post("/oauth/authorize", parameters))
        )
        response = said(await browser.allow(page))
        assert response.fields["state"] == STATE
        assert claims_of(it, response.fields["id_token"])["nonce"] == NONCE

    run(tmp_path, story)


@pytest.mark.parametrize("mode", ["fragment", "form_post"])
def test_missing_client_encryption_key_is_returned_as_server_error(
    tmp_path: Path, mode: str
) -> None:
    async def story(it: Harness) -> None:
        encrypted = OpenIdRegistration(
            id_token_encrypted_response_alg="RSA-OAEP-256",
            id_token_encrypted_response_enc="A128GCM",
        )
        await it.register(replace(EVERYTHING, openid=encrypted))
        browser = it.browser()
        parameters = {"response_type": "code id_token", "response_mode": mode}
        page = await browser.sign_in(await ask(browser, **parameters))
        response = said(await browser.allow(page))
        assert (response.way, response.fields["error"]) == (mode, "server_error")
        assert response.fields["state"] == "xyz"
        assert not response.names & {"code", "id_token"}

    run(tmp_path, story)


@pytest.mark.parametrize("response_type", ["token", "code token", "code id_token token"])
def test_claims_above_eight_kibibytes_are_an_error_in_the_fragment(
    tmp_path: Path, response_type: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        places = (ClaimLocation.ACCESS_TOKEN, ClaimLocation.ID_TOKEN)
        large = [
            DeclaredClaim(f"c{number}", f"constant:{'x' * 1_000}", places) for number in range(9)
        ]

        def declare(tx: Transaction) -> None:
            Declarations.of(tx).hold_all()
            for claim in large:
                Declarations.of(tx).save_claim(claim, it.clock.now)

        def remove(tx: Transaction) -> bool:
            Declarations.of(tx).hold_all()
            return Declarations.of(tx).remove_claim(large[0].name)

        await it.write(declare)
        browser = it.browser()
        response = await allowed(it, browser, response_type=response_type)
        assert (response.way, response.fields["error"]) == ("fragment", "invalid_request")
        assert response.names.isdisjoint({"code", "access_token", "id_token"})
        assert await it.count("grants") == await it.count("consents") == 0
        assert await it.write(remove)
        response = await allowed(it, browser, response_type=response_type)
        assert "access_token" in response.names

    run(tmp_path, story)
