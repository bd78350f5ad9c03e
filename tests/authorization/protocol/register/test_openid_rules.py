"""What a client may register for OpenID Connect: each rule by what breaks it and what keeps it."""

import json
from ipaddress import ip_network
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import OpenIdRegistration, ProfileName
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, as_document
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey, base64url_uint
from valetkey.kernel.replace import replace

_KEYS = KeySet.of(SigningKey.generate(Algorithm.ES256).public).document().decode()
_RULES = ClientRules(
    own_origins=("https://auth.example", "https://api.example"),
    scopes=("read",),
    grant_types=GRANT_RULES,
    default_profile=ProfileName.CLASSIC,
    signing_algorithms=("ES256", "RS256"),
)
_GOOD = ClientMetadata(
    "Printer",
    redirect_uris=("https://app.example/cb", "https://app.example/other"),
    grant_types=("authorization_code", "implicit", "refresh_token"),
    scopes=("read",),
)
_CODE_ONLY = replace(_GOOD, grant_types=("authorization_code",))
_KEYED = replace(_GOOD, key_set=_KEYS)
_PUBLIC = replace(_GOOD, type="public")
_MANY = tuple(f"https://app.example/{number}" for number in range(21))


def _with(metadata: ClientMetadata, **fields: Any) -> ClientMetadata:
    return replace(metadata, openid=OpenIdRegistration(**fields))


