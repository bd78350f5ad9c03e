"""A site behind a proxy, with an application that says which headers reached it."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from bench.ports import free_port
from tests.clients.programs import find_nginx, find_proxy
from tests.deploy.nginx import DEPLOY, checked, running
from tests.sdk.certificate import self_signed
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

CLIENT, SECRET = "printer", "a-secret-of-the-printer-with-more-than-32"
USER, PASSWORD = "ada", "correct horse battery staple"


class _Application(BaseHTTPRequestHandler):
    """Answers with the headers that it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/gone"):
            self.close_connection = True
            return
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
    host: str = "app.example.com"

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
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        access_token: str = answer.json()["access_token"]
        return access_token

    def get(self, path: str, token: str = "", **headers: str) -> requests.Response:
        """Call through the proxy."""
        headers.setdefault("Host", self.host)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return requests.get(
            f"{self.url}{path}",
            headers=headers,
            verify=str(self.certificate),
            timeout=60,
            allow_redirects=False,
        )


@dataclass(frozen=True)
class Behind:
    """What stands behind a proxy: our servers, an application, and a certificate to show."""

    folder: Path
    servers: Servers
    application: str
    certificate: Path
    key: Path

    @property
    def api(self) -> str:
        """Where our API listens."""
        return self.servers.api_url.removeprefix("http://")


@contextmanager
def behind(folder: Path) -> Generator[Behind]:
    """Both servers with ada and the printer, and an application that says what it is told."""
    certificate, key = self_signed(folder)
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
        address = f"127.0.0.1:{application.server_port}"
        yield Behind(folder, servers, address, certificate, key)


@pytest.fixture(scope="module")
def nginx() -> str:
    """The program; without it, no test passes for lack of it."""
    return _program("nginx", find_nginx())


@pytest.fixture(scope="module")
def caddy() -> str:
    """The same for Caddy."""
    return _program("caddy", find_proxy("caddy"))


@pytest.fixture(scope="module")
def traefik() -> str:
    """The same for Traefik."""
    return _program("traefik", find_proxy("traefik"))


@pytest.fixture(scope="module")
def envoy() -> str:
    """The same for Envoy."""
    return _program("envoy", find_proxy("envoy"))


@pytest.fixture(scope="module")
def haproxy() -> str:
    """The same for HAProxy."""
    return _program("haproxy", find_proxy("haproxy"))


def _program(name: str, program: str | None) -> str:
    assert program is not None, f"{name} is missing"
    return program


@pytest.fixture(scope="module")
def site(nginx: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """deploy/nginx/protected-site.conf with the addresses of this test, in front of our API."""
    folder = tmp_path_factory.mktemp("site")
    pages = folder / "app" / "reports"
    pages.mkdir(parents=True)
    (pages / "june.txt").write_text("the report of June")
    port = free_port()
    with behind(folder) as there:
        instead = {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ssl/app.example.com.pem": str(there.certificate),
            "/etc/ssl/app.example.com.key": str(there.key),
            "/etc/nginx/snippets": str(DEPLOY / "nginx"),
            "127.0.0.1:8401": there.api,
            "127.0.0.1:9000": there.application,
            "/srv/app": str(folder / "app"),
        }
        with running(checked(nginx, folder, "protected-site.conf", instead), port):
            yield Site(
                there.servers, f"https://127.0.0.1:{port}", there.certificate, folder / "log"
            )
