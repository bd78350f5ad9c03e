"""The session's frame in a real browser: an app asks it, before and after the person signs out."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from valetkey.authorization.protocol.logout import session_state
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
CLIENT = "watcher"
PAGE = """<!DOCTYPE html><title>App</title><iframe id="op" src="%s/oauth/check-session"></iframe>
<script>
const ask = (text) => new Promise((answer) => {
  addEventListener("message", (event) => answer([event.data, event.origin]), { once: true });
  document.getElementById("op").contentWindow.postMessage(text, "%s");
});
</script>"""


@pytest.fixture
def app_url() -> Iterator[list[str]]:
    """An app's web server on a port of its own; what it shows is the second item."""
    shown = ["", ""]

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(shown[1].encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    shown[0] = f"http://127.0.0.1:{server.server_port}"
    yield shown
    server.shutdown()
    server.server_close()


def ask(page: Page, text: object) -> object:
    """What the frame says, and from where."""
    return page.evaluate("(text) => ask(text)", text)


def test_check_session_frame_reports_unchanged_changed_and_error(
    tmp_path: Path, app_url: list[str], browser: Browser
) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        app, op = app_url[0], servers.auth_url
        app_url[1] = PAGE % (op, op)
        servers.register_user("ada", PASSWORD)
        metadata = ClientMetadata("Watcher", redirect_uris=(f"{app}/cb",), scopes=("openid",))
        servers.register_client(metadata, CLIENT, "w" * 40)
        context = browser.new_context()
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        parameters = {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": f"{app}/cb",
            "scope": "openid",
        }
        page.goto(f"{op}/oauth/authorize?{urlencode(parameters)}")
        page.fill("#username", "ada")
        page.fill("#password", PASSWORD)
        page.click("#sign-in")
        page.click("#allow")
        page.wait_for_url(f"{app}/**")
        state = page.evaluate("new URLSearchParams(location.search).get('session_state')")
        assert isinstance(state, str)
        assert ask(page, f"{CLIENT} {state}") == ["unchanged", op]
        assert ask(page, f"other {state}") == ["changed", op]
        assert ask(page, f"{CLIENT} x{state}") == ["changed", op]
        for nonsense in (
            "",
            CLIENT,
            f"{CLIENT} {state.partition('.')[0]}",
            f"a b {state}",
            7,
            None,
        ):
            assert ask(page, nonsense) == ["error", op]
        other = context.new_page()
        other.goto(f"{op}/oauth/sign-out")
        other.click("#sign-out")
        assert other.inner_text("h1") == "You are signed out"
        assert ask(page, f"{CLIENT} {state}") == ["changed", op]
        other.goto(f"{op}/oauth/sign-in")
        other.fill("#username", "ada")
        other.fill("#password", PASSWORD)
        other.click("#sign-in")
        assert ask(page, f"{CLIENT} {state}") == ["changed", op]
        assert not complaints
        context.close()


def test_page_without_session_state_cannot_detect_a_signed_in_user(
    tmp_path: Path, app_url: list[str], browser: Browser
) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        stranger, op = app_url[0], servers.auth_url
        app_url[1] = PAGE % (op, op)
        servers.register_user("ada", PASSWORD)
        page = browser.new_context().new_page()
        page.goto(stranger)
        # What it would be told of nobody's session, which anyone can work out.
        guess = session_state("any", stranger, "", "salt")
        signed_out = ask(page, f"any {guess}")
        person = page.context.new_page()
        person.goto(f"{op}/oauth/sign-in")
        person.fill("#username", "ada")
        person.fill("#password", PASSWORD)
        person.click("#sign-in")
        assert person.context.cookies(op)
        assert ask(page, f"any {guess}") == signed_out == ["changed", op]
        page.context.close()
