"""npm openid-client signs people in by OpenID Connect, with every check that it knows."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.clients.node.library import Script
from tests.clients.node.relying import App
from tests.openid.provider import Provider, provider
from tests.support.wait import CEILING, wait_until
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.secret import from_base64url

METHODS = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)
BACK = "https://rp.example/bye"


@pytest.fixture(scope="module")
def script(node: str) -> Iterator[Script]:
    """The library, waiting to be asked."""
    with Script(node, "openid.mjs") as library:
        yield library


@pytest.fixture(scope="module")
def op(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A provider where everybody may register."""
    with provider(tmp_path_factory.mktemp("op")) as openid_provider:
        yield openid_provider


def key(script: Script, op: Provider, kid: str, alg: str, use: str) -> dict[str, object]:
    """A key set with one key that the library made, and whose private half it keeps."""
    made = App(script, op).step("key", kid=kid, alg=alg, use=use)
    return {"jwks": {"keys": [made.said]}}


def is_ada(claims: object) -> None:
    """Who is described is Ada."""
    assert isinstance(claims, dict)
    assert (claims["given_name"], claims["family_name"]) == ("Ada", "Lovelace")


def test_the_provider_is_discovered(script: Script, op: Provider) -> None:
    app = App.register(script, op)
    metadata = app.step("metadata")
    assert metadata["issuer"] == op.servers.auth_url
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    methods = metadata["token_endpoint_auth_methods_supported"]
    assert isinstance(methods, list)
    assert set(METHODS) <= set(methods)


@pytest.mark.parametrize("method", METHODS)
def test_a_code_is_redeemed_by_every_method_and_renewed(
    method: str, node: str, tmp_path: Path, database_url: str
) -> None:
    with provider(tmp_path, database_url) as op, Script(node, "openid.mjs") as script:
        more: dict[str, object] = {}
        keys: dict[str, object] = {}
        if method == "private_key_jwt":
            more, keys = {"signs": "mine"}, key(script, op, "mine", "ES256", "sig")
        app = App.register(script, op, more, token_endpoint_auth_method=method, **keys)
        assert app.client["token_endpoint_auth_method"] == method
        tokens = app.sign_in()
        claims = tokens["claims"]
        assert isinstance(claims, dict)
        assert (claims["iss"], claims["aud"]) == (op.servers.auth_url, app.client["client_id"])
        is_ada(app.step("userinfo", token=tokens["access_token"], subject=claims["sub"]).said)
        renewed = app.step("refresh", token=tokens["refresh_token"])
        again = renewed["claims"]
        assert isinstance(again, dict)
        assert (again["sub"], again["auth_time"]) == (claims["sub"], claims["auth_time"])
        assert renewed["access_token"] != tokens["access_token"]


@pytest.mark.parametrize("mode", ["fragment", "form_post"])
@pytest.mark.parametrize("response_type", ["code id_token", "code id_token token"])
def test_hybrid_flow_succeeds(script: Script, op: Provider, response_type: str, mode: str) -> None:
    app = App.register(
        script,
        op,
        response_types=[response_type],
        grant_types=["authorization_code", "implicit", "refresh_token"],
    )
    tokens = app.sign_in(response_type=response_type, response_mode=mode)
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    is_ada(app.step("userinfo", token=tokens["access_token"], subject=claims["sub"]).said)


@pytest.mark.parametrize("mode", ["fragment", "form_post"])
def test_implicit_flow_succeeds(script: Script, op: Provider, mode: str) -> None:
    app = App.register(script, op, response_types=["id_token"], grant_types=["implicit"])
    arrived = app.arrive(op.person(), scope="openid profile", response_mode=mode)
    claims = app.step("implicit", **arrived).said
    # Without an access token there is no other place for them (Core 5.4).
    is_ada(claims)


def test_code_flow_by_form_post_succeeds(script: Script, op: Provider) -> None:
    app = App.register(script, op)
    arrived = app.arrive(op.person(), response_mode="form_post")
    assert "posted" in arrived
    assert app.step("finish", **arrived)["id_token"]


def test_response_with_another_nonce_is_rejected(script: Script, op: Provider) -> None:
    """The library's checks are on: what it takes from us, it has judged."""
    app = App.register(script, op)
    arrived = app.arrive(op.person())
    result = app.step("finish", **{**arrived, "nonce": "another"})
    assert "nonce" in str(result.problem["message"])


@pytest.mark.parametrize("alg", ["ES256", "RS256", "HS256"])
def test_flow_with_signed_responses_succeeds(script: Script, op: Provider, alg: str) -> None:
    metadata = {"id_token_signed_response_alg": alg}
    # The library knows HMAC with its secret for ID tokens, and for nothing else.
    if alg != "HS256":
        metadata["userinfo_signed_response_alg"] = alg
    app = App.register(script, op, None, **metadata)
    tokens = app.sign_in()
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    is_ada(app.step("userinfo", token=tokens["access_token"], subject=claims["sub"]).said)


