"""POST /oauth/register: what is stored and told, and what is not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.endpoints.registration.registering import PLAIN, Registry, run
from tests.support.cases import case
from tests.support.harness import CALLBACK, harness
from valetkey.authorization.model.client import Client
from valetkey.config.settings import RegistrationMode, RegistrationSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace

NO_KEYS = KeySet()


def test_registration_response_has_every_default(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        answer = await it.register(PLAIN)
        assert answer.status == 201, answer.body
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["access-control-allow-origin"] == "*"
        record = answer.json
        client_id = str(record["client_id"])
        for name in ("client_secret", "registration_access_token"):
            assert record.pop(name)
        assert record == {
            "client_id": client_id,
            "client_id_issued_at": it.service.clock.now,
            "client_secret_expires_at": 0,
            "client_name": "Printer",
            "application_type": "web",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
            "scope": "openid profile email address phone offline_access",
            "subject_type": "public",
            "token_endpoint_auth_method": "client_secret_basic",
            "id_token_claims": "auto",
            "id_token_signed_response_alg": "ES256",
            "require_auth_time": False,
            "frontchannel_logout_session_required": False,
            "backchannel_logout_session_required": False,
            "registration_client_uri": f"http://localhost:8400/oauth/register/{client_id}",
        }
        stored = await it.service.read(lambda tx: tx.clients.find(client_id))
        assert stored is not None
        assert stored.self_registered
        again = await it.manage(answer.json)
        assert {
            **record,
            "registration_access_token": answer.text("registration_access_token"),
        } == again.json

    run(tmp_path, story, database_url)


def test_registration_response_has_all_metadata(tmp_path: Path) -> None:
    metadata: dict[str, Any] = {
        "client_name": "Everything",
        "application_type": "web",
        "redirect_uris": [CALLBACK, "https://app.example/other"],
        "grant_types": ["authorization_code", "implicit", "refresh_token"],
        "response_types": ["code", "code id_token", "id_token token"],
        "scope": "openid email",
        "contacts": ["ada@app.example"],
        "logo_uri": "https://app.example/logo.png",
        "client_uri": "https://app.example",
        "policy_uri": "https://app.example/policy",
        "tos_uri": "https://app.example/terms",
        "jwks_uri": "https://app.example/keys",
        "subject_type": "pairwise",
        "id_token_signed_response_alg": "HS256",
        "id_token_encrypted_response_alg": "RSA-OAEP-256",
        "id_token_encrypted_response_enc": "A256GCM",
        "userinfo_signed_response_alg": "ES256",
        "request_object_signing_alg": "RS256",
        "token_endpoint_auth_method": "client_secret_jwt",
        "token_endpoint_auth_signing_alg": "HS256",
        "default_max_age": 3600,
        "require_auth_time": True,
        "default_acr_values": ["urn:valetkey:acr:password"],
        "initiate_login_uri": "https://app.example/start",
        "request_uris": ["https://app.example/request"],
        "post_logout_redirect_uris": ["https://app.example/bye"],
        "frontchannel_logout_uri": "https://app.example/front",
        "frontchannel_logout_session_required": True,
        "backchannel_logout_uri": "https://app.example/back",
        "backchannel_logout_session_required": True,
    }

    async def story(it: Registry) -> None:
        record = await it.registered(**metadata)
        assert {name: record[name] for name in metadata} == metadata

    grants = ("authorization_code", "refresh_token", "implicit")
    run(tmp_path, story, grant_types=grants)


def test_omitted_grant_and_response_types_follow_from_the_given_ones(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for metadata, grant_types, response_types in (
            ({}, ["authorization_code"], ["code"]),
            ({"response_types": ["token id_token"]}, ["implicit"], ["id_token token"]),
            (
                {"response_types": ["code token"]},
                ["authorization_code", "implicit"],
                ["code token"],
            ),
            ({"grant_types": ["implicit"]}, ["implicit"], ["token", "id_token", "id_token token"]),
            (
                {"grant_types": ["client_credentials"], "redirect_uris": []},
                ["client_credentials"],
                [],
            ),
            ({"grant_types": None, "response_types": None}, ["authorization_code"], ["code"]),
        ):
            record = await it.registered(**metadata)
            assert (record["grant_types"], record["response_types"]) == (
                grant_types,
                response_types,
            )

    grants = ("authorization_code", "implicit", "client_credentials")
    run(tmp_path, story, grant_types=grants)


def test_web_app_with_the_implicit_grant_must_use_https(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        local = "http://127.0.0.1:9000/cb"
        for uri in (local, "http://localhost/cb", "https://localhost/cb"):
            metadata = {**PLAIN, "redirect_uris": [CALLBACK, uri], "response_types": ["id_token"]}
            answer = await it.register(metadata)
            answer.refused(400, "invalid_redirect_uri")
            assert answer.text("error_description").startswith("redirect_uris/1")
        await it.registered(redirect_uris=[local])
        await it.registered(
            redirect_uris=[local], response_types=["id_token"], application_type="native"
        )

    run(tmp_path, story, grant_types=("authorization_code", "implicit"))


def test_unknown_metadata_is_ignored_and_unavailable_is_not_stored(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered(
            **{
                "client_name#de": "Drucker",
                "software_id": "x",
                "skip_consent": True,
                "trusted": True,
                "admin": True,
                "first_party": True,
                "profile": "classic",
                "requires_pkce": False,
                "client_id": "chosen",
                "client_secret": "s" * 40,
            }
        )
        assert record["client_id"] != "chosen"
        assert record["client_secret"] != "s" * 40
        plain = await it.registered()
        assert record.keys() == plain.keys()
        one, other = [
            await _stored(it, str(registration["client_id"])) for registration in (record, plain)
        ]
        assert replace(one, id="", secrets=()) == replace(other, id="", secrets=())

    run(tmp_path, story)


async def _stored(it: Registry, client_id: str) -> Client:
    client = await it.service.read(lambda tx: tx.clients.find(client_id))
    assert client is not None
    return replace(client, key_set=NO_KEYS)


def test_name_and_application_type_follow_from_redirect_uris(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        assert (await it.registered(client_name=None))["client_name"] == "app.example"
        record = await it.registered(
            client_name="", application_type="native", redirect_uris=["com.example.app:/cb"]
        )
        assert record["client_name"] == "An app without a name"
        for uris in (["com.example.app:/cb"], ["http://localhost:8080", "com.example.app:/cb"]):
            record = await it.registered(application_type="web", redirect_uris=uris)
            assert record["application_type"] == "native"
        record = await it.registered(redirect_uris=["http://localhost:8080"])
        assert record["application_type"] == "web"

    run(tmp_path, story)


_INVALID_METADATA: tuple[tuple[dict[str, object], str, str], ...] = (
    (
        {"redirect_uris": ["com.example.app:/cb", CALLBACK]},
        "invalid_redirect_uri",
        "redirect_uris/0",
    ),
    ({"redirect_uris": []}, "invalid_redirect_uri", "redirect_uris: "),
    ({"redirect_uris": "https://app.example/cb"}, "invalid_redirect_uri", "redirect_uris: "),
    ({"redirect_uris": [CALLBACK, 5]}, "invalid_redirect_uri", "redirect_uris: "),
    ({"redirect_uris": ["https://app.example/#x"]}, "invalid_redirect_uri", "redirect_uris/0"),
    ({"redirect_uris": ["https://*.example/"]}, "invalid_redirect_uri", "redirect_uris/0"),
    ({"client_name": 5}, "invalid_client_metadata", "client_name"),
    ({"client_name": "a\u202eb"}, "invalid_client_metadata", "client_name"),
    ({"client_name": "Valetkey Security"}, "invalid_client_metadata", "client_name"),
    ({"client_name": "Pаypal"}, "invalid_client_metadata", "client_name"),
    ({"grant_types": ["password"]}, "invalid_client_metadata", "grant_types/0"),
    ({"grant_types": ["magic"]}, "invalid_client_metadata", "grant_types/0"),
    ({"grant_types": ["implicit"]}, "invalid_client_metadata", "grant_types/0"),
    ({"response_types": ["id_token"]}, "invalid_client_metadata", "grant_types/0"),
    (
        {"response_types": ["code"], "grant_types": ["client_credentials"]},
        "invalid_client_metadata",
        "grant_types/0",
    ),
    ({"scope": ["openid"]}, "invalid_client_metadata", "scope"),
    (
        {"token_endpoint_auth_method": "none", "client_secret": "x"},
        "invalid_client_metadata",
        "token_endpoint_auth_method",
    ),
    ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata", "jwks"),
    ({"jwks": "text"}, "invalid_client_metadata", "jwks"),
    ({"jwks": {}}, "invalid_client_metadata", "jwks"),
    (
        {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}},
        "invalid_client_metadata",
        "jwks",
    ),
    ({"default_max_age": "60"}, "invalid_client_metadata", "default_max_age"),
    ({"default_max_age": True}, "invalid_client_metadata", "default_max_age"),
    ({"require_auth_time": "yes"}, "invalid_client_metadata", "require_auth_time"),
    ({"subject_type": "ephemeral"}, "invalid_client_metadata", "subject_type"),
    ({"jwks_uri": "http://app.example/keys"}, "invalid_client_metadata", "jwks_uri"),
    (
        {"backchannel_logout_uri": "http://app.example/bye"},
        "invalid_client_metadata",
        "backchannel_logout_uri",
    ),
    (
        {"id_token_encrypted_response_enc": "A128GCM"},
        "invalid_client_metadata",
        "id_token_encrypted_response_alg",
    ),
    ({"software_statement": "a.b.c"}, "unapproved_software_statement", "software_statement"),
    ({"software_statement": {}}, "invalid_software_statement", "software_statement"),
    ({"subject_type": "x", "logo_uri": 1}, "invalid_client_metadata", "logo_uri"),
)


def test_invalid_metadata_is_refused_with_the_name_of_the_member(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for metadata, code, named in _INVALID_METADATA:
            with case(metadata, code, named):
                answer = await it.register({**PLAIN, **metadata})
                answer.refused(400, code)
                assert answer.text("error_description").startswith(named), answer.body
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["access-control-allow-origin"] == "*"
                assert await it.service.read(lambda tx: len(tx.clients.page("", 10))) == 1

    run(tmp_path, story)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"a": NaN}', b'{"a":1,"a":2}'])
def test_body_that_is_not_an_object_is_refused(tmp_path: Path, body: bytes) -> None:
    async def story(it: Registry) -> None:
        (await it.raw(body)).refused(400, "invalid_client_metadata")

    run(tmp_path, story)


def test_form_encoded_body_is_refused(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        answer = await it.raw(b"client_name=x", content_type="application/x-www-form-urlencoded")
        answer.refused(415, "unsupported_media_type")
        assert answer.headers["access-control-allow-origin"] == "*"

    run(tmp_path, story)


def test_cors_preflight_is_allowed(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for path in ("/oauth/register", "/oauth/register/client_x"):
            answer = await it.service.call("OPTIONS", path)
            assert answer.status == 204
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "authorization" in answer.headers["access-control-allow-headers"]

    run(tmp_path, story)


def test_id_token_algorithm_defaults_to_rs256_if_the_server_has_a_key(
    tmp_path: Path,
) -> None:
    async def story(it: Registry) -> None:
        assert (await it.registered())["id_token_signed_response_alg"] == "RS256"

    async def tell() -> None:
        settings = RegistrationSettings(mode=RegistrationMode.OPEN)
        algorithms = (Algorithm.ES256, Algorithm.RS256)
        async with harness(tmp_path, "", algorithms, registration=settings) as it:
            await story(Registry(it))

    asyncio.run(tell())


def test_unrequestable_scope_is_an_operator_error(tmp_path: Path) -> None:
    for scope in ("nothing:read", "client:read"):
        with pytest.raises(OperatorError, match=r"registration\.scopes"):
            run(tmp_path, _nothing, scopes=(scope,))


async def _nothing(it: Registry) -> None:
    raise AssertionError("the server started")


def test_only_scopes_allowed_by_the_operator_are_registered(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        assert "notes:read" in (await it.registered())["scope"].split()
        assert (await it.registered(scope="notes:read"))["scope"] == "notes:read"
        assert "notes:write" not in (await it.registered(scope="notes:write"))["scope"]

    run(tmp_path, story, scopes=("notes:read",))
