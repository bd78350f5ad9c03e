"""The guide to certification: its files are applied, and the server announces what is needed."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

from tests.documents.pages import blocks
from tests.documents.shell import Terminal
from tests.support.wait import CEILING
from valetkey.config.load import load
from valetkey.testing.server import Servers

PAGE = "docs/how-to/operate/certify-your-installation.md"


def test_files_of_the_guide_give_a_server_that_can_be_certified(tmp_path: Path) -> None:
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
    keys = json.loads(terminal.run("valetkey key list --json --config valetkey.toml"))
    assert "RS256" in {key["algorithm"] for key in keys["signing_keys"]}

    # The same settings on loopback, where no certificate is needed.
    given = load(tmp_path / "valetkey.toml", {})
    settings = replace(
        given,
        authorization=replace(given.authorization, tls_proxy=False),
        resource=replace(given.resource, tls_proxy=False),
    )
    with Servers(tmp_path, settings=settings, with_resource=False, every_algorithm=True) as servers:
        place = f"{servers.auth_url}/.well-known/openid-configuration"
        found = json.load(urlopen(place, timeout=CEILING))
    assert found["registration_endpoint"]
    assert {"code", "id_token", "id_token token", "code id_token", "code token"} <= {
        *found["response_types_supported"]
    }
    assert {"authorization_code", "implicit", "refresh_token"} <= {*found["grant_types_supported"]}
    assert {"query", "fragment", "form_post"} <= {*found["response_modes_supported"]}
    assert "RS256" in found["id_token_signing_alg_values_supported"]
    methods = {*found["token_endpoint_auth_methods_supported"]}
    assert {"client_secret_basic", "client_secret_post"} <= methods
    assert {"openid", "profile", "email", "address", "phone"} <= {*found["scopes_supported"]}
    assert found["end_session_endpoint"]
