"""oauth2-proxy, kubelogin, Grafana and AppAuth: requests that their source and documentation state.

The first three use golang.org/x/oauth2, which finds out how to authenticate by trying: HTTP Basic
first, also for a client without a secret, and the body after a refusal. The code must survive that.
"""

import base64
import configparser
import hashlib
import json
import re
import subprocess
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import pytest

from tests.clients.presets.site import PASSWORD, register
from valetkey.kernel.moment import Lifetime
from valetkey.testing.browser import Page, UserAgent
from valetkey.testing.server import Servers

VERIFIER = "v" * 43
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
)


def metadata_of(issuer: str) -> Mapping[str, str]:
    with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration") as response:
        metadata: Mapping[str, str] = json.load(response)
    return metadata


def post(
    url: str, form: Mapping[str, str], basic: tuple[str, str] | None = None
) -> tuple[int, Any]:
    """Send a form as x/oauth2 does: the parts of a Basic header are form-encoded."""
    request = urllib.request.Request(url, urlencode(form).encode())
    if basic is not None:
        pair = ":".join(quote_plus(part) for part in basic)
        request.add_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def exchange(url: str, form: Mapping[str, str], client_id: str, secret: str) -> Mapping[str, Any]:
    """Exchange a code, with a second try where the first way to authenticate is refused."""
    status, answer = post(url, form, (client_id, secret))
    if status != 200:
        in_body = {"client_id": client_id, **({"client_secret": secret} if secret else {})}
        status, answer = post(url, {**form, **in_body})
    assert status == 200, answer
    tokens: Mapping[str, Any] = answer
    return tokens


def claims_of(token: str) -> Mapping[str, Any]:
    head, payload, _ = token.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "=="))["alg"] == "RS256"
    claims: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return claims


