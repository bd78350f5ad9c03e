"""What `valetkey doctor` finds by requests to sign-in providers."""

import asyncio
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import time

from bench.ports import free_port
from tests.cli.serving.test_tls import certify
from valetkey.cli.doctoring import CheckResult, needed_servers
from valetkey.config.load import load


class _Provider(BaseHTTPRequestHandler):
    """A provider whose clock is ahead by so many seconds."""

    ahead = 0

    def do_HEAD(self) -> None:
        fine = self.path == "/tenant/.well-known/openid-configuration"
        self.send_response(HTTPStatus.OK if fine else HTTPStatus.NOT_FOUND)
        self.end_headers()

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(time() + self.ahead)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def _provider(folder: Path, ahead: int) -> Generator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Ahead", (_Provider,), {"ahead": ahead}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "c.pem", folder / "k.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _found(folder: Path, port: int) -> list[tuple[str, str, str]]:
    (folder / "secret").write_text("a secret")
    file = folder / "valetkey.toml"
    file.write_text(
        '[fetch]\nca_file = "c.pem"\n[[federation.providers]]\nid = "staff"\nname = "Staff"\n'
        f'kind = "openid"\nissuer = "https://127.0.0.1:{port}/tenant"\nclient_id = "us"\n'
        'secret_file = "secret"\n'
    )

    async def look() -> list[CheckResult]:
        return [result async for result in needed_servers(load(file, {}))]

    return [(result.level.value, result.about, result.found) for result in asyncio.run(look())]


def test_clock_that_differs_from_a_providers_is_found(tmp_path: Path) -> None:
    certify(tmp_path)
    about = "sign-in provider staff"
    for ahead, level in ((0, "ok"), (3_600, "error"), (-3_600, "error")):
        with _provider(tmp_path, ahead) as port:
            responds, clock = _found(tmp_path, port)
        assert responds == ("ok", about, f"https://127.0.0.1:{port}/tenant responds")
        assert clock[:2] == (level, f"{about}'s clock")
        assert ("3600" in clock[2] or "3599" in clock[2] or "3601" in clock[2]) == (ahead != 0)


def test_provider_that_does_not_respond_is_found(tmp_path: Path) -> None:
    certify(tmp_path)
    ((level, about, text),) = _found(tmp_path, free_port())
    assert (level, about) == ("warning", "sign-in provider staff")
    assert "cannot be reached: [Errno 111] Connection refused" in text
