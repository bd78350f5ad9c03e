"""A token endpoint that is strict: each refresh token renews once, and reuse is counted."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs

from valetkey.sdk.upstream.discovery import Issuer


@dataclass
class Strict:
    """What the endpoint knows and saw."""

    life: int = 3600
    url: str = ""
    live: set[str] = field(default_factory=set[str])
    renewals: int = 0
    reuses: int = 0
    forms: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    authorizations: list[str] = field(default_factory=list[str])
    say: tuple[int, bytes] | None = None
    """What is answered to everything instead of the truth."""
    _lock: Lock = field(default_factory=Lock)

    @property
    def issuer(self) -> Issuer:
        return Issuer(self.url, "", token=f"{self.url}/token", authorization=f"{self.url}/start")

    def seed(self) -> str:
        """A refresh token."""
        with self._lock:
            token = f"refresh-{len(self.live) + self.renewals + 1}"
            self.live.add(token)
            return token

    def answer(self, form: dict[str, str]) -> tuple[int, bytes]:
        """What the endpoint says to a form."""
        with self._lock:
            self.forms.append(form)
            if self.say is not None:
                return self.say
            response: dict[str, object] = {"token_type": "Bearer", "expires_in": self.life}
            if form["grant_type"] == "refresh_token":
                if form["refresh_token"] not in self.live:
                    self.reuses += 1
                    return 400, b'{"error":"invalid_grant"}'
                self.live.remove(form["refresh_token"])
                self.renewals += 1
            if form["grant_type"] != "client_credentials":
                response["refresh_token"] = f"refresh-again-{self.renewals}"
                self.live.add(str(response["refresh_token"]))
            response["access_token"] = f"access-{len(self.forms)}"
            return 200, json.dumps(response).encode()


@contextmanager
def strict(life: int = 3600) -> Generator[Strict]:
    """The endpoint, on a loopback port."""
    state = Strict(life)

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            state.authorizations.append(self.headers.get("authorization", ""))
            status, answer = state.answer(form)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
