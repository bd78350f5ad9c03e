"""A parameter without a value counts as omitted, at every endpoint (RFC 6749 3.1 and 3.2)."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.support.asgi import Answer, basic
from tests.support.harness import CALLBACK, SECRET, Harness, run
from tests.support.plain_browser import PASSWORD
from valetkey.authorization.model.client import ClientType, OpenIdRegistration
from valetkey.authorization.protocol.authorization_request import PARAMETERS, UNSUPPORTED
from valetkey.authorization.protocol.client_authentication import PARAMETERS as CREDENTIALS

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
_NAMES = {
    *(name for name in PARAMETERS if name != "resource"),
    *UNSUPPORTED,
    *CREDENTIALS,
    "access_token",
    "actor_token",
    "actor_token_type",
    "assertion",
    "audience",
    "code",
    "code_verifier",
    "device_code",
    "grant_type",
    "logout_hint",
    "password",
    "post_logout_redirect_uri",
    "refresh_token",
    "requested_token_type",
    "subject_token",
    "subject_token_type",
    "token",
    "token_type_hint",
    "username",
}


def _with_empty(form: dict[str, str]) -> str:
    """Return the form with every other parameter of the protocol, without a value."""
    others = [name for name in _NAMES if not form.get(name)]
    empty = "&".join(f"{name}=" if number % 2 else name for number, name in enumerate(others))
    form = {name: value for name, value in form.items() if value}
    return f"{empty}&{urlencode(form)}&resource="


async def _send(it: Harness, path: str, authorization: str = "", **form: str) -> Answer:
    body = _with_empty(form).encode()
    return await it.call(
        "POST", path, body, "application/x-www-form-urlencoded", authorization=authorization
    )


async def _public(it: Harness) -> None:
    await it.client(
        "cli",
        type=ClientType.PUBLIC,
        grant_types=("authorization_code", "refresh_token", DEVICE),
    )


@pytest.mark.parametrize("authorization", ["", basic("cli", ""), basic("", "")])
def test_public_client_may_send_every_parameter_empty(tmp_path: Path, authorization: str) -> None:
    async def story(it: Harness) -> None:
        await _public(it)
        named = {} if authorization == basic("cli", "") else {"client_id": "cli"}
        code = await it.code("cli", code_challenge=CHALLENGE)
        proof = {"code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
        parameters = {"grant_type": "authorization_code", **proof, **named}
        tokens = await _send(it, "/oauth/token", authorization, **parameters)
        assert tokens.status == 200, tokens.body
        refresh = {"grant_type": "refresh_token", "refresh_token": tokens.text("refresh_token")}
        renewed = await _send(it, "/oauth/token", authorization, **refresh, **named)
        assert renewed.status == 200, renewed.body
        begun = await _send(it, "/oauth/device-authorization", authorization, **named)
        assert begun.status == 200, begun.body
        ended = await _send(
            it, "/oauth/revoke", authorization, token=renewed.text("access_token"), **named
        )
        assert ended.status == 200, ended.body

    run(tmp_path, story)


def test_confidential_client_may_send_every_parameter_empty(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("authorization_code", "client_credentials", "password"))
        await it.password(PASSWORD)
        credentials = {"client_id": "web", "client_secret": SECRET}
        code = await it.code("web")
        for form in (
            {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK},
            {"grant_type": "client_credentials"},
            {"grant_type": "password", "username": "ada", "password": PASSWORD},
        ):
            answer = await _send(it, "/oauth/token", **form, **credentials)
            assert answer.status == 200, answer.body
            in_header = basic("web", SECRET)
            body = {"token": answer.text("access_token")}
            introspection = await _send(it, "/oauth/introspect", in_header, **body)
            assert introspection.json["active"] is True, introspection.body

    run(tmp_path, story)


def test_empty_values_do_not_replace_required_parameters(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await _public(it)
        code = await it.code("cli", code_challenge=CHALLENGE)
        parameters = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        (await _send(it, "/oauth/token", client_id="web", **parameters)).refused(
            401, "invalid_client"
        )
        (await _send(it, "/oauth/token", basic("web", ""), **parameters)).refused(
            401, "invalid_client"
        )
        (await _send(it, "/oauth/token", **parameters)).refused(401, "invalid_client")
        for twice in (b"client_id=cli&client_id=", b"client_secret&client_secret=&client_id=cli"):
            form = "application/x-www-form-urlencoded"
            (await it.call("POST", "/oauth/token", twice, form)).refused(400, "invalid_request")
        # A redirect URI that the request named is required here, and empty is none.
        parameters |= {"redirect_uri": "", "code_verifier": VERIFIER}
        (await _send(it, "/oauth/token", client_id="cli", **parameters)).refused(
            400, "invalid_grant"
        )

    run(tmp_path, story)


def test_authorization_and_logout_ignore_empty_parameters(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        bye = "https://app.example/bye"
        registration = OpenIdRegistration(post_logout_redirect_uris=(bye,))
        await it.client("web", openid=registration)
        browser = it.browser(host="localhost:8400", scheme="http")
        query = _with_empty({"response_type": "code", "client_id": "web", "state": "x"})
        for answer in (
            await browser.send("GET", f"/oauth/authorize?{query}"),
            await browser.follow(await browser.send("POST", "/oauth/authorize", query.encode())),
        ):
            page = await browser.follow(answer)
            assert (page.status, 'id="sign-in"' in page.body) == (200, True), page.body
        leave = _with_empty({"client_id": "web", "post_logout_redirect_uri": bye})
        left = await browser.send("GET", f"/oauth/logout?{leave}")
        assert left.location == bye, left
        posted = await browser.send("POST", "/oauth/logout", leave.encode())
        assert (await browser.follow(posted)).location == bye, posted

    run(tmp_path, story)


def test_userinfo_ignores_an_empty_token_in_the_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=("openid",))
        token = (await it.tokens("web", "openid")).text("access_token")
        answer = await _send(it, "/oauth/userinfo?access_token=", f"Bearer {token}")
        assert answer.status == 200, answer.body

    run(tmp_path, story)


def test_record_of_a_refusal_says_that_the_client_has_no_secret(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _public(it)
        parameters = {"client_id": "cli", "client_secret": "x", "grant_type": "refresh_token"}
        answer = await it.post("/oauth/token", {**parameters, "refresh_token": "none"})
        answer.refused(401, "invalid_client")
        await it.refusals_recorded()
        decision = await it.read(lambda tx: tx.decisions.find(answer.text("reference")))
        assert decision is not None
        values = decision.check, decision.expected, decision.received
        assert values == ("client.secret.method", "none", "a client secret")

    run(tmp_path, story)
