"""Snippets: what is pasted and run gets a token, in every language, against a real server."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser

from tests.clients.programs import find_node
from tests.support.visitors import WEB
from valetkey.authorization.model.client import Client, OpenIdRegistration
from valetkey.authorization.portal.rules.quickstart import snippets_of
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

SECRET = "s" * 40
PASSWORD = "correct horse battery staple"
LANDING = "https://app.example/callback?from=here"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers(tmp_path_factory.mktemp("servers"), with_resource=False) as servers:
        servers.register_user("ada", PASSWORD, uid=1001)
        yield servers


def registered(servers: Servers, client_id: str, **changes: object) -> Client:
    metadata = ClientMetadata(
        "Notes Printer", redirect_uris=(LANDING,), scopes=("openid", "profile")
    )
    metadata = replace(metadata, **changes)  # type: ignore[arg-type]
    secret = SECRET if metadata.proof == "client_secret" else None
    return servers.register_client(metadata, client_id, secret)


def command(name: str, file: Path) -> list[str]:
    node = find_node() or shutil.which("node") or "node"
    return {
        "curl": ["sh", str(file)],
        "python": [sys.executable, str(file)],
        "authlib": [sys.executable, str(file)],
        "node": [node, str(file)],
    }[name]


def ran(servers: Servers, client: Client, name: str, folder: Path, *, asks: bool = True) -> str:
    """What the program says, run as it is on the page; ada allows what it asks for."""
    snippets = {
        snippet.id: snippet for snippet in snippets_of(client, servers.auth_url, servers.api_url)
    }
    file = folder / ("snippet.mjs" if name == "node" else "snippet")
    file.write_text(snippets[name].code, encoding="utf-8")
    # The server of this test has no TLS, which Authlib wants to be told.
    environment = {**os.environ, "CLIENT_SECRET": SECRET, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    with subprocess.Popen(
        command(name, file),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        landed = ""
        if asks:
            lines = [program.stdout.readline(), program.stdout.readline()]
            assert lines[1].startswith(servers.auth_url), lines
            landed = allowed(servers, lines[1].strip())
        output, _ = program.communicate(f"{landed}\n", timeout=60)
    assert program.returncode == 0, output
    return output


def allowed(servers: Servers, url: str) -> str:
    person = UserAgent(servers.auth_url)
    page = person.sign_in(person.open(url), "ada", PASSWORD)
    if not page.location:
        page = person.submit(page, "allow")
    assert page.location, page.text
    return page.location


@pytest.mark.parametrize("name", ["curl", "python", "authlib", "node"])
@pytest.mark.parametrize("kind", ["post", "basic", "public"])
def test_snippet_gets_a_user_token(servers: Servers, tmp_path: Path, name: str, kind: str) -> None:
    method = {"post": "client_secret_post", "basic": "client_secret_basic", "public": ""}[kind]
    client = registered(
        servers,
        f"{kind}-{name}",
        type="public" if kind == "public" else "confidential",
        openid=OpenIdRegistration(token_endpoint_auth_method=method if kind != "public" else ""),
    )
    output = ran(servers, client, name, tmp_path)
    if name == "curl":
        assert '"access_token"' in output
    else:
        assert "Allowed: openid profile" in output
        assert "1001" in output


@pytest.mark.parametrize("name", ["curl", "python", "node"])
@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_snippet_gets_a_client_credentials_token(
    servers: Servers, tmp_path: Path, name: str, method: str
) -> None:
    client = registered(
        servers,
        f"machine-{name}-{method}",
        grant_types=("client_credentials",),
        redirect_uris=(),
        scopes=(),
        openid=OpenIdRegistration(token_endpoint_auth_method=method),
    )
    output = ran(servers, client, name, tmp_path, asks=False)
    assert "client:read" in output


@pytest.mark.parametrize("kind", ["public", "confidential"])
def test_secret_is_mentioned_only_for_confidential_clients(servers: Servers, kind: str) -> None:
    client = registered(servers, f"spoken-{kind}", type=kind)
    for snippet in snippets_of(client, servers.auth_url, servers.api_url):
        assert (
            "secret"
            in snippet.code.replace("secret of this request", "").replace("secrets", "").lower()
        ) is (kind == "confidential"), snippet.code


class _Page(BaseHTTPRequestHandler):
    def __init__(self, page: list[bytes], *more: object) -> None:
        self._page = page
        super().__init__(*more)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self._page[0])

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_browser_snippet_signs_a_user_in(servers: Servers, browser: Browser) -> None:
    page: list[bytes] = [b""]
    with HTTPServer(("127.0.0.1", 0), partial(_Page, page)) as server:
        uri = f"http://127.0.0.1:{server.server_port}/"
        client = registered(servers, "in-a-browser", redirect_uris=(uri,), type="public")
        snippets = {snippet.id: snippet for snippet in snippets_of(client, servers.auth_url, "")}
        page[0] = snippets["browser"].code.encode()
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            tab = browser.new_page()
            tab.goto(uri)
            tab.click("#sign-in")
            tab.fill("[name=username]", "ada")
            tab.fill("[name=password]", PASSWORD)
            tab.click("#sign-in")
            tab.click("#allow")
            tab.wait_for_function("document.getElementById('said')?.textContent")
            assert tab.text_content("#said") == "Allowed: openid profile"
            assert tab.url == uri
        finally:
            server.shutdown()
            thread.join()


def test_snippets_escape_client_ids_and_redirect_uris() -> None:
    odd = replace(WEB, id="a'b\"$(x)`y`</script>\\", redirect_uris=("https://app.example/'\"$x",))
    snippets = {snippet.id: snippet for snippet in snippets_of(odd, "https://auth.example", "")}
    shell = subprocess.run(
        ["sh", "-c", snippets["curl"].code.partition("\n\n")[0] + '\nprintf %s "$client_id"'],
        capture_output=True,
        check=True,
        text=True,
    )
    assert shell.stdout == odd.id
    for name in ("python", "authlib"):
        compile(snippets[name].code, name, "exec")
    assert "</script>" not in snippets["node"].code


def test_snippets_hold_no_secret_and_exist_only_for_usable_grants() -> None:
    for snippet in snippets_of(WEB, "https://auth.example", "https://api.example"):
        assert "CLIENT_SECRET" in snippet.code
        assert not re.search(r"@[A-Z_]+@|^\w+\|", snippet.code, re.MULTILINE)
        assert snippet.id != "browser"
    nothing = replace(WEB, grant_types=frozenset({"password"}))
    assert snippets_of(nothing, "https://auth.example", "https://api.example") == ()
