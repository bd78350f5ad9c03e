"""An app with a sign-in of its own that rests on the provider's: it lives on a port of its own.

It shares no code with the server: it judges tokens with another library.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Event, Lock, Thread
from typing import Self
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import requests
from joserfc import jws, jwt
from joserfc.jwk import KeySet

from bench.ports import free_port
from tests.support.wait import CEILING, wait_until

EVENT = "http://schemas.openid.net/event/backchannel-logout"
_COOKIE = "app-session"


@dataclass
class RelyingParty:
    """One app. Its port is chosen at once, so that it can be registered before it runs.

    `status` is what its back channel answers in place of 200. While `held` it answers nothing,
    then 503; with `all_asked` it answers when all who share that barrier were asked.
    """

    client_id: str
    secret: str
    status: int = 200
    held: Event | None = None
    all_asked: Barrier | None = None
    heard: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    issuer: str = ""
    port: int = 0
    _server: ThreadingHTTPServer | None = None
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where it lives. Each app has a host name of its own: cookies know no ports."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer from now on."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _answer(self))
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Be gone."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def tokens_of(self, code: str) -> dict[str, object]:
        """Redeem a code."""
        answer = requests.post(
            f"{self.issuer}/oauth/token",
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": f"{self.url}/cb",
                "client_id": self.client_id,
                "client_secret": self.secret,
            },
            timeout=CEILING,
        )
        tokens: dict[str, object] = answer.json()
        assert answer.status_code == 200, tokens
        return tokens

    def claims_of(self, token: str, typ: str) -> dict[str, object]:
        """What a token of the provider says, if it is one of this type for this app."""
        keys = KeySet.import_key_set(
            requests.get(f"{self.issuer}/oauth/jwks", timeout=CEILING).json()
        )
        header = jws.extract_compact(token.encode()).headers()
        assert header["typ"] == typ
        claims: dict[str, object] = jwt.decode(token, keys, ["ES256"]).claims
        assert (claims["iss"], claims["aud"]) == (self.issuer, self.client_id)
        assert int(str(claims["exp"])) > time.time()
        return claims

    def hear(self, token: str) -> int:
        """A logout token came (Back-Channel Logout section 2.6); the status to answer with."""
        if self.held is not None:
            self.held.wait(CEILING)
            return 503
        if self.all_asked is not None:
            self.all_asked.wait(CEILING)
        claims = self.claims_of(token, "logout+jwt")
        assert claims["events"] == {EVENT: {}}
        assert "nonce" not in claims
        with self._lock:
            self.heard.append(claims)
            if self.status == 200:
                self.forget(str(claims["sid"]))
        return self.status

    def forget(self, sid: str) -> None:
        """End the sessions of this app that rest on that one of the provider."""
        self.sessions = {cookie: it for cookie, it in self.sessions.items() if it != sid}

    def wait_until_heard(self, times: int = 1) -> None:
        """Wait until so many logout tokens came."""
        wait_until(lambda: len(self.heard) >= times, "the app heard nothing")


def _answer(app: RelyingParty) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one per address
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            parameters = dict(parse_qsl(parts.query))
            if parts.path == "/":
                sid = app.sessions.get(self._cookie())
                self._say(200 if sid else 401, "signed in" if sid else "nobody")
            elif parts.path == "/cb":
                self._begin(parameters)
            elif parts.path == "/sign-in":
                self._go(f"{app.issuer}/oauth/authorize?{_request(app)}")
            elif parts.path == "/out":
                assert parameters["iss"] == app.issuer
                app.forget(parameters["sid"])
                self._say(200, "out")
            else:
                self._say(200, "good bye" if parts.path == "/bye" else "?")

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            fields = parse_qs(self.rfile.read(length).decode())
            assert self.headers["content-type"] == "application/x-www-form-urlencoded"
            assert self.path == "/logout"
            (token,) = fields["logout_token"]
            self._say(app.hear(token), "")

        def _begin(self, parameters: Mapping[str, str]) -> None:
            token = str(app.tokens_of(parameters["code"])["id_token"])
            claims = app.claims_of(token, "JWT")
            cookie = f"{app.client_id}-{len(app.sessions)}-{claims['iat']}"
            app.sessions[cookie] = str(claims["sid"])
            self._go("/", f"{_COOKIE}-{app.port}={cookie}; Path=/; HttpOnly")

        def _cookie(self) -> str:
            jar = SimpleCookie(self.headers.get("cookie", ""))
            cookie = jar.get(f"{_COOKIE}-{app.port}")
            return cookie.value if cookie else ""

        def _go(self, url: str, cookie: str = "") -> None:
            self.send_response(303)
            self.send_header("location", url)
            if cookie:
                self.send_header("set-cookie", cookie)
            self.send_header("content-length", "0")
            self.end_headers()

        def _say(self, status: int, text: str) -> None:
            body = text.encode()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Answer


def _request(app: RelyingParty) -> str:
    return urlencode(
        {
            "response_type": "code",
            "client_id": app.client_id,
            "redirect_uri": f"{app.url}/cb",
            "scope": "openid",
            "state": json.dumps([1]),
        }
    )
