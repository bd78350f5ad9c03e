"""A site behind nginx, with an application that says which headers reached it."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from tests.clients.programs import find_nginx
from tests.deploy.nginx import DEPLOY, checked, free_port, running
from tests.sdk.certificate import self_signed
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

CLIENT, SECRET = "printer", "a-secret-of-the-printer-with-more-than-32"
USER, PASSWORD = "ada", "correct horse battery staple"


class _Application(BaseHTTPRequestHandler):
    """Answers with the headers that it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Site:
    """Where everything is, and how to call it."""

    servers: Servers
    url: str
    certificate: Path
    log: Path

    def token(self, scope: str) -> str:
        """An access token of ada's."""
        answer = requests.post(
            f"{self.servers.auth_url}/oauth/token",
            {
                "grant_type": "password",
                "username": USER,
                "password": PASSWORD,
                "scope": scope,
            },
            auth=(CLIENT, SECRET),
            timeout=10,
        )
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["access_token"]
        return found

    def get(self, path: str, token: str = "", **headers: str) -> requests.Response:
        """Call through nginx."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return requests.get(
            f"{self.url}{path}",
            headers=headers,
            verify=str(self.certificate),
            timeout=20,
            allow_redirects=False,
        )


@pytest.fixture(scope="module")
def nginx() -> str:
    """The program; without it, no test passes for lack of it."""
    found = find_nginx()
    assert found is not None, "nginx is missing"
    return found


@pytest.fixture(scope="module")
def site(nginx: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """deploy/nginx/protected-site.conf with the addresses of this test, in front of our API."""
    folder = tmp_path_factory.mktemp("site")
    certificate, key = self_signed(folder)
    pages = folder / "app" / "reports"
    pages.mkdir(parents=True)
    (pages / "june.txt").write_text("the report of June")
    port = free_port()
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(folder))
        servers.register_user(USER, PASSWORD, uid=1001)
        servers.register_client(
            ClientMetadata(
                name="Notes Printer",
                grant_types=("password", "client_credentials"),
                scopes=("notes:read", "notes:write"),
            ),
            CLIENT,
            SECRET,
        )
        application = ThreadingHTTPServer(("127.0.0.1", 0), _Application)
        stack.callback(application.server_close)
        threading.Thread(target=application.serve_forever, daemon=True).start()
        stack.callback(application.shutdown)
        instead = {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ssl/app.example.com.pem": str(certificate),
            "/etc/ssl/app.example.com.key": str(key),
            "/etc/nginx/snippets": str(DEPLOY / "nginx"),
            "127.0.0.1:8401": servers.api_url.removeprefix("http://"),
            "127.0.0.1:9000": f"127.0.0.1:{application.server_port}",
            "/srv/app": str(folder / "app"),
        }
        command = checked(nginx, folder, "protected-site.conf", instead)
        stack.enter_context(running(command, port))
        yield Site(servers, f"https://127.0.0.1:{port}", certificate, folder / "log")
