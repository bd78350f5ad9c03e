"""The guide to certification: its files are applied, and the server announces what is needed."""

import json
import tomllib
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.documents.pages import blocks
from tests.documents.shell import Terminal
from tests.support.wait import CEILING
from valetkey.authorization.model.user import StandardClaims
from valetkey.config.load import load
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

PAGE = "docs/how-to/operate/certify-your-installation.md"


def _by_body(servers: Servers, client_id: str, secret: str) -> str:
    """The error for an invented code by a client that sends its secret in the body."""
    form = {
        "grant_type": "authorization_code",
        "code": "invented",
        "redirect_uri": "https://www.certification.openid.net/test/a/valetkey/callback",
        "client_id": client_id,
        "client_secret": secret,
    }
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{servers.auth_url}/oauth/token", urlencode(form).encode(), timeout=CEILING)
    error: str = json.load(refused.value)["error"]
    return error


def _has_what_modules_ask_for(site: dict[str, Any]) -> None:
    (user,), clients = site["users"], {table["client_id"]: table for table in site["clients"]}
    assert {*StandardClaims.__struct_fields__} <= user.keys()
    plain = clients["certify-1"]["redirect_uris"][0]
    for client in clients.values():
        assert {"openid", "offline_access"} <= {*client["scopes"]}
        assert client["id_token_claims"] == "requested"
        assert client["redirect_uris"][-1] == plain
    assert clients["certify-2"]["redirect_uris"][0].startswith(f"{plain}?")
    base = plain.removesuffix("callback")
    for name in ("frontchannel_logout", "backchannel_logout"):
        assert clients["certify-1"][f"{name}_uri"] == f"{base}{name}"


def test_files_of_the_guide_configure_a_server_ready_for_certification(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    commands: list[str] = []
    for block in blocks(PAGE):
        if block.language == "toml":
            terminal.write(block)
        else:
            commands.append(block.code)
    for command in commands:
        terminal.run(command)
    clients = terminal.run("valetkey client list --config valetkey.toml")
    assert all(name in clients for name in ("certify-1", "certify-2", "certify-post"))
    declared = tomllib.loads((tmp_path / "certify.toml").read_text())["clients"]
    methods = {client["client_id"]: client.get("authentication_method") for client in declared}
    assert methods["certify-post"] == "client_secret"
    _has_what_modules_ask_for(tomllib.loads((tmp_path / "certify.toml").read_text()))
    shown = json.loads(
        terminal.run("valetkey client show certify-post --json --config valetkey.toml")
    )
    assert shown["authentication_method"] == "client_secret"
    keys = json.loads(terminal.run("valetkey key list --json --config valetkey.toml"))
    assert "RS256" in {key["algorithm"] for key in keys["signing_keys"]}

    # The same settings on loopback, where no certificate is needed.
    guide_settings = load(tmp_path / "valetkey.toml", {})
    settings = replace(
        guide_settings,
        authorization=replace(guide_settings.authorization, tls_proxy=False),
        resource=replace(guide_settings.resource, tls_proxy=False),
    )
    with Servers(tmp_path, settings=settings, with_resource=False, every_algorithm=True) as servers:
        url = f"{servers.auth_url}/.well-known/openid-configuration"
        metadata = json.load(urlopen(url, timeout=CEILING))
        secret = "replace-me-certify-3-0123456789abcdef0123"
        answers = [
            _by_body(servers, "certify-post", candidate) for candidate in (secret, f"{secret}4")
        ]
    # Who the client is, is settled before its code is looked at.
    assert answers == ["invalid_grant", "invalid_client"]
    assert metadata["registration_endpoint"]
    assert {"code", "id_token", "id_token token", "code id_token", "code token"} <= {
        *metadata["response_types_supported"]
    }
    assert {"authorization_code", "implicit", "refresh_token"} <= {
        *metadata["grant_types_supported"]
    }
    assert {"query", "fragment", "form_post"} <= {*metadata["response_modes_supported"]}
    assert "RS256" in metadata["id_token_signing_alg_values_supported"]
    announced = {*metadata["token_endpoint_auth_methods_supported"]}
    assert {"client_secret_basic", "client_secret_post"} <= announced
    assert {"openid", "profile", "email", "address", "phone"} <= {*metadata["scopes_supported"]}
    assert metadata["end_session_endpoint"]
