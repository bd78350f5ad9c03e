"""An app that is nothing but a page redeems, refreshes and revokes from its own origin."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636 appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
ASK = """async ([url, form]) => {
  const answer = await fetch(url, { method: "POST", body: new URLSearchParams(form) });
  const text = await answer.text();
  return [answer.status, text ? JSON.parse(text) : null];
}"""


class Empty(BaseHTTPRequestHandler):
    """The app's page; what it does is written in the tests."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>App</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def app_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_page_of_another_origin_can_read_token_and_error_responses(
    tmp_path: Path, app_url: str, browser: Browser
) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        servers.register_user("ada", PASSWORD)
        servers.register_client(
            ClientMetadata(
                "Page", type="public", redirect_uris=(f"{app_url}/cb",), scopes=("openid",)
            ),
            "page",
        )
        token_url, revoke_url = (f"{servers.auth_url}/oauth/{name}" for name in ("token", "revoke"))
        parameters = {
            "response_type": "code",
            "client_id": "page",
            "redirect_uri": f"{app_url}/cb",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }
        page = browser.new_page()
        page.goto(f"{servers.auth_url}/oauth/authorize?{urlencode(parameters)}")
        page.fill("#username", "ada")
        page.fill("#password", PASSWORD)
        page.click("#sign-in")
        page.click("#allow")
        page.wait_for_url(f"{app_url}/**")
        redeem = {
            "grant_type": "authorization_code",
            "client_id": "page",
            "code": page.evaluate("new URLSearchParams(location.search).get('code')"),
            "redirect_uri": f"{app_url}/cb",
            "code_verifier": VERIFIER,
        }
        status, tokens = page.evaluate(ASK, [token_url, redeem])
        assert status == 200
        assert tokens["id_token"]
        again = page.evaluate(ASK, [token_url, redeem])
        assert (again[0], again[1]["error"]) == (400, "invalid_grant")
        refresh = {
            "grant_type": "refresh_token",
            "client_id": "page",
            "refresh_token": tokens["refresh_token"],
        }
        # The second use of its code ended what the first one gave.
        assert page.evaluate(ASK, [token_url, refresh])[1]["error"] == "invalid_grant"
        revoke = {"client_id": "page", "token": tokens["access_token"]}
        assert page.evaluate(ASK, [revoke_url, revoke]) == [200, {}]
        page.close()
