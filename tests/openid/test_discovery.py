"""What the Config profile asks: a document of the right types that tells the truth."""

import json
from urllib.parse import urlsplit

import pytest
import requests

from tests.openid.provider import RESPONSE_TYPES, Provider
from tests.openid.relying_party import SECONDS

STRINGS = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "userinfo_endpoint",
    "jwks_uri",
    "registration_endpoint",
    "end_session_endpoint",
    "check_session_iframe",
)
LISTS = (
    "scopes_supported",
    "response_types_supported",
    "response_modes_supported",
    "grant_types_supported",
    "acr_values_supported",
    "prompt_values_supported",
    "subject_types_supported",
    "id_token_signing_alg_values_supported",
    "id_token_encryption_alg_values_supported",
    "id_token_encryption_enc_values_supported",
    "userinfo_signing_alg_values_supported",
    "userinfo_encryption_alg_values_supported",
    "userinfo_encryption_enc_values_supported",
    "request_object_signing_alg_values_supported",
    "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported",
    "display_values_supported",
    "claim_types_supported",
    "claims_supported",
    "ui_locales_supported",
    "code_challenge_methods_supported",
)
FLAGS = (
    "claims_parameter_supported",
    "request_parameter_supported",
    "request_uri_parameter_supported",
    "require_request_uri_registration",
    "frontchannel_logout_supported",
    "frontchannel_logout_session_supported",
    "backchannel_logout_supported",
    "backchannel_logout_session_supported",
    "authorization_response_iss_parameter_supported",
)
# Registered names of RFC 8414, OpenID Discovery, the logout specifications, RFC 9207, RFC 9701.
MORE = {
    "service_documentation",
    "device_authorization_endpoint",
    "revocation_endpoint",
    "revocation_endpoint_auth_methods_supported",
    "revocation_endpoint_auth_signing_alg_values_supported",
    "introspection_endpoint",
    "introspection_endpoint_auth_methods_supported",
    "introspection_endpoint_auth_signing_alg_values_supported",
    "introspection_signing_alg_values_supported",
    "op_policy_uri",
    "op_tos_uri",
    "claims_locales_supported",
    "protected_resources",
}


@pytest.mark.parametrize("name", STRINGS)
def test_endpoint_is_a_url_of_this_server(op: Provider, name: str) -> None:
    address = op.discovered[name]
    assert isinstance(address, str)
    assert address.startswith(op.servers.auth_url)
    assert not urlsplit(address).fragment


@pytest.mark.parametrize("name", LISTS)
def test_list_member_has_unique_strings(op: Provider, name: str) -> None:
    values = op.discovered[name]
    assert isinstance(values, list)
    assert values
    assert all(isinstance(value, str) for value in values)
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_a_boolean(op: Provider, name: str) -> None:
    assert isinstance(op.discovered[name], bool)


def test_all_members_are_defined_by_the_specifications(op: Provider) -> None:
    assert set(op.discovered) <= {*STRINGS, *LISTS, *FLAGS} | MORE


def test_issuer_is_the_url_of_the_server_without_trailing_slash(op: Provider) -> None:
    assert op.discovered["issuer"] == op.servers.auth_url
    assert not str(op.discovered["issuer"]).endswith("/")


def test_metadata_includes_everything_that_the_profiles_require(op: Provider) -> None:
    metadata = {name: set(op.discovered[name]) for name in LISTS}  # type: ignore[call-overload]
    announced = {frozenset(text.split()) for text in metadata["response_types_supported"]}
    assert announced >= {frozenset(text.split()) for text in RESPONSE_TYPES}
    assert metadata["response_modes_supported"] >= {"query", "fragment", "form_post"}
    assert metadata["grant_types_supported"] >= {"authorization_code", "implicit", "refresh_token"}
    assert metadata["subject_types_supported"] == {"public", "pairwise"}
    assert "RS256" in metadata["id_token_signing_alg_values_supported"]
    assert "none" not in metadata["id_token_signing_alg_values_supported"]
    assert "openid" in metadata["scopes_supported"]
    assert metadata["token_endpoint_auth_methods_supported"] >= {
        "client_secret_basic",
        "client_secret_post",
        "client_secret_jwt",
        "private_key_jwt",
    }
    assert metadata["claims_supported"] >= {"sub", "name", "email", "auth_time", "acr"}


def test_published_keys_are_public_and_have_unique_kids(op: Provider) -> None:
    document = requests.get(str(op.discovered["jwks_uri"]), timeout=SECONDS).json()
    kids = [key["kid"] for key in document["keys"]]
    assert len(set(kids)) == len(kids) > 0
    for key in document["keys"]:
        assert not {"d", "p", "q", "dp", "dq", "qi", "k", "oth"} & set(key)
        assert key["use"] == "sig"
        assert key["alg"] in {"ES256", "RS256"}
    assert {key["alg"] for key in document["keys"]} == {"ES256", "RS256"}


@pytest.mark.parametrize("path", ["openid-configuration", "oauth-authorization-server"])
def test_cross_origin_requests_can_read_the_document(op: Provider, path: str) -> None:
    url = f"{op.servers.auth_url}/.well-known/{path}"
    response = requests.get(url, headers={"origin": "https://rp.example"}, timeout=SECONDS)
    assert response.headers["content-type"].split(";")[0] == "application/json"
    assert response.headers["access-control-allow-origin"] == "*"
    assert json.loads(response.content) == op.discovered
