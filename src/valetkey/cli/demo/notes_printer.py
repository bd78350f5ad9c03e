"""Notes Printer: a third-party app that signs users in and prints their notes.

Standard library only; run it against any server (examples/notes_printer says how). It requests an
authorization code with PKCE (RFC 6749 section 4.1, RFC 7636) and keeps the tokens on its server.
"""

import argparse
import base64
import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from http.client import HTTPException
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import cast
from urllib.error import HTTPError
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from urllib.request import Request, urlopen

# ruff: noqa: TID251 - a third-party program, with its own randomness and environment


HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    (
        "Content-Security-Policy",
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'self'",
    ),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
"""Headers sent with every response."""

_PAGE = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))

_WELCOME = """
<h1>Your notes, on paper</h1>
<p class="lead">Notes Printer reads the notes you keep elsewhere and lays them out to print.</p>
<p><a class="button" href="/sign-in">Connect your notes</a></p>
<p class="small">You sign in there, not here: this app never sees your password.</p>
"""

_NOTES = Template("""
<div class="top">
  <div>
    <h1>$name</h1>
    <p class="small">$count, fresh from the server</p>
  </div>
  <form method="post" action="/sign-out"><button>Sign out</button></form>
</div>
<div class="sheets">$sheets</div>
""")

_SHEET = Template("<article><h2>$title</h2><p>$text</p></article>")

_EMPTY = "<article><h2>No notes yet</h2><p>Write one, and open this page again.</p></article>"

_DENIED = """
<h1>All right, no notes</h1>
<p class="lead">You did not allow it, so there is nothing here to print.</p>
<p><a class="button" href="/sign-in">Ask again</a></p>
"""

_ERROR = Template("""
<h1>That did not work</h1>
<p class="lead">$why</p>
<p><a class="button" href="/sign-in">Try again</a></p>
<p class="small">Error code: $code</p>
""")

_WAIT = Template("""
<h1>One moment</h1>
<p class="lead">$why</p>
<p class="small">You are still signed in. This page loads again by itself.</p>
<p><a class="button" href="/">Load it now</a></p>
""")
_WAIT_SECONDS = "3"
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


def page(content: str) -> bytes:
    """Return the whole page around `content`, which is HTML."""
    return _PAGE.substitute(content=content).encode()


def welcome() -> str:
    """Return the page for a visitor who is not signed in."""
    return _WELCOME


def notes_page(name: str, texts: Sequence[tuple[str, str]]) -> str:
    """Return the page with the notes of the user called `name`, each with title and text."""
    count = "1 note" if len(texts) == 1 else f"{len(texts)} notes"
    sheets = "".join(
        _SHEET.substitute(title=escape(title), text=escape(text)) for title, text in texts
    )
    return _NOTES.substitute(name=escape(name), count=count, sheets=sheets or _EMPTY)


def error_page(code: str, why: str) -> str:
    """Return the error page, with a link that starts again."""
    if code == "access_denied":
        return _DENIED
    return _ERROR.substitute(code=escape(code), why=escape(why))


Reply = dict[str, object]
"""A JSON object from a server."""

SCOPE = "notes:read account:read"
COOKIE = "notes_printer"


@dataclass
class BrowserState:
    """State of one browser: its pending authorization request, and its tokens."""

    state: str = ""
    verifier: str = ""
    tokens: Reply = field(default_factory=dict[str, object])


class OAuthError(Exception):
    """An error response of a server; `code` is the error code of RFC 6749, if it gave one."""

    def __init__(self, code: str, why: str, *, is_temporary: bool = False) -> None:
        """Store the code, the description, and whether the same request may succeed later."""
        super().__init__(why)
        self.code = code
        self.is_temporary = is_temporary