@pytest.mark.parametrize(
    "metadata",
    [
        _with(_GOOD, response_types=("code", "id_token", "id_token token", "code id_token token")),
        _with(_CODE_ONLY, response_types=("code",)),
        _with(_GOOD, token_endpoint_auth_method="client_secret_post"),
        _with(
            _GOOD,
            token_endpoint_auth_method="client_secret_jwt",
            token_endpoint_auth_signing_alg="HS256",
        ),
        _with(
            _KEYED,
            token_endpoint_auth_method="private_key_jwt",
            token_endpoint_auth_signing_alg="RS256",
        ),
        _with(_GOOD, jwks_uri="https://app.example/keys"),
        _with(_GOOD, id_token_signed_response_alg="HS256", userinfo_signed_response_alg="RS256"),
        _with(_KEYED, request_object_signing_alg="RS256"),
        _with(_GOOD, request_object_signing_alg="none"),
        _with(
            _GOOD,
            jwks_uri="https://app.example/keys",
            id_token_encrypted_response_alg="ECDH-ES",
            userinfo_encrypted_response_alg="RSA-OAEP-256",
            userinfo_encrypted_response_enc="A256GCM",
        ),
        _with(_GOOD, subject_type="pairwise"),
        _with(
            replace(_GOOD, redirect_uris=("https://a.example/", "https://b.example/")),
            subject_type="pairwise",
            sector_identifier_uri="https://c.example/sector",
        ),
        _with(_GOOD, post_logout_redirect_uris=("https://other.example/bye",)),
        _with(
            _GOOD,
            frontchannel_logout_uri="https://app.example/bye?x=y",
            frontchannel_logout_session_required=True,
        ),
        _with(
            _GOOD,
            backchannel_logout_uri="https://other.example/bye",
            backchannel_logout_session_required=True,
        ),
        _with(_GOOD, initiate_login_uri="https://app.example/start"),
        _with(_GOOD, request_uris=("https://app.example/request#GkurKxf5T0Y-mnPFCHqWOMiZi4VS138",)),
        _with(_GOOD, default_max_age=0, require_auth_time=True, default_acr_values=("urn:x",)),
        _with(_GOOD, client_uri="https://app.example/", contacts=("ada@app.example",)),
    ],
)
def test_valid_openid_metadata_is_registered(metadata: ClientMetadata) -> None:
    assert _RULES.faults(metadata) == ()


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        (_with(_GOOD, response_types=("code", "magic")), ["response_types/1"]),
        (_with(_GOOD, response_types=("token id_token",)), ["response_types/0"]),
        (_with(_GOOD, response_types=("code", "code")), ["response_types"]),
        (_with(_CODE_ONLY, response_types=("id_token",)), ["response_types/0"]),
        (_with(_CODE_ONLY, response_types=("code id_token",)), ["response_types/0"]),
        (
            _with(replace(_GOOD, grant_types=("implicit",)), response_types=("code token",)),
            ["response_types/0"],
        ),
        (
            _with(
                replace(_GOOD, authentication_method="client_secret"),
                token_endpoint_auth_method="private_key_jwt",
            ),
            ["token_endpoint_auth_method"],
        ),
        (
            _with(_PUBLIC, token_endpoint_auth_method="tls_client_auth"),
            ["token_endpoint_auth_method"],
        ),
        (
            _with(_PUBLIC, token_endpoint_auth_method="client_secret_basic"),
            ["token_endpoint_auth_method"],
        ),
        (_with(_GOOD, token_endpoint_auth_method="none"), ["authentication_method"]),
        (_with(_GOOD, token_endpoint_auth_method="private_key_jwt"), ["key_set"]),
        (
            _with(
                _GOOD,
                token_endpoint_auth_method="client_secret_jwt",
                token_endpoint_auth_signing_alg="RS256",
            ),
            ["token_endpoint_auth_signing_alg"],
        ),
        (
            _with(_KEYED, token_endpoint_auth_signing_alg="HS256"),
            ["token_endpoint_auth_signing_alg"],
        ),
        (
            _with(_KEYED, token_endpoint_auth_signing_alg="none"),
            ["token_endpoint_auth_signing_alg"],
        ),
        (
            _with(_GOOD, token_endpoint_auth_signing_alg="RS256"),
            ["token_endpoint_auth_signing_alg"],
        ),
        (_with(_GOOD, id_token_signed_response_alg="none"), ["id_token_signed_response_alg"]),
        (_with(_GOOD, id_token_signed_response_alg="PS256"), ["id_token_signed_response_alg"]),
        (_with(_PUBLIC, id_token_signed_response_alg="HS256"), ["id_token_signed_response_alg"]),
        (_with(_KEYED, id_token_signed_response_alg="HS256"), ["id_token_signed_response_alg"]),
        (_with(_GOOD, userinfo_signed_response_alg="none"), ["userinfo_signed_response_alg"]),
        (
            _with(_GOOD, introspection_signed_response_alg="HS256"),
            ["introspection_signed_response_alg"],
        ),
        (_with(_GOOD, request_object_signing_alg="HS512"), ["request_object_signing_alg"]),
        (_with(_GOOD, request_object_signing_alg="RS256"), ["request_object_signing_alg"]),
        (
            _with(_GOOD, jwks_uri="https://a.example/", id_token_encrypted_response_alg="RSA1_5"),
            ["id_token_encrypted_response_alg"],
        ),
        (
            _with(_GOOD, userinfo_encrypted_response_alg="ECDH-ES"),
            ["userinfo_encrypted_response_alg"],
        ),
        (
            _with(
                _GOOD,
                jwks_uri="https://a.example/",
                id_token_encrypted_response_alg="ECDH-ES",
                id_token_encrypted_response_enc="A256CBC-HS512",
            ),
            ["id_token_encrypted_response_enc"],
        ),
        (
            _with(_GOOD, userinfo_encrypted_response_enc="A128GCM"),
            ["userinfo_encrypted_response_alg"],
        ),
        (_with(_KEYED, jwks_uri="https://app.example/keys"), ["jwks_uri"]),
        (_with(_GOOD, jwks_uri="http://app.example/keys"), ["jwks_uri"]),
        (_with(_GOOD, jwks_uri="http://127.0.0.1/keys"), ["jwks_uri"]),
        (_with(_GOOD, jwks_uri="https://app.example/keys#x"), ["jwks_uri"]),
        (_with(_GOOD, jwks_uri="https://me@app.example/keys"), ["jwks_uri"]),
        (_with(_GOOD, jwks_uri="file:///etc/passwd"), ["jwks_uri"]),
        (_with(_GOOD, jwks_uri="com.example.app:/keys"), ["jwks_uri"]),
        (_with(_GOOD, subject_type="ephemeral"), ["subject_type"]),
        (
            _with(
                replace(_GOOD, redirect_uris=("https://a.example/", "https://b.example/")),
                subject_type="pairwise",
            ),
            ["sector_identifier_uri"],
        ),
        (
            _with(
                replace(
                    _GOOD,
                    redirect_uris=("com.example.app:/",),
                    application_type="native",
                    grant_types=("authorization_code",),
                ),
                subject_type="pairwise",
            ),
            ["sector_identifier_uri"],
        ),
        (_with(_GOOD, sector_identifier_uri="http://c.example/"), ["sector_identifier_uri"]),
        (
            _with(_GOOD, post_logout_redirect_uris=("https://a.example/", "http://a.example/")),
            ["post_logout_redirect_uris/1"],
        ),
        (
            _with(_GOOD, post_logout_redirect_uris=("https://auth.example/oauth/logout",)),
            ["post_logout_redirect_uris/0"],
        ),
        (_with(_GOOD, post_logout_redirect_uris=_MANY), ["post_logout_redirect_uris/20"]),
        (
            _with(_GOOD, frontchannel_logout_uri="https://evil.example/"),
            ["frontchannel_logout_uri"],
        ),
        (
            _with(_GOOD, frontchannel_logout_uri="https://app.example:444/"),
            ["frontchannel_logout_uri"],
        ),
        (_with(_GOOD, frontchannel_logout_uri="javascript:alert(1)"), ["frontchannel_logout_uri"]),
        (
            _with(_GOOD, frontchannel_logout_session_required=True),
            ["frontchannel_logout_session_required"],
        ),
        (_with(_GOOD, backchannel_logout_uri="http://app.example/"), ["backchannel_logout_uri"]),
        (_with(_GOOD, backchannel_logout_uri="https://app.example/#x"), ["backchannel_logout_uri"]),
        (
            _with(_GOOD, backchannel_logout_session_required=True),
            ["backchannel_logout_session_required"],
        ),
        (_with(_GOOD, initiate_login_uri="http://app.example/"), ["initiate_login_uri"]),
        (_with(_GOOD, initiate_login_uri="https://auth.example/"), ["initiate_login_uri"]),
        (_with(_GOOD, request_uris=("https://a.example/", "ftp://a.example/")), ["request_uris/1"]),
        (_with(_GOOD, request_uris=_MANY), ["request_uris/20"]),
        (_with(_GOOD, default_max_age=-1), ["default_max_age"]),
        (_with(_GOOD, default_max_age=2**53), ["default_max_age"]),
        (_with(_GOOD, default_acr_values=("a b",)), ["default_acr_values/0"]),
        (_with(_GOOD, client_uri="http://app.example/"), ["client_uri"]),
        (_with(_GOOD, client_uri='https://evil" onclick='), ["client_uri"]),
        (_with(_GOOD, contacts=("x" * 201,)), ["contacts/0"]),
        (_with(_GOOD, contacts=("a\u202eb",)), ["contacts/0"]),
        (_with(_GOOD, contacts=("a@b",) * 11), ["contacts", "contacts/10"]),
    ],
)
def test_invalid_openid_metadata_is_refused_with_its_fields(
    metadata: ClientMetadata, fields: list[str]
) -> None:
    faults = _RULES.faults(metadata)
    assert [fault.field for fault in faults] == fields
    assert all(fault.detail for fault in faults)


