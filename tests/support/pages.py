"""Somebody's web server on loopback: says what it was told to, and counts who connects."""

import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qsl


@dataclass
class Page:
    """What lies at an address; `slow` is in seconds. It is not sent before `release` is set."""

    body: bytes = b""
    kind: str = "application/json"
    status: int = 200
    slow: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    release: Event | None = None


@dataclass
class Pages:
    """A web server: `at` says what lies where, `asked` what was asked for, `sent` what was posted.

    Both in order; what was posted is a form.
    """

    url: str
    at: dict[str, Page] = field(default_factory=dict[str, Page])
    asked: list[str] = field(default_factory=list[str])
    sent: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    connections: int = 0


@contextmanager
def pages(tls: ssl.SSLContext | None = None) -> Generator[Pages]:
    """The server, running; over https as `localhost` with a context for that."""
    site = Pages("")

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            site.connections += 1
            super().setup()

        def do_POST(self) -> None:
            assert self.headers["content-type"] == "application/x-www-form-urlencoded"
            body = self.rfile.read(int(self.headers["content-length"]))
            site.sent.append(dict(parse_qsl(body.decode(), strict_parsing=True)))
            self.do_GET()

        def do_GET(self) -> None:
            site.asked.append(self.path)
            page = site.at.get(self.path, Page(status=404))
            time.sleep(page.slow)
            if page.release is not None:
                page.release.wait(60)
            self.send_response(page.status)
            for name, value in page.headers:
                self.send_header(name, value)
            self.send_header("content-type", page.kind)
            self.send_header("content-length", str(len(page.body)))
            self.end_headers()
            try:
                self.wfile.write(page.body)
            except OSError:
                # Whoever asked has had enough.
                return

        def log_message(self, format: str, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            return

    with Server(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        if tls is not None:
            # The handshake is made by whichever thread reads first.
            server.socket = tls.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
            site.url = f"https://localhost:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
