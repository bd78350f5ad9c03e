"""Products with a configuration file: the requests that their source states, with its values."""

import ast
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.clients.presets.site import Registered, register
from tests.clients.presets.test_requests import (
    CHALLENGE,
    VERIFIER,
    allowed,
    claims_of,
    exchange,
    metadata_of,
)
from valetkey.authorization.actions.presets import PRESETS
from valetkey.testing.server import Servers


@dataclass(frozen=True)
class Configured:
    """What a product takes from its configuration; endpoints that it does not name are found."""

    issuer: str
    client_id: str
    secret: str
    scope: str
    redirect_uri: str
    endpoints: Mapping[str, str]


def _found(url: str) -> str:
    """The issuer of a discovery URL."""
    issuer, well_known, rest = url.partition("/.well-known/openid-configuration")
    assert well_known
    assert not rest
    return issuer


def _constants(text: str) -> Mapping[str, Any]:
    """The assignments of literals in Python."""
    constants: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return constants


def _call(text: str, name: str) -> Mapping[str, Any]:
    """The literal keyword arguments of the call of this name in Python."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            return {
                str(keyword.arg): ast.literal_eval(keyword.value)
                for keyword in node.keywords
                if not isinstance(keyword.value, ast.Name | ast.List)
                or keyword.arg == "required_scopes"
            }
    raise AssertionError(f"{name} is not called")


def _flask_appbuilder(app: Registered) -> Configured:
    constants = _constants(app.files["superset_config.py"])
    (provider,) = constants["OAUTH_PROVIDERS"]
    remote = provider["remote_app"]
    assert remote["client_kwargs"]["code_challenge_method"] == "S256"
    issuer = _found(remote["server_metadata_url"])
    redirect_uri = f"http://localhost:8088/oauth-authorized/{provider['name']}"
    scope = remote["client_kwargs"]["scope"]
    return Configured(issuer, remote["client_id"], remote["client_secret"], scope, redirect_uri, {})


def _streamlit(app: Registered) -> Configured:
    configuration = tomllib.loads(app.files[".streamlit/secrets.toml"])["auth"]
    ast.parse(app.files["app.py"])
    issuer = _found(configuration["server_metadata_url"])
    scope = "openid email profile"
    return Configured(
        issuer,
        configuration["client_id"],
        configuration["client_secret"],
        scope,
        configuration["redirect_uri"],
        {},
    )


def _synapse(app: Registered) -> Configured:
    (provider,) = yaml.safe_load(app.files["homeserver.yaml"])["oidc_providers"]
    mapping = provider["user_mapping_provider"]["config"]
    assert mapping["localpart_template"] == "{{ user.preferred_username }}"
    redirect_uri = "http://localhost:8008/_synapse/client/oidc/callback"
    return Configured(
        provider["issuer"],
        provider["client_id"],
        provider["client_secret"],
        " ".join(provider["scopes"]),
        redirect_uri,
        {},
    )


def _pocketbase(app: Registered) -> Configured:
    (provider,) = json.loads(app.files["users.json"])["oauth2"]["providers"]
    assert (provider["name"], provider["pkce"]) == ("oidc", True)
    assert "http://127.0.0.1:8090/api/collections/users" in app.files["console"]
    endpoints = {
        "authorization_endpoint": provider["authURL"],
        "token_endpoint": provider["tokenURL"],
        "userinfo_endpoint": provider["userInfoURL"],
    }
    redirect_uri = "http://127.0.0.1:8090/api/oauth2-redirect"
    scope = "openid email profile"
    return Configured(
        app.issuer, provider["clientId"], provider["clientSecret"], scope, redirect_uri, endpoints
    )


def _miniflux(app: Registered) -> Configured:
    lines = (line.partition("=") for line in app.files["environment"].split())
    environment = {name: value for name, _, value in lines}
    assert (environment["BASE_URL"], environment["OAUTH2_PROVIDER"]) == (
        "http://localhost:8080",
        "oidc",
    )
    return Configured(
        environment["OAUTH2_OIDC_DISCOVERY_ENDPOINT"],
        environment["OAUTH2_CLIENT_ID"],
        environment["OAUTH2_CLIENT_SECRET"],
        "openid profile email",
        environment["OAUTH2_REDIRECT_URL"],
        {},
    )


def _pgadmin(app: Registered) -> Configured:
    (provider,) = _constants(app.files["config_local.py"])["OAUTH2_CONFIG"]
    assert (provider["OAUTH2_CHALLENGE_METHOD"], provider["OAUTH2_RESPONSE_TYPE"]) == (
        "S256",
        "code",
    )
    endpoints = {
        "authorization_endpoint": provider["OAUTH2_AUTHORIZATION_URL"],
        "token_endpoint": provider["OAUTH2_TOKEN_URL"],
        "userinfo_endpoint": provider["OAUTH2_API_BASE_URL"] + provider["OAUTH2_USERINFO_ENDPOINT"],
    }
    return Configured(
        _found(provider["OAUTH2_SERVER_METADATA_URL"]),
        provider["OAUTH2_CLIENT_ID"],
        provider["OAUTH2_CLIENT_SECRET"],
        provider["OAUTH2_SCOPE"],
        "http://localhost:5050/oauth2/authorize",
        endpoints,
    )


def _better_auth(app: Registered) -> Configured:
    environment = dict(re.findall(r'([A-Z_]+)="([^"]*)"', app.files[".env"]))
    options = dict(re.findall(r'(\w+): "([^"]*)"', app.files["auth.js"]))
    assert environment["BETTER_AUTH_URL"] == "http://localhost:3000"
    return Configured(
        _found(options["discoveryUrl"]),
        environment["VALETKEY_CLIENT_ID"],
        environment["VALETKEY_CLIENT_SECRET"],
        "openid profile email",
        options["redirectURI"],
        {},
    )


def _fastmcp(app: Registered) -> Configured:
    proxy = _call(app.files["server.py"], "OIDCProxy")
    assert (proxy["verify_id_token"], proxy["forward_resource"]) == (True, False)
    verifier = _call(app.files["verifier.py"], "JWTVerifier")
    assert verifier["jwks_uri"] == metadata_of(verifier["issuer"])["jwks_uri"]
    assert verifier["audience"] == "http://localhost:8000/mcp"
    return Configured(
        _found(proxy["config_url"]),
        proxy["client_id"],
        proxy["client_secret"],
        " ".join(proxy["required_scopes"]),
        f"{proxy['base_url']}/auth/callback",
        {},
    )


_PRODUCTS: Mapping[str, Callable[[Registered], Configured]] = {
    "flask-appbuilder": _flask_appbuilder,
    "streamlit": _streamlit,
    "synapse": _synapse,
    "pocketbase": _pocketbase,
    "miniflux": _miniflux,
    "pgadmin": _pgadmin,
    "better-auth": _better_auth,
    "fastmcp": _fastmcp,
}


@pytest.mark.parametrize("name", _PRODUCTS)
def test_product_signs_in_with_its_configuration(servers: Servers, name: str) -> None:
    product = _PRODUCTS[name](register(servers, name))
    metadata = metadata_of(product.issuer)
    assert product.endpoints.items() <= metadata.items()
    assert "S256" in metadata["code_challenge_methods_supported"]
    query = {
        "client_id": product.client_id,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "nonce": "n1",
        "redirect_uri": product.redirect_uri,
        "response_type": "code",
        "scope": product.scope,
        "state": "s1",
    }
    if name == "streamlit":
        query["prompt"] = "select_account"
    back = allowed(servers, metadata["authorization_endpoint"], query)
    form = {
        "code": back["code"][0],
        "code_verifier": VERIFIER,
        "grant_type": "authorization_code",
        "redirect_uri": product.redirect_uri,
    }
    tokens = exchange(metadata["token_endpoint"], form, product.client_id, product.secret)
    claims = claims_of(tokens["id_token"])
    assert (claims["iss"], claims["aud"]) == (product.issuer, product.client_id)
    request = Request(metadata["userinfo_endpoint"])
    request.add_header("Authorization", f"Bearer {tokens['access_token']}")
    with urlopen(request) as response:
        user = json.load(response)
    assert user["sub"] == claims["sub"]
    if "profile" in product.scope:
        assert (user["preferred_username"], user["email"]) == ("ada", "ada@example.com")
        assert (claims["name"], claims["email"]) == ("Ada Lovelace", "ada@example.com")
    if "groups" in product.scope:
        assert user["groups"] == ["staff"]


_LANDING = {
    "spring-boot": ("src/main/resources/static/index.html", "signed in"),
    "authjs": ("app/page.js", "export default async function Page"),
    "express": ("app.js", 'app.get("/",'),
    "mozilla-django-oidc": ("urls.py", 'path("", landing)'),
    "django-allauth": ("urls.py", 'path("", landing)'),
    "social-auth": ("urls.py", 'path("", landing)'),
    "apache": ("bye.html", "signed out"),
}


@pytest.mark.parametrize("name", _LANDING)
def test_printed_app_serves_its_registered_post_logout_page(name: str) -> None:
    file, text = _LANDING[name]
    preset = PRESETS[name]
    assert text in preset.files[file]
    for uri in preset.completed(preset.metadata("x")).openid.post_logout_redirect_uris:
        assert urlsplit(uri).path in {"", "/", f"/{file}"}
