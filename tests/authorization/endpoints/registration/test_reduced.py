"""What an app asks for beyond what this server gives is left out: it is registered and told so."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.endpoints.registration.registering import PLAIN, Registry, run
from tests.support.cases import case
from tests.support.harness import CALLBACK, harness
from valetkey.authorization.model.client import Client, Editor, UnusableValue
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import RegistrationMode, RegistrationSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey

_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_MANY = [f"https://app.example/{number}" for number in range(30)]

_REDUCED: dict[str, tuple[tuple[object, object], ...]] = {
    "grant_types": (
        (["authorization_code", "refresh_token", _DEVICE], ["authorization_code", "refresh_token"]),
        (["authorization_code", "password", "magic"], ["authorization_code"]),
        (["authorization_code", "authorization_code"], ["authorization_code"]),
    ),
    "response_types": (
        (["code", "id_token", "code id_token"], ["code"]),
        (["code", "magic"], ["code"]),
        (["magic"], ["code"]),
        (["code", "code"], ["code"]),
    ),
    "scope": (
        ("openid write", "openid"),
        ("openid notes:read notes:write openid", "openid"),
        ("read write", "openid profile email address phone offline_access"),
        ("openid " + " ".join(f"api:{n}" for n in range(300)), "openid"),
    ),
    "contacts": (
        (["ada@app.example", "", "a\u202eb", "x" * 201], ["ada@app.example"]),
        (["ada@app.example"] * 2, ["ada@app.example"]),
        ([f"{n}@app.example" for n in range(12)], [f"{n}@app.example" for n in range(10)]),
        ([""], None),
    ),
    "request_uris": (
        (["https://app.example/r", "http://app.example/r"], ["https://app.example/r"]),
        (_MANY, _MANY[:20]),
    ),
    "post_logout_redirect_uris": (
        (["http://app.example/bye", "https://app.example/bye"], ["https://app.example/bye"]),
        (["javascript:alert(1)"], None),
        (_MANY, _MANY[:20]),
    ),
    "default_acr_values": ((["urn:valetkey:acr:password", "a b"], ["urn:valetkey:acr:password"]),),
    "token_endpoint_auth_method": (
        ("tls_client_auth", "client_secret_basic"),
        ("magic", "client_secret_basic"),
    ),
    "token_endpoint_auth_signing_alg": (("RS256", None), ("none", None)),
    "application_type": (("desktop", "web"), ("", "web")),
    "id_token_claims": (("everything", "auto"),),
    "id_token_signed_response_alg": (("ES512", "ES256"), ("none", "ES256"), ("PS256", "ES256")),
    "userinfo_signed_response_alg": (("RS512", "ES256"),),
    "introspection_signed_response_alg": (("HS256", "ES256"),),
    "request_object_signing_alg": (("HS512", None), ("RS256", None)),
    "default_max_age": ((-1, None), (2**53, None)),
    "frontchannel_logout_session_required": ((True, False),),
    "backchannel_logout_session_required": ((True, False),),
    "initiate_login_uri": (("http://app.example/", None),),
    "logo_uri": (("http://app.example/logo.png", None), ("javascript:alert(1)", None)),
    "policy_uri": (("http://localhost:3000/privacy", None),),
    "tos_uri": (("ftp://app.example/", None),),
    "client_uri": (("http://localhost:3000", None),),
}
"""For each member values that cannot be kept, and what is registered instead; None for nothing."""

_ALWAYS_USABLE = {"require_auth_time"}
_WITH_AN_ALGORITHM = {"id_token_encrypted_response_enc", "userinfo_encrypted_response_enc"}


def test_every_replaceable_metadata_member_has_a_test_case() -> None:
    declared = {
        field.member
        for field in fields_of(Editor.CLIENT)
        if field.rule.unusable is not UnusableValue.REFUSED
    }
    assert declared == _REDUCED.keys() | _ALWAYS_USABLE | _WITH_AN_ALGORITHM


@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_unusable_metadata_value_is_replaced_or_omitted(tmp_path: Path, verb: str) -> None:
    async def story(it: Registry) -> None:
        for member, cases in _REDUCED.items():
            for value, kept in cases:
                with case(member, value):
                    record = await _register(it, verb, **{member: value})
                    assert record.get(member) == kept

    run(tmp_path, story, registrations_per_hour=10_000)


@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_spaces_around_texts_are_left_out(tmp_path: Path, verb: str) -> None:
    plain = {"client_name": "Printer", "logo_uri": "https://app.example/logo.png"}
    padded = {name: f" {value} " for name, value in plain.items()}

    async def story(it: Registry) -> None:
        record = await _register(it, verb, **padded)
        assert {name: record[name] for name in plain} == plain

    run(tmp_path, story)


async def _register(it: Registry, verb: str, **metadata: object) -> dict[str, Any]:
    if verb == "POST":
        return await it.registered(**metadata)
    record = await it.registered(logo_uri="https://app.example/logo.png", contacts=["bob@b"])
    replacement = {**PLAIN, **metadata, "client_id": record["client_id"]}
    answer = await it.manage(record, "PUT", replacement)
    assert answer.status == 200, answer.body
    assert (await it.manage(record)).json == {
        name: value for name, value in answer.json.items() if name != "client_secret"
    }
    return answer.json


def test_registration_of_an_editor_and_of_mcp_clients(tmp_path: Path) -> None:
    editor = {
        "client_name": "Visual Studio Code",
        "client_uri": "https://code.visualstudio.com",
        "grant_types": ["authorization_code", "refresh_token", _DEVICE],
        "response_types": ["code"],
        "redirect_uris": [
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
        ],
        "scope": "read write notes:read notes:write openid",
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }

    async def story(it: Registry) -> None:
        record = await it.registered(**editor)
        assert record["grant_types"] == ["authorization_code", "refresh_token"]
        assert record["scope"] == "openid"
        assert record["redirect_uris"] == editor["redirect_uris"]
        assert "client_secret" not in record

    run(tmp_path, story)


def test_each_unusable_value_is_replaced_independently(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered(
            grant_types=["authorization_code", "implicit", "refresh_token", "password"],
            response_types=["code", "id_token token", "code token"],
            token_endpoint_auth_method="none",
            id_token_signed_response_alg="HS256",
            logo_uri="http://app.example/",
            contacts=["", "ada@app.example"],
        )
        assert record["grant_types"] == ["authorization_code", "refresh_token"]
        assert record["response_types"] == ["code"]
        assert record["token_endpoint_auth_method"] == "none"
        assert record["id_token_signed_response_alg"] == "ES256"
        assert record["contacts"] == ["ada@app.example"]
        assert "logo_uri" not in record
        # Not the app for which the stricter rules of the implicit grant hold.
        local = "http://127.0.0.1:9000/cb"
        record = await it.registered(
            grant_types=["authorization_code", "implicit"], redirect_uris=[local]
        )
        assert record["redirect_uris"] == [local]
        # What identifies the app is refused with the rest of the registration.
        refused = await it.register(
            {**PLAIN, "redirect_uris": ["http://app.example/"], "scope": "write"}
        )
        refused.refused(400, "invalid_redirect_uri")

    run(tmp_path, story)


def test_refresh_token_without_a_grant_that_issues_one_is_left_out(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered(
            grant_types=["client_credentials", "refresh_token"],
            response_types=["code"],
            redirect_uris=[],
        )
        assert record["grant_types"] == ["client_credentials"]
        assert record["response_types"] == []
        record = await it.registered(
            grant_types=["authorization_code", "client_credentials"],
            token_endpoint_auth_method="none",
        )
        assert record["grant_types"] == ["authorization_code"]

    run(tmp_path, story, grant_types=("authorization_code", "client_credentials", "refresh_token"))


def test_unsupported_or_missing_enc_is_replaced_by_a128cbc_hs256(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for kind in ("id_token", "userinfo"):
            alg, enc = f"{kind}_encrypted_response_alg", f"{kind}_encrypted_response_enc"
            metadata: dict[str, object] = {"jwks_uri": "https://app.example/keys", alg: "ECDH-ES"}
            assert (await it.registered(**metadata))[enc] == "A128CBC-HS256"
            record = await it.registered(**metadata, **{enc: "A256CBC-HS512"})
            assert record[enc] == "A128CBC-HS256"
            # Not without encryption, for an app that asks for it.
            for refused in ({alg: "RSA1_5"}, {alg: None, enc: "A128GCM"}):
                answer = await it.register({**PLAIN, **metadata, **refused})
                answer.refused(400, "invalid_client_metadata")
                assert answer.text("error_description").startswith(alg)

    run(tmp_path, story)


def test_keys_of_an_unknown_type_are_left_out_of_a_key_set(tmp_path: Path) -> None:
    good = dict(SigningKey.generate(Algorithm.ES256).public.jwk)
    quantum = {"kty": "AKP", "alg": "ML-DSA-65", "kid": "pq", "pub": "AAAA"}

    async def story(it: Registry) -> None:
        record = await it.registered(
            token_endpoint_auth_method="private_key_jwt", jwks={"keys": [quantum, good]}
        )
        assert [key["kid"] for key in record["jwks"]["keys"]] == [good["kid"]]
        for keys in ([quantum], [good, {**good, "kid": "x", "d": "AA"}]):
            metadata = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": keys}}
            (await it.register({**PLAIN, **metadata})).refused(400, "invalid_client_metadata")

    run(tmp_path, story)


@pytest.mark.parametrize("said", [{}, {"application_type": "web"}, {"application_type": "native"}])
def test_public_app_may_use_any_loopback_port(tmp_path: Path, said: dict[str, object]) -> None:
    async def story(it: Registry) -> None:
        for uri in ("http://127.0.0.1/cb", "http://127.0.0.1:8080/cb", "http://localhost:1/cb"):
            record = await it.registered(
                redirect_uris=[uri], token_endpoint_auth_method="none", **said
            )
            client_id = str(record["client_id"])
            client = await it.service.read(partial(_find, client_id))
            assert client is not None
            host = uri.split("/")[2].partition(":")[0]
            assert client.registered_redirect_uri(f"http://{host}:49152/cb")
            assert not client.registered_redirect_uri(f"http://{host}:49152/other")
            assert not client.registered_redirect_uri(f"https://{host}:49152/cb")
            assert not client.registered_redirect_uri("http://[::1]:49152/cb")

    run(tmp_path, story)


def _find(client_id: str, tx: Transaction) -> Client | None:
    return tx.clients.find(client_id)


def test_unsupported_algorithm_is_replaced_by_rs256_if_it_has_a_key(
    tmp_path: Path,
) -> None:
    async def tell() -> None:
        settings = RegistrationSettings(mode=RegistrationMode.OPEN)
        algorithms = (Algorithm.ES256, Algorithm.RS256)
        async with harness(tmp_path, "", algorithms, registration=settings) as it:
            record = await Registry(it).registered(
                id_token_signed_response_alg="PS512", redirect_uris=[CALLBACK]
            )
            assert record["id_token_signed_response_alg"] == "RS256"

    asyncio.run(tell())
