"""`valetkey login`: a token for a developer, from the response that arrives on this machine."""

import json
import subprocess
from pathlib import Path

import requests

from tests.cli.running import PROGRAM, Running, clean_environment, valetkey
from tests.support.wait import CEILING
from valetkey.authorization.model.client import ApplicationType
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_SECRET = "vk_cs_" + "s" * 40


def _login(servers: Servers, here: Path, button: str) -> tuple[int, str, str]:
    """Run the command; ada signs in and presses this button of the consent page."""
    words = ("login", "printer", "--server", servers.auth_url, "--scope", "notes:read")
    with Running(
        [str(PROGRAM), *words, "--no-browser", "--json"],
        cwd=here,
        env={**clean_environment(), "CLIENT_SECRET": _SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stderr is not None
            assert "Sign in within 5 minutes" in running.stderr.readline()
            browser = UserAgent(servers.auth_url)
            page = browser.open(running.stderr.readline().strip())
            page = browser.sign_in(page, "ada", _PASSWORD)
            page = browser.submit(page, button)
            shown = requests.get(page.location, timeout=CEILING)
            assert "You can close this window" in shown.text
        except BaseException:
            running.kill()
            raise
        out, err = running.communicate(timeout=CEILING)
    return running.returncode, out, err


def test_login_prints_a_token_that_the_api_accepts(tmp_path: Path) -> None:
    with Servers(tmp_path / "servers") as servers:
        servers.register_user("ada", _PASSWORD)
        metadata = ClientMetadata(
            name="Printer",
            application_type=ApplicationType.NATIVE,
            redirect_uris=("http://127.0.0.1/callback",),
            scopes=("notes:read", "notes:write"),
        )
        servers.register_client(metadata, "printer", _SECRET)
        code, out, err = _login(servers, tmp_path, "deny")
        assert (code, out) == (1, "")
        assert "access_denied" in err
        code, out, err = _login(servers, tmp_path, "allow")
        assert code == 0, err
        token_response = json.loads(out)
        assert token_response["scope"] == "notes:read"
        bearer = {"authorization": f"Bearer {token_response['access_token']}"}
        notes = f"{servers.api_url}/v2/notes"
        assert requests.get(notes, headers=bearer, timeout=CEILING).status_code == 200
        refused = requests.post(notes, json={"title": "x"}, headers=bearer, timeout=CEILING)
        assert refused.status_code == 403
    assert [path.name for path in tmp_path.iterdir()] == ["servers"]


def test_login_sends_no_secret_without_tls(tmp_path: Path) -> None:
    ran = valetkey("login", "printer", "--server", "http://auth.example", here=tmp_path)
    assert ran.code == 2
    assert "https" in ran.err
