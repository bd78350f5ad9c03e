"""`make interop`: oauth2-proxy, alone and behind nginx, with the configuration of its presets.

The Go toolchain builds it.
"""

import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import register, running, sign_in
from tests.clients.protected import with_ports
from tests.deploy.nginx import AROUND
from tests.deploy.nginx import running as in_front
from valetkey.testing.server import Servers

PROGRAM = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; Go's own caches make the second build quick."""
    folder = tmp_path_factory.mktemp("bin")
    environment = {**os.environ, "GOBIN": str(folder)}
    built = subprocess.run(
        ["go", "install", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder / "oauth2-proxy"


class _App(BaseHTTPRequestHandler):
    """An app that shows who the proxy says is there."""

    def do_GET(self) -> None:
        """Answer with the path and the headers of the proxy."""
        named = ("X-Forwarded-User", "X-Forwarded-Groups", "X-User")
        body = " ".join([self.path, *(self.headers.get(name, "") for name in named)]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def _app(port: int) -> Generator[None]:
    server = HTTPServer(("127.0.0.1", port), _App)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("group", "is_admitted"), [("staff", True), ("pilots", False)])
def test_oauth2_proxy_admits_members_and_signs_out(
    servers: Servers, tab: Page, proxy: Path, tmp_path: Path, group: str, *, is_admitted: bool
) -> None:
    port, app = free_port(), free_port()
    url = f"http://localhost:{port}"
    registered = register(servers, "oauth2-proxy", f"{url}/oauth2/callback")
    config = registered.files["oauth2-proxy.cfg"]
    (tmp_path / "oauth2-proxy.cfg").write_text(config.replace("127.0.0.1:3000", f"127.0.0.1:{app}"))
    command: list[str | Path] = [
        proxy,
        "--config=oauth2-proxy.cfg",
        f"--http-address=127.0.0.1:{port}",
        f"--allowed-group={group}",
    ]
    with _app(app), running(command, tmp_path, f"{url}/ping", {"PATH": os.environ["PATH"]}):
        tab.goto(f"{url}/page")
        tab.click("button:has-text('Sign in')")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/**")
        if not is_admitted:
            assert "Forbidden" in tab.inner_text("body")
            return
        path, uid, groups = tab.inner_text("body").split()
        assert path == "/page"
        assert uid.isdigit()
        assert groups == "staff"
        line = next(line for line in config.splitlines() if "/oauth2/sign_out" in line)
        tab.goto(url + line.removeprefix("# "))
        tab.wait_for_url(f"{servers.auth_url}/oauth/logout**")
        tab.click("#sign-out")
        tab.wait_for_url(f"{url}/**")
        assert tab.locator("button:has-text('Sign in')").count()
        tab.click("button:has-text('Sign in')")
        assert tab.locator("#sign-in").count(), "the session at the server has ended as well"


def test_nginx_admits_signed_in_users_to_the_page_they_asked_for(
    servers: Servers, tab: Page, proxy: Path, nginx: str, tmp_path: Path
) -> None:
    port, beside, app = free_port(), free_port(), free_port()
    url = f"http://localhost:{port}"
    registered = register(servers, "nginx", f"{url}/oauth2/callback")
    config = registered.files["oauth2-proxy.cfg"]
    (tmp_path / "oauth2-proxy.cfg").write_text(config)
    site = with_ports(registered.files["nginx.conf"], {"4180": beside, "3000": app})
    (tmp_path / "conf.d").mkdir()
    text = f"server {{ listen 127.0.0.1:{port}; {site} }}"
    (tmp_path / "conf.d" / "site.conf").write_text(text)
    (tmp_path / "nginx.conf").write_text(AROUND.format(prefix=tmp_path))
    command: list[str | Path] = [
        proxy,
        "--config=oauth2-proxy.cfg",
        f"--http-address=127.0.0.1:{beside}",
    ]
    ping = f"http://127.0.0.1:{beside}/ping"
    ahead = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with (
        _app(app),
        running(command, tmp_path, ping, {"PATH": os.environ["PATH"]}),
        in_front(ahead, port, tmp_path / "nginx.log"),
    ):
        page = f"{url}/page?one=1&two=2"
        tab.goto(page)
        tab.click("button:has-text('Sign in')")
        sign_in(tab, servers)
        tab.wait_for_url(page)
        path, uid = tab.inner_text("body").split()
        assert path == "/page?one=1&two=2"
        assert uid.isdigit()
        line = next(line for line in config.splitlines() if "/oauth2/sign_out" in line)
        tab.goto(url + line.removeprefix("# "))
        tab.wait_for_url(f"{servers.auth_url}/oauth/logout**")
        tab.click("#sign-out")
        tab.wait_for_url(f"{url}/**")
        assert tab.locator("button:has-text('Sign in')").count()