def allowed(servers: Servers, url: str, query: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Let Ada sign in and allow: the parameters with which the browser comes back."""
    person = UserAgent(servers.auth_url)
    page = _sign_in(person, person.open(f"{url}?{urlencode(query)}"))
    assert page.location.startswith(query["redirect_uri"]), page.text
    back = parse_qs(urlsplit(page.location).query)
    assert "code" in back, back
    return back


def _sign_in(person: UserAgent, page: Page) -> Page:
    page = person.sign_in(page, "ada", PASSWORD)
    return page if page.location else person.allow(page)


@pytest.mark.parametrize("scope", ["", "openid email profile groups"])
def test_oauth2_proxy_gets_the_groups_it_allows(servers: Servers, scope: str) -> None:
    """With the scope of the preset, and with that which --allowed-group implies without one."""
    callback = "http://localhost:4180/oauth2/callback"
    app = register(servers, "oauth2-proxy", callback)
    config = tomllib.loads(app.files["oauth2-proxy.cfg"])
    assert len(base64.urlsafe_b64decode(config["cookie_secret"])) == 32
    metadata = metadata_of(config["oidc_issuer_url"])
    query = {
        "approval_prompt": "force",
        "client_id": config["client_id"],
        "code_challenge": CHALLENGE,
        "code_challenge_method": config["code_challenge_method"],
        "nonce": "n1",
        "redirect_uri": config["redirect_url"],
        "response_type": "code",
        "scope": scope or config["scope"],
        "state": "s1:/",
    }
    back = allowed(servers, metadata["authorization_endpoint"], query)
    assert back["state"] == ["s1:/"]
    form = {
        "code": back["code"][0],
        "code_verifier": VERIFIER,
        "grant_type": "authorization_code",
        "redirect_uri": config["redirect_url"],
    }
    tokens = exchange(
        metadata["token_endpoint"], form, config["client_id"], config["client_secret"]
    )
    claims = claims_of(tokens["id_token"])
    assert claims["groups"] == ["staff"]
    assert (claims["email"], claims["email_verified"]) == ("ada@example.com", True)
    assert claims["nonce"] == "n1"
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    again = exchange(
        metadata["token_endpoint"], refresh, config["client_id"], config["client_secret"]
    )
    assert claims_of(again["id_token"])["groups"] == ["staff"]


def kubelogin_flags(text: str) -> Mapping[str, str]:
    """The flags after `get-token`, by name."""
    return dict(re.findall(r'--exec-arg="--(oidc-[a-z-]+)=([^"]*)"', text))


def test_kubelogin_signs_in_at_either_port(servers: Servers) -> None:
    app = register(servers, "kubelogin")
    flags = kubelogin_flags(app.files["console"])
    metadata = metadata_of(flags["oidc-issuer-url"])
    assert "S256" in metadata["code_challenge_methods_supported"]
    client_id, scopes = flags["oidc-client-id"], flags["oidc-extra-scope"].split(",")
    for redirect_uri in ("http://localhost:8000", "http://localhost:18000"):
        query = {
            "access_type": "offline",
            "client_id": client_id,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "nonce": redirect_uri,
            "redirect_uri": redirect_uri,
            "response_type": "code",
            "scope": " ".join([*scopes, "openid"]),
            "state": "s1",
            "ttl": "86400",  # --oidc-auth-request-extra-params, as its documentation has it
        }
        back = allowed(servers, metadata["authorization_endpoint"], query)
        form = {
            "code": back["code"][0],
            "code_verifier": VERIFIER,
            "grant_type": "authorization_code",
            "redirect_uri": redirect_uri,
        }
        tokens = exchange(metadata["token_endpoint"], form, client_id, "")
        claims = claims_of(tokens["id_token"])
        assert (claims["email"], claims["groups"]) == ("ada@example.com", ["staff"])
        assert claims["nonce"] == redirect_uri
        refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        assert "id_token" in exchange(metadata["token_endpoint"], refresh, client_id, "")


def test_kubelogin_signs_in_by_device_code(servers: Servers) -> None:
    app = register(servers, "kubelogin")
    flags = kubelogin_flags(app.files["console"])
    metadata = metadata_of(flags["oidc-issuer-url"])
    client_id = flags["oidc-client-id"]
    scope = " ".join([*flags["oidc-extra-scope"].split(","), "openid"])
    status, device = post(
        metadata["device_authorization_endpoint"], {"client_id": client_id, "scope": scope}
    )
    assert status == 200, device
    poll = {
        "client_id": client_id,
        "device_code": device["device_code"],
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
    }
    assert post(metadata["token_endpoint"], poll)[1]["error"] == "authorization_pending"
    person = UserAgent(servers.auth_url)
    page = person.sign_in(person.open(device["verification_uri_complete"]), "ada", PASSWORD)
    page = person.submit(page, "allow", boxes=("yes", *scope.split()))
    servers.clock.forward(Lifetime(30))
    status, tokens = post(metadata["token_endpoint"], poll)
    assert status == 200, tokens
    assert claims_of(tokens["id_token"])["groups"] == ["staff"]


def test_grafana_reads_groups_from_userinfo(servers: Servers) -> None:
    app = register(servers, "grafana", "http://localhost:3000/login/generic_oauth")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(app.files["grafana.ini"])
    config = parser["auth.generic_oauth"]
    assert config.getboolean("use_pkce")
    callback = f"{parser['server']['root_url']}login/generic_oauth"
    query = {
        "client_id": config["client_id"],
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "redirect_uri": callback,
        "response_type": "code",
        "scope": config["scopes"],
        "state": "s1",
    }
    back = allowed(servers, config["auth_url"], query)
    form = {
        "code": back["code"][0],
        "code_verifier": VERIFIER,
        "grant_type": "authorization_code",
        "redirect_uri": callback,
    }
    tokens = exchange(config["token_url"], form, config["client_id"], config["client_secret"])
    request = urllib.request.Request(config["api_url"])
    request.add_header("Authorization", f"Bearer {tokens['access_token']}")
    with urllib.request.urlopen(request) as response:
        user = json.load(response)
    assert (user[config["login_attribute_path"]], user["email"]) == ("ada", "ada@example.com")
    assert user[config["name_attribute_path"]] == "Ada Lovelace"
    assert user[config["groups_attribute_path"]] == ["staff"]


def test_service_gets_a_token_by_the_command_it_is_given(servers: Servers) -> None:
    (command,) = register(servers, "service").files.values()
    done = subprocess.run(
        ["sh", "-c", f"curl --silent --fail-with-body {command.strip().removeprefix('curl ')}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    token = json.loads(done.stdout)
    assert (token["token_type"], "refresh_token" in token) == ("bearer", False)


def test_appauth_returns_by_its_private_scheme_and_refreshes(servers: Servers) -> None:
    app = register(servers, "mobile")
    redirect_uri = "com.example.app:/oauth2redirect"
    assert f'Uri.parse("{redirect_uri}")' in app.files["SignIn.kt"]
    metadata = metadata_of(app.issuer)
    query = {
        "client_id": app.client_id,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "nonce": "n1",
        "redirect_uri": redirect_uri,
        "response_type": "code",
        "scope": "openid profile email offline_access",
        "state": "s1",
    }
    back = allowed(servers, metadata["authorization_endpoint"], query)
    assert (back["state"], back["iss"]) == (["s1"], [app.issuer])
    # Without authentication, AppAuth sends the client id in the body.
    own = {"client_id": app.client_id}
    form = {
        **own,
        "code": back["code"][0],
        "code_verifier": VERIFIER,
        "grant_type": "authorization_code",
        "redirect_uri": redirect_uri,
    }
    status, tokens = post(metadata["token_endpoint"], form)
    assert status == 200, tokens
    claims = claims_of(tokens["id_token"])
    assert (claims["aud"], claims["nonce"]) == (app.client_id, "n1")
    for _ in range(2):
        refresh = {**own, "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        status, tokens = post(metadata["token_endpoint"], refresh)
        assert status == 200, tokens
