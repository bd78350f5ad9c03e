"""Receive the authorization response on a loopback address (RFC 8252)."""

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, urlsplit

PATH = "/callback"
"""Register `http://127.0.0.1/callback`: any port of a loopback address matches (section 7.3)."""

_READ_WITHIN = 10  # seconds: an idle browser connection must not block another
_MOST = 20  # parameters of a response
_PAGE = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>Done</title>"
    b"<p>You can close this window and go back to the program."
)
_HEADERS = (
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
)

Judge = Callable[[Mapping[str, str]], bool]
"""Returns whether these parameters are the expected response."""


class Loopback:
    """A listener on 127.0.0.1 that accepts one response and ignores all other requests."""

    def __init__(self, judge: Judge, port: int = 0) -> None:
        """Wait for a response that `judge` accepts, on this port or on any free one."""
        answers: Queue[Mapping[str, str]] = Queue()

        class Listener(BaseHTTPRequestHandler):
            timeout = _READ_WITHIN

            def do_GET(self) -> None:
                parameters = _parameters(self.path)
                if parameters is None or not judge(parameters):
                    self.send_error(404)
                    return
                self.send_response(200)
                for name, value in _HEADERS:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(_PAGE)))
                self.end_headers()
                self.wfile.write(_PAGE)
                answers.put(parameters)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: the address contains the code."""

        self._answers = answers
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Listener)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.redirect_uri = f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def wait(self, seconds: float) -> Mapping[str, str]:
        """Return the parameters of the response. Raises TimeoutError."""
        try:
            return self._answers.get(timeout=seconds)
        except Empty:
            raise TimeoutError(f"no response arrived within {seconds:.0f} seconds") from None

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _parameters(target: str) -> Mapping[str, str] | None:
    """Return the query of a request to our path; None for another path or a repeated parameter."""
    parts = urlsplit(target)
    if parts.path != PATH:
        return None
    try:
        pairs = parse_qsl(
            parts.query, keep_blank_values=True, errors="strict", max_num_fields=_MOST
        )
    except ValueError:
        return None
    found = dict(pairs)
    return found if len(found) == len(pairs) else None
