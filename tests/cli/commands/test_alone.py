"""The authorization server alone: no resource server, APIs of one's own."""

import json
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from flask import Flask

from bench.ports import free_port
from tests.cli.commands.test_serve import get
from tests.cli.running import valetkey
from tests.cli.site import serving
from tests.support.wait import CEILING
from valetkey.authorization.features import SCOPES
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.agreement import disagreements
from valetkey.config.load import OperatorErrors, load
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.sdk import Caller, Gate
from valetkey.sdk.adapters.flask import protect
from valetkey.sdk.client import Client
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

API = "https://orders.example.com"
SECRET = "a-secret-that-is-long-enough-to-count-as-one"
PASSWORD = "correct horse battery staple"


def _status(issuer: str, token: Secret, audience: str) -> int:
    """The status that a Flask application of one's own gives to a token."""
    app = Flask(__name__)
    require = protect(app, Gate(issuer, audience=audience))

    @app.get("/")
    @require()
    def hello(caller: Caller) -> str:
        return caller.client_id

    headers = {"Authorization": f"Bearer {token.reveal()}"}
    return app.test_client().get("/", headers=headers).status_code


def test_authorization_server_alone_serves_a_declared_api_that_the_sdk_protects(
    tmp_path: Path,
) -> None:
    port = free_port()
    (tmp_path / "valetkey.toml").write_text(
        f'[authorization]\nurl = "http://127.0.0.1:{port}"\nlisten = "127.0.0.1:{port}"\n'
        '[resource]\nenabled = false\n[tokens]\nsigning_algorithms = ["ES256"]\n'
    )
    with serving(tmp_path) as site:
        assert site.resource == ""
        status, body = get(f"{site.authorization}/.well-known/openid-configuration")
        assert status == 200
        own = {*IDENTITY_SCOPES, *SCOPES, "client:read"}
        assert set(json.loads(body)["scopes_supported"]) <= own
        assert get(f"{site.authorization}/oauth/identity")[0] == 404
        declared = valetkey(
            "api", "declare", "--identifier", API, "--name", "Orders", "--scopes",
            '{"orders:read": "see your orders"}', "--machine-scope", "orders:sync", here=tmp_path,
        )  # fmt: skip
        assert declared.code == 0, declared.err
        made = valetkey(
            "client", "create", "--name", "Robot", "--id", "robot", "--json",
            "--grant-type", "client_credentials", "--scope", "orders:sync", here=tmp_path,
        )  # fmt: skip
        assert made.code == 0, made.err
        secret = Secret(made.json["client_secret"])
        robot = Client(site.authorization, "robot", secret=secret, resource=API)
        token = robot.access_token()
        assert _status(site.authorization, token, API) == 200
        assert _status(site.authorization, token, f"{API}/other") == 401
        doctor = valetkey("doctor", here=tmp_path)
        assert "resource server:" not in doctor.out
        refused = valetkey("serve", "resource", here=tmp_path)
        assert (refused.code, "resource.enabled" in refused.err) == (2, True)
        site.process.terminate()
        assert site.process.wait(CEILING) == 0
    assert not (tmp_path / "valetkey/resource.db").exists()


def test_api_of_the_settings_is_the_default(tmp_path: Path) -> None:
    scopes = (("orders:read", "see your orders"), ("orders:sync", ""))
    settings = replace(Settings(), resource=ResourceSettings(enabled=False, scopes=scopes))
    with Servers(tmp_path, settings=settings, with_resource=False) as servers:
        servers.register_user("alice", PASSWORD)
        callback = "https://app.example/cb"
        servers.register_client(
            ClientMetadata(
                "App",
                redirect_uris=(callback,),
                grant_types=("authorization_code",),
                scopes=("openid", "orders:read"),
            ),
            "app",
            SECRET,
        )
        with urlopen(
            f"{servers.auth_url}/.well-known/openid-configuration", timeout=CEILING
        ) as answer:
            supported = json.loads(answer.read())["scopes_supported"]
        assert {"orders:read", "orders:sync"} <= set(supported)
        assert not {"read", "notes:read", "account:read"} & set(supported)
        parameters = {"response_type": "code", "client_id": "app", "redirect_uri": callback}
        person = UserAgent(servers.auth_url)
        query = urlencode({**parameters, "scope": "openid orders:read"})
        page = person.open(f"{servers.auth_url}/oauth/authorize?{query}")
        page = person.sign_in(page, "alice", PASSWORD)
        assert "see your orders" in page.text
        assert "code" in person.allow(page).redirect_parameters
        robot = Client(servers.auth_url, "robot", secret=Secret(SECRET), scope="orders:sync")
        servers.register_client(
            ClientMetadata("Robot", grant_types=("client_credentials",), scopes=("orders:sync",)),
            "robot",
            SECRET,
        )
        assert _status(servers.auth_url, robot.access_token(), servers.api_url) == 200


def test_without_any_api_tokens_are_for_userinfo(tmp_path: Path) -> None:
    alone = Settings(resource=ResourceSettings(enabled=False))
    assert alone.audience == alone.authorization.url
    assert not tuple(disagreements(alone))
    with_own = replace(alone, resource=replace(alone.resource, url=API))
    assert with_own.audience == API
    file = tmp_path / "valetkey.toml"
    file.write_text('[resource]\nenabled = false\nscopes = ["orders:read=see, = yes", "sync="]\n')
    scopes = load(file, {}).resource.scopes
    assert scopes == (("orders:read", "see, = yes"), ("sync", ""))
    for wrong in ('["orders"]', '["a b=c"]', '["#=c"]', '["=c"]', f'["x={"y" * 201}"]'):
        file.write_text(f"[resource]\nenabled = false\nscopes = {wrong}\n")
        with pytest.raises(OperatorErrors):
            load(file, {})
    file.write_text('[resource]\nscopes = ["orders:read=see your orders"]\n')
    with pytest.raises(OperatorErrors, match=r"resource\.scopes"):
        load(file, {})


@pytest.mark.parametrize("name", ["openid", "groups", "client:read"])
def test_api_cannot_have_scopes_of_the_server(tmp_path: Path, name: str) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text(f'[resource]\nenabled = false\nscopes = ["{name}=read everything"]\n')
    checked = valetkey("config", "check", here=tmp_path)
    assert checked.code != 0
    assert f'"{name}" is a scope of the authorization server' in checked.out + checked.err
