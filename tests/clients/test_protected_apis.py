"""The console's code for an API, run as it is shown: Spring and Go are in interop/."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.clients.node.library import FOLDER
from tests.clients.presets.site import running
from tests.clients.protected import SECRET, Issuer, issuer, protected, with_ports
from tests.deploy.nginx import AROUND
from tests.deploy.nginx import running as proxy
from valetkey.authorization.apis.pages import FRAMEWORKS

_BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with issuer(tmp_path_factory.mktemp("issuer")) as running_issuer:
        yield running_issuer


@pytest.mark.parametrize("name", ["fastapi", "flask", "django"])
def test_python_api_accepts_tokens_for_its_api_only(it: Issuer, name: str, tmp_path: Path) -> None:
    program, *rest = FRAMEWORKS[name].run.split()
    with protected(it, name, [_BIN / program, *rest], tmp_path) as url:
        it.refuses_others(url)


def test_express_api_accepts_tokens_for_its_api_only(it: Issuer, node: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(FOLDER.parent / "node_modules")
    program, *rest = FRAMEWORKS["express"].run.split()
    assert program == "node"
    with protected(it, "express", [node, *rest], tmp_path) as url:
        it.refuses_others(url)


class _Application(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(
            {"client": self.headers["X-Client"], "token": self.headers["Authorization"] or ""}
        ).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def application() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Application)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_nginx_accepts_tokens_for_its_api_only(
    it: Issuer, nginx: str, application: int, tmp_path: Path
) -> None:
    ports = {"8080": free_port(), "8081": free_port(), "9000": application}
    it.write("nginx", tmp_path, ports)
    (tmp_path / "nginx.conf").write_text(AROUND.format(prefix=tmp_path))
    program, *rest = with_ports(FRAMEWORKS["nginx"].run, ports).split()
    check = f"http://127.0.0.1:{ports['8081']}/check"
    url = f"http://127.0.0.1:{ports['8080']}/"
    environment = {**os.environ, "API_SECRET": SECRET}
    command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with (
        running([_BIN / program, *rest], tmp_path, check, environment),
        proxy(command, ports["8080"], tmp_path / "nginx.log"),
    ):
        it.refuses_others(url)
