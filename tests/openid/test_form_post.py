"""The answer as a form, in a real browser: under our policy, with scripts and without."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest
from playwright.sync_api import Browser, Page

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
STATE = "\t\"><script>&\u0085\u2028\ufeff\U0001f600%0d+ '`&amp;é"


@contextmanager
def app() -> Generator[tuple[str, list[str]]]:
    """A redirect URI, and the bodies of what was posted to it."""
    posted: list[str] = []

    class Callback(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b'<link rel="icon" href="data:,"><h1>Received</h1>')

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Callback)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/cb", posted
    finally:
        server.shutdown()
        server.server_close()


def to_the_answer(page: Page, servers: Servers, redirect_uri: str) -> None:
    query = urlencode(
        {
            "client_id": "app",
            "redirect_uri": redirect_uri,
            "response_type": "code id_token",
            "response_mode": "form_post",
            "scope": "openid",
            "nonce": "n",
            "state": STATE,
            "login_hint": "ada",
        }
    )
    page.goto(f"{servers.auth_url}/oauth/authorize?{query}")
    assert page.input_value("#username") == "ada"
    page.fill("#password", PASSWORD)
    page.click("#sign-in")
    page.click("#allow")


@pytest.mark.parametrize("scripts", [True, False])
def test_form_post_delivers_the_parameters_unchanged(
    browser: Browser, tmp_path: Path, scripts: bool
) -> None:
    with app() as (redirect_uri, posted), Servers(tmp_path, with_resource=False) as servers:
        servers.register_user("ada", PASSWORD)
        metadata = ClientMetadata(
            name="Notes Printer",
            redirect_uris=(redirect_uri,),
            grant_types=("authorization_code", "implicit"),
            scopes=("openid",),
        )
        servers.register_client(metadata, "app", "s" * 40)
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        to_the_answer(page, servers, redirect_uri)
        if not scripts:
            assert "Back to Notes Printer" in page.inner_text("h1")
            page.click("#continue")
        page.wait_for_selector("text=Received")
        context.close()
    assert complaints == []
    (body,) = posted
    parameters = dict(parse_qsl(body, keep_blank_values=True, strict_parsing=True))
    assert parameters.keys() == {"code", "id_token", "state", "iss", "session_state"}
    assert parameters["state"] == STATE
