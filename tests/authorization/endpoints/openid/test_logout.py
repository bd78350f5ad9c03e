"""An app of another site asks by a form: a real browser keeps our cookies back, and it works."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser

from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
FORM = """<!DOCTYPE html><title>App</title><form method="post" action="%s/oauth/logout">
<input name="client_id" value="leaver"><input name="post_logout_redirect_uri" value="%s/bye">
<input name="state" value="1&amp;2"><button id="out">Sign out</button></form>"""


class App(ThreadingHTTPServer):
    """Shows one form. By the name localhost it is another site than the server."""

    shown = ""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_port}"


@pytest.fixture
def app() -> Iterator[App]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(server.shown.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = App(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("signed_in", [True, False])
def test_logout_form_of_another_site_is_confirmed_and_redirects_back(
    tmp_path: Path, app: App, browser: Browser, signed_in: bool
) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        op = servers.auth_url
        app.shown = FORM % (op, app.url)
        servers.register_user("ada", PASSWORD)
        metadata = ClientMetadata(
            "Leaver",
            redirect_uris=(f"{app.url}/cb",),
            openid=OpenIdRegistration(post_logout_redirect_uris=(f"{app.url}/bye",)),
        )
        servers.register_client(metadata, "leaver", "l" * 40)
        context = browser.new_context()
        page = context.new_page()
        if signed_in:
            page.goto(f"{op}/oauth/sign-in")
            page.fill("#username", "ada")
            page.fill("#password", PASSWORD)
            page.click("#sign-in")
        page.goto(app.url)
        page.click("#out")
        if signed_in:
            assert "Leaver asks" in page.inner_text("h1")
            page.click("#sign-out")
        page.wait_for_url(f"{app.url}/bye?state=1%262")
        page.goto(f"{op}/")
        assert page.locator("#sign-out").count() == 0
        context.close()
