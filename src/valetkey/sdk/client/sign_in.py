"""Sign a user in from a program: code grant with PKCE (RFC 7636, 8252, 9207)."""

import sys
import webbrowser
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import same, to_base64url
from valetkey.sdk.client.token_endpoint import TokenEndpoint
from valetkey.sdk.client.token_file import Rejected, Tokens
from valetkey.sdk.upstream.discovery import Issuer

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
        pairs = parse_qsl(parts.query, errors="strict", max_num_fields=_MOST)
    except ValueError:
        return None
    found = dict(pairs)
    return found if len(found) == len(pairs) else None


WAIT = 300.0
"""Seconds that a user has to sign in."""

Show = Callable[[str], object]
"""Shows the address to the user."""


def open_browser(url: str) -> None:
    """Open the user's browser; without one, write the address to standard error."""
    if not webbrowser.open(url):
        sys.stderr.write(f"Open this address in a browser of this machine:\n{url}\n")
        sys.stderr.flush()


def sign_in(
    issuer: Issuer,
    endpoint: TokenEndpoint,
    runtime: Runtime,
    *,
    scope: str,
    show: Show,
    wait: float = WAIT,
    port: int = 0,
) -> Tokens:
    """Send the user to the authorization endpoint and return the tokens.

    Raises Rejected if the user or server refuses, TimeoutError after `wait` seconds, and
    Unreachable.
    """
    state = to_base64url(runtime.random(32))
    verifier = to_base64url(runtime.random(32))

    def is_ours(answer: Mapping[str, str]) -> bool:
        return same(answer.get("state", ""), state)

    with Loopback(is_ours, port) as loopback:
        asked = {
            "response_type": "code",
            "client_id": endpoint.client_id,
            "redirect_uri": loopback.redirect_uri,
            "state": state,
            "code_challenge": to_base64url(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        if scope:
            asked["scope"] = scope
        if endpoint.resource:
            asked["resource"] = endpoint.resource
        show(f"{issuer.authorization}?{urlencode(asked)}")
        answer = loopback.wait(wait)
        redirect_uri = loopback.redirect_uri
    code = _code(answer, issuer)
    now = runtime.now()
    return endpoint.with_code(code, redirect_uri, verifier, scope=scope, now=now)


def _code(answer: Mapping[str, str], issuer: Issuer) -> str:
    # RFC 9207 section 2.4: another server's response must not bring its code to this one.
    if answer.get("iss", "" if issuer.names_itself else issuer.url) != issuer.url:
        raise Rejected("invalid_response", "the answer is of another authorization server")
    if "error" in answer:
        raise Rejected(answer["error"], answer.get("error_description", ""))
    if not answer.get("code"):
        raise Rejected("invalid_response", "the answer has no code")
    return answer["code"]