class NotesPrinter(ThreadingHTTPServer):
    """The HTTP server of the app, with the values of its registration."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], auth_url: str, api_url: str, client_id: str, secret: str
    ) -> None:
        """Listen at `address`; `serve_forever` answers."""
        super().__init__(address, BrowserHandler)
        self.auth_url, self.api_url = auth_url, api_url
        self.client_id, self.secret = client_id, secret
        self.url = f"http://{address[0]}:{self.server_port}"
        self.visits: dict[str, BrowserState] = {}

    def sign_in_url(self, visit: BrowserState) -> str:
        """Return the authorization URL; state and verifier bind the response to this browser."""
        visit.state, visit.verifier = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(visit.verifier.encode()).digest())
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": f"{self.url}/callback",
            "scope": SCOPE,
            "state": visit.state,
            "code_challenge": challenge.rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{self.auth_url}/oauth/authorize?{urlencode(parameters)}"

    def take_code(self, visit: BrowserState, parameters: dict[str, str]) -> None:
        """Exchange the code of the response for tokens. Raises OAuthError."""
        state, visit.state = visit.state, ""
        if not state or not secrets.compare_digest(
            parameters.get("state", "").encode(), state.encode()
        ):
            raise OAuthError("state", "This answer does not belong to this browser. Start again.")
        if parameters.get("iss") != self.auth_url:
            raise OAuthError("iss", "This answer comes from another server. Start again.")
        if "error" in parameters:
            raise OAuthError(
                parameters["error"], parameters.get("error_description", "no reason given")
            )
        visit.tokens = self._token(
            grant_type="authorization_code",
            code=parameters.get("code", ""),
            redirect_uri=f"{self.url}/callback",
            code_verifier=visit.verifier,
        )

    def read(self, visit: BrowserState, name: str) -> Reply:
        """Return an object of the API; refresh an expired token once. Raises OAuthError."""
        try:
            return self._bearer(visit, name)
        except OAuthError as refused:
            if refused.code != "invalid_token" or "refresh_token" not in visit.tokens:
                raise
        fresh = self._token(
            grant_type="refresh_token", refresh_token=str(visit.tokens["refresh_token"])
        )
        visit.tokens = {**visit.tokens, **fresh}
        return self._bearer(visit, name)

    def _bearer(self, visit: BrowserState, name: str) -> Reply:
        access_token = str(visit.tokens.get("access_token", ""))
        return request_json(
            f"{self.api_url}/v2/{name}", {"Authorization": f"Bearer {access_token}"}
        )

    def _token(self, **form: str) -> Reply:
        pair = f"{quote(self.client_id, safe='')}:{quote(self.secret, safe='')}"
        basic = base64.b64encode(pair.encode()).decode()
        url = f"{self.auth_url}/oauth/token"
        return request_json(url, {"Authorization": f"Basic {basic}"}, urlencode(form).encode())


def request_json(url: str, headers: dict[str, str], body: bytes | None = None) -> Reply:
    """Return the JSON object of the response. Raises OAuthError."""
    try:
        with urlopen(Request(url, body, headers), timeout=10) as answer:  # noqa: S310 - our servers
            reply: Reply = json.load(answer)
            return reply
    except HTTPError as error:
        problem = _problem(error)
        code = problem.get("error") or problem.get("code")
        why = problem.get("error_description") or problem.get("detail")
        is_temporary = error.code == _TOO_MANY_REQUESTS or error.code >= _SERVER_ERROR
        raise OAuthError(str(code), str(why), is_temporary=is_temporary) from None
    except (OSError, HTTPException) as error:
        why = f"The server cannot be reached: {error}"
        raise OAuthError("unreachable", why, is_temporary=True) from None


def _problem(error: HTTPError) -> Reply:
    """Return the JSON object of an error; a proxy in between may answer with something else."""
    try:
        with error:
            problem: Reply = json.load(error)
            return problem
    except ValueError:
        return {"error": f"status {error.code}", "detail": "The server cannot answer now."}


class BrowserHandler(BaseHTTPRequestHandler):
    """Handles one browser's requests."""

    visit_id = ""

    @property
    def app(self) -> NotesPrinter:
        """The app that this browser came to."""
        return cast("NotesPrinter", self.server)

    def do_GET(self) -> None:
        """Serve the pages, the redirect to the authorization server, and the callback."""
        parts = urlsplit(self.path)
        visit = self._visit()
        try:
            if parts.path == "/sign-in":
                self._go(self.app.sign_in_url(visit))
            elif parts.path == "/callback":
                self.app.take_code(visit, dict(parse_qsl(parts.query)))
                self._go("/")
            elif parts.path == "/":
                self._show(self._notes(visit) if visit.tokens else welcome())
            else:
                self._show(error_page("not_found", "There is nothing at this address."), 404)
        except OAuthError as refused:
            if refused.is_temporary and visit.tokens:
                # The tokens are as good as before.
                again = (("Retry-After", _WAIT_SECONDS), ("Refresh", _WAIT_SECONDS))
                self._answer(503, page(_WAIT.substitute(why=escape(str(refused)))), *again)
                return
            visit.tokens = {}
            self._show(error_page(refused.code, str(refused)), 400)

    def do_POST(self) -> None:
        """Sign the user out."""
        self._visit()
        self.app.visits.pop(self.visit_id, None)
        self._go("/")

    def _notes(self, visit: BrowserState) -> str:
        notes = cast("list[Reply]", self.app.read(visit, "notes")["items"])
        texts = [(str(note["title"]), str(note["text"])) for note in notes]
        # The token response names the user, if the openid scope was granted.
        info = cast("Reply", visit.tokens.get("info", {}))
        return notes_page(str(info.get("name", "Your notes")), texts)

    def _visit(self) -> BrowserState:
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        named = cookies[COOKIE].value if COOKIE in cookies else ""
        self.visit_id = named if named in self.app.visits else secrets.token_urlsafe(32)
        return self.app.visits.setdefault(self.visit_id, BrowserState())

    def _go(self, url: str) -> None:
        self._answer(303, b"", ("Location", url))

    def _show(self, content: str, status: int = 200) -> None:
        self._answer(status, page(content))

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        cookie = f"{COOKIE}={self.visit_id}; Path=/; HttpOnly; SameSite=Lax"
        for name, value in (*headers, *HEADERS, ("Set-Cookie", cookie)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: URLs contain codes."""


def main() -> None:
    """Serve until Ctrl-C; the client secret is in the environment, because `ps` shows arguments."""
    parser = argparse.ArgumentParser("notes_printer", description="Print the notes of its users.")
    parser.add_argument("--auth-url", default="http://localhost:8400")
    parser.add_argument("--api-url", default="http://localhost:8401")
    parser.add_argument("--client-id", default="printer")
    parser.add_argument("--port", default=8402, type=int)
    chosen = parser.parse_args()
    secret = os.environ.get("CLIENT_SECRET")
    if not secret:
        parser.error("put the client's secret into the environment, as CLIENT_SECRET")
    address = ("127.0.0.1", chosen.port)
    with NotesPrinter(address, chosen.auth_url, chosen.api_url, chosen.client_id, secret) as app:
        print(f"Open {app.url} and register {app.url}/callback as redirect URI. Ctrl-C stops.")
        try:
            app.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
