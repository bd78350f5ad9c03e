"""What `valetkey doctor` finds by requests through the public URL."""

import asyncio
import os
import shutil
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from bench.ports import free_port
from tests.cli.running import valetkey
from tests.deploy.nginx import running
from tests.reliability.nodes import Node, configure, stopped_in_the_end
from valetkey.authorization.actions.inspection.check import Level
from valetkey.cli.doctoring import reach
from valetkey.cli.doctoring.finding import Finding
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace

_NGINX = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log crit;
events {{ worker_connections 64; }}
http {{
    access_log {prefix}/access.log;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host another.example;
        }}
        location /oauth/ {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


def test_proxy_that_logs_queries_and_forwards_another_host_is_found(tmp_path: Path) -> None:
    port, behind = free_port(), free_port()
    url, listen = f"http://127.0.0.1:{port}", f"127.0.0.1:{behind}"
    node = Node(tmp_path / "node")
    configure(node.here, url=url, listen=listen, database="sqlite:///a/auth.db")
    prefix = tmp_path / "nginx"
    prefix.mkdir()
    file = prefix / "nginx.conf"
    file.write_text(_NGINX.format(prefix=prefix, port=port, behind=behind))
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "nginx is missing"
    with stopped_in_the_end(node):
        node.start()
        with running([program, "-p", str(prefix), "-c", str(file)], port):
            ran = valetkey("doctor", "--logs", str(prefix), "--json", here=node.here)
    assert ran.code == 1
    found = {each["about"]: each for each in ran.json["findings"] if each["level"] == "error"}
    assert "another Host" in found["authorization proxy"]["found"]
    assert "proxy_set_header Host $host" in found["authorization proxy"]["next"]
    assert str(prefix / "access.log") in found["canary"]["found"]
    assert "run-behind-a-proxy" in found["canary"]["page"]


class _Unavailable(BaseHTTPRequestHandler):
    """Answers 503 to everything, or nothing for a while."""

    silence = 0.0

    def do_GET(self) -> None:
        sleep(self.silence)
        with suppress(OSError):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("silence", "said"), [(0.0, "answers 503"), (1.0, "does not respond within")]
)
def test_server_that_is_unavailable_is_not_told_to_have_another_name(
    silence: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Unavailable, "silence", silence)
    monkeypatch.setattr(reach, "_WITHIN", 0.3)

    async def look(settings: Settings) -> list[Finding]:
        return [
            each async for each in reach.check_reachability(settings) if each.level is not Level.OK
        ]

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Unavailable)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        given = Settings()
        both = {
            "authorization": replace(given.authorization, url=url),
            "resource": replace(given.resource, url=url),
        }
        found = asyncio.run(look(replace(given, **both)))  # type: ignore[arg-type]
    finally:
        server.shutdown()
        server.server_close()
    assert [each.about for each in found] == ["authorization server", "resource server"]
    assert all(said in each.found for each in found)
