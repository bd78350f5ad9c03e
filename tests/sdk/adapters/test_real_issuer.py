"""An API behind a gate and a real authorization server: revocation, outage, return."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from flask import Flask

from tests.support.wait import CEILING, wait_until
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.paths import credential_path
from valetkey.kernel.secret import Secret
from valetkey.sdk import Caller, Credential, Gate
from valetkey.sdk.adapters.flask import protect
from valetkey.sdk.client import Client
from valetkey.testing.server import Servers

SECRET = "a-secret-that-is-long-enough-to-count-as-one"


def _register(servers: Servers, token_format: str) -> None:
    metadata = ClientMetadata(
        name="Robot",
        redirect_uris=("https://robot.example/cb",),
        grant_types=("client_credentials",),
        access_token_format=token_format,
    )
    servers.register_client(metadata, "robot", SECRET)


def _api(servers: Servers) -> Callable[[Secret], int]:
    """The status that a Flask application gives to who shows this token."""
    path = credential_path(servers.settings)
    credential = Credential("resource-server", Secret(path.read_text().strip()))
    gate = Gate(servers.auth_url, audience=servers.api_url, credential=credential)
    app = Flask(__name__)
    require = protect(app, gate)

    @app.get("/")
    @require()
    def hello(caller: Caller) -> str:
        return caller.client_id

    def ask(token: Secret) -> int:
        headers = {"Authorization": f"Bearer {token.reveal()}"}
        return app.test_client().get("/", headers=headers).status_code

    return ask


def _revoke(servers: Servers, token: Secret) -> None:
    form = urlencode({"token": token.reveal()}).encode()
    request = Request(f"{servers.auth_url}/oauth/revoke", form)
    request.add_header("authorization", Credential("robot", Secret(SECRET)).basic())
    with urlopen(request, timeout=CEILING) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("token_format", ["jwt", "reference"])
def test_a_revocation_is_followed(tmp_path: Path, token_format: str) -> None:
    with Servers(tmp_path) as servers:
        _register(servers, token_format)
        ask = _api(servers)
        token = Client(servers.auth_url, "robot", secret=Secret(SECRET)).access_token()
        assert (token.reveal().count(".") == 2) is (token_format == "jwt")
        assert ask(token) == 200
        _revoke(servers, token)
        wait_until(lambda: ask(token) != 200)
        assert ask(token) == 401


def test_verified_tokens_are_accepted_while_the_issuer_is_unreachable(tmp_path: Path) -> None:
    with Servers(tmp_path) as servers:
        _register(servers, "jwt")
        ask = _api(servers)
        client = Client(servers.auth_url, "robot", secret=Secret(SECRET))
        token = client.access_token()
        assert ask(token) == 200
    for _ in range(3):
        assert ask(token) == 200
    assert ask(Secret("a.b.c")) == 401