def _rsa_keys(*uses: str | None) -> str:
    key = rsa.generate_private_key(65_537, 2_048).public_key().public_numbers()
    plain = {"kty": "RSA", "n": base64url_uint(key.n), "e": base64url_uint(key.e)}
    named = [
        plain | {"kid": str(number)} | ({"use": use} if use else {})
        for number, use in enumerate(uses)
    ]
    return json.dumps({"keys": named})


def test_a_key_set_by_value_may_hold_both_kinds_of_keys() -> None:
    wants = {"id_token_encrypted_response_alg": "RSA-OAEP-256"}
    both = _with(replace(_GOOD, key_set=_rsa_keys("sig", "enc")), **wants)
    assert _RULES.faults(both) == ()
    assert [key.kid for key in both.keys.signing] == ["0"]
    assert [key.kid for key in both.keys.encryption] == ["1"]
    again = as_document(both.keys.signing, both.completed.encryption_keys)
    assert replace(both, key_set=again).completed == both.completed
    silent = _with(replace(_GOOD, key_set=_rsa_keys(None)), **wants)
    assert _RULES.faults(silent) == ()
    assert len(silent.keys.signing) == len(silent.keys.encryption) == 1
    assert len(replace(_GOOD, key_set=_rsa_keys(None)).keys.encryption) == 0
    other = _with(both, id_token_encrypted_response_alg="ECDH-ES")
    assert [fault.field for fault in _RULES.faults(other)] == ["id_token_encrypted_response_alg"]


def test_ca_09_encryption_keys_do_not_suffice_for_private_key_jwt() -> None:
    by_key = replace(_GOOD, authentication_method="private_key_jwt", key_set=_rsa_keys("enc"))
    assert [fault.field for fault in _RULES.faults(by_key)] == ["key_set"]


def test_http_uris_are_allowed_only_in_listed_networks() -> None:
    rules = replace(_RULES, fetch_networks=(ip_network("127.0.0.0/8"),))
    for uri, fine in (
        ("http://127.0.0.1:9000/keys", True),
        ("http://app.internal/keys", True),
        ("http://10.0.0.1/keys", False),
        ("http://[::1]/keys", False),
    ):
        faults = rules.faults(_with(_GOOD, jwks_uri=uri, backchannel_logout_uri=uri))
        assert (faults == ()) is fine, uri


def test_defaults_of_openid_metadata_are_filled_in() -> None:
    metadata = _with(_GOOD, id_token_encrypted_response_alg="ECDH-ES", subject_type="pairwise")
    assert metadata.completed.id_token_encrypted_response_enc == "A128CBC-HS256"
    assert metadata.completed.userinfo_encrypted_response_enc == ""
    assert metadata.completed.sector == "app.example"
    elsewhere = _with(_GOOD, sector_identifier_uri="https://sector.example:8443/list")
    assert elsewhere.completed.sector == "sector.example"
    moved = replace(_GOOD, openid=replace(metadata.completed, subject_type="public"))
    assert moved.completed.sector == ""
    assert _GOOD.completed is OpenIdRegistration.NOTHING


def test_client_with_jwks_or_jwks_uri_uses_private_key_jwt_by_default() -> None:
    assert _KEYED.proof == "private_key_jwt"
    assert _with(_GOOD, jwks_uri="https://app.example/keys").proof == "private_key_jwt"
    with_secret = _with(_KEYED, token_endpoint_auth_method="client_secret_basic")
    assert with_secret.proof == "client_secret"
    assert _PUBLIC.proof == "none"