@pytest.mark.parametrize("enc", ["A128CBC-HS256", "A128GCM", "A256GCM"])
@pytest.mark.parametrize("alg", ["RSA-OAEP-256", "ECDH-ES"])
def test_flow_with_encrypted_responses_succeeds(
    script: Script, op: Provider, alg: str, enc: str
) -> None:
    kid = f"{alg}-{enc}"
    app = App.register(
        script,
        op,
        {"decrypts": kid, "encs": [enc]},
        id_token_encrypted_response_alg=alg,
        id_token_encrypted_response_enc=enc,
        userinfo_signed_response_alg="ES256",
        userinfo_encrypted_response_alg=alg,
        userinfo_encrypted_response_enc=enc,
        **key(script, op, kid, alg, "enc"),
    )
    tokens = app.sign_in()
    assert str(tokens["id_token"]).count(".") == 4
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    is_ada(app.step("userinfo", token=tokens["access_token"], subject=claims["sub"]).said)


def test_signing_out_at_the_app_signs_out_at_the_provider(script: Script, op: Provider) -> None:
    hears = str(App(script, op).step("listen")["url"])
    app = App.register(
        script,
        op,
        post_logout_redirect_uris=[BACK],
        backchannel_logout_uri=hears,
        backchannel_logout_session_required=True,
    )
    person = op.person()
    tokens = app.sign_in(person)
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    out = app.step("out", back=BACK, state="s", hint=tokens["id_token"])
    page = person.open(str(out["url"]))
    assert not page.location, "nobody was asked"
    page = person.submit(page, "sign-out")
    assert page.location == f"{BACK}?state=s", page.text
    heard = _heard(app)
    assert [(token["sub"], token["sid"]) for token in heard] == [(claims["sub"], claims["sid"])]
    assert heard[0]["events"] == {"http://schemas.openid.net/event/backchannel-logout": {}}
    begun = app.step("begin", more={"prompt": "none"})
    assert person.open(str(begun["url"])).redirect_parameters["error"] == "login_required"


def test_registration_is_read_changed_and_deleted(script: Script, op: Provider) -> None:
    app = App.register(script, op, client_name="Before")
    address = str(app.client["registration_client_uri"])
    bearer = {"authorization": f"Bearer {app.client['registration_access_token']}"}
    shown = requests.get(address, headers=bearer, timeout=60).json()
    assert shown["client_name"] == "Before"
    ours = ("client_id_issued_at", "client_secret_expires_at")
    own = ("registration_client_uri", "registration_access_token")
    metadata = {name: value for name, value in shown.items() if name not in ours + own}
    changed = requests.put(
        address, json={**metadata, "client_name": "After"}, headers=bearer, timeout=60
    )
    assert (changed.status_code, changed.json()["client_name"]) == (200, "After")
    assert app.sign_in()["id_token"]
    if "registration_access_token" in changed.json():
        bearer["authorization"] = f"Bearer {changed.json()['registration_access_token']}"
    assert requests.delete(address, headers=bearer, timeout=60).status_code == 204
    arrived = app.step("begin")
    assert op.person().open(str(arrived["url"])).status == 400


@pytest.mark.parametrize("alg", [Algorithm.ES256, Algorithm.RS256])
def test_client_with_cached_keys_fetches_the_new_ones_after_rotation(
    script: Script, op: Provider, alg: Algorithm
) -> None:
    app = App.register(script, op, id_token_signed_response_alg=alg.value)
    before = app.sign_in()
    old_keys = _served(op)
    _rotate(op, alg)
    wait_until(lambda: _served(op) != old_keys, "the server does not hear of it")
    after = app.sign_in()
    assert _kid(before["id_token"]) != _kid(after["id_token"])


def test_userinfo_contains_only_claims_of_the_requested_scope(script: Script, op: Provider) -> None:
    app = App.register(script, op)
    tokens = app.sign_in(scope="openid email")
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    userinfo = app.step("userinfo", token=tokens["access_token"], subject=claims["sub"]).said
    assert set(userinfo) == {"sub", "email", "email_verified"}


def _heard(app: App) -> list[dict[str, object]]:
    def tokens() -> list[dict[str, object]]:
        logout_tokens = app.step("heard")["tokens"]
        assert isinstance(logout_tokens, list)
        return logout_tokens

    return wait_until(tokens, "nobody told the app")


def _served(op: Provider) -> bytes:
    return requests.get(f"{op.servers.auth_url}/oauth/jwks", timeout=CEILING).content


def _rotate(op: Provider, algorithm: Algorithm) -> None:
    """As `valetkey key rotate --now` does, in another process."""
    servers = op.servers

    async def work() -> None:
        foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
        try:
            await foundation.keys.rotate(
                servers.clock.now(), at_once=True, algorithm=algorithm, done_by=SYSTEM
            )
        finally:
            await foundation.store.engine.close()

    asyncio.run(work())


def _kid(token: object) -> str:
    head = from_base64url(str(token).partition(".")[0])
    assert head is not None
    return str(json.loads(head)["kid"])
