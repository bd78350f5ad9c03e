"""Notes Printer takes answers meant for it and for this browser, and nobody's HTML."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.cli.demo.notes_printer import NotesPrinter, error_page, notes_page, page
from valetkey.kernel.moment import hours
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

SECRET = "s" * 40
PASSWORD = "correct horse battery staple"
NOWHERE = "http://127.0.0.1:9"


class Tab:
    """One browser at the app, with its cookie."""

    def __init__(self, app: NotesPrinter) -> None:
        self.app = app
        self.cookie = ""
        self.cookie_line = ""

    def ask(self, target: str, method: str = "GET") -> tuple[int, str, str]:
        """Status, Location and page."""
        connection = HTTPConnection(self.app.url.removeprefix("http://"), timeout=60)
        try:
            connection.request(method, target, headers={"Cookie": self.cookie})
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        self.cookie_line = answer.headers.get("Set-Cookie", "")
        self.cookie = self.cookie_line.partition(";")[0]
        return answer.status, answer.headers.get("Location", ""), body

    def sent_away(self) -> dict[str, str]:
        """What the app asks the authorization server."""
        status, location, _ = self.ask("/sign-in")
        assert status == 303
        return dict(parse_qsl(urlsplit(location).query))


@contextmanager
def running(auth_url: str = NOWHERE, api_url: str = NOWHERE) -> Generator[NotesPrinter]:
    app = NotesPrinter(("127.0.0.1", 0), auth_url, api_url, "printer", SECRET)
    thread = threading.Thread(target=app.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield app
    finally:
        app.shutdown()
        thread.join()
        app.server_close()


def test_authorization_requests_have_fresh_state_and_pkce() -> None:
    with running() as app:
        one, other = Tab(app).sent_away(), Tab(app).sent_away()
        assert one["code_challenge_method"] == "S256"
        assert one["state"] != other["state"]
        assert one["code_challenge"] != other["code_challenge"]
        verifiers = {visit.verifier for visit in app.visits.values()}
        assert len(verifiers) == 2
        assert not verifiers & {*one.values(), *other.values()}


def test_cookie_is_httponly_and_samesite_lax() -> None:
    with running() as app:
        tab = Tab(app)
        tab.ask("/")
        cookie = SimpleCookie(tab.cookie_line)["notes_printer"]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"
        assert tab.cookie == f"notes_printer={cookie.value}"
        tab.ask("/")
        assert tab.cookie == f"notes_printer={cookie.value}"


def test_cookie_that_the_app_did_not_set_is_replaced() -> None:
    with running() as app:
        tab = Tab(app)
        tab.cookie = "notes_printer=chosen-by-somebody"
        tab.ask("/sign-in")
        assert "chosen" not in tab.cookie
        assert "chosen-by-somebody" not in app.visits


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "another"}, "does not belong to this browser"),
        ({"state": ""}, "does not belong to this browser"),
        ({"iss": "https://evil.example"}, "comes from another server"),
        ({"iss": ""}, "comes from another server"),
        ({"error": "access_denied"}, "You did not allow it"),
        ({"error": "x", "error_description": "<b>no</b>"}, "&lt;b&gt;no&lt;/b&gt;"),
        ({}, "cannot be reached"),
    ],
)
def test_invalid_callback_is_refused(change: dict[str, str], said: str) -> None:
    with running() as app:
        tab = Tab(app)
        request = tab.sent_away()
        answer = {"state": request["state"], "iss": NOWHERE, "code": "c", **change}
        query = "&".join(f"{name}={value}" for name, value in answer.items())
        status, _, body = tab.ask(f"/callback?{query}")
        assert status == 400
        assert said in body
        assert "<b>" not in body


@pytest.mark.parametrize(
    ("status", "body", "keeps"),
    [
        (503, b'{"error": "temporarily_unavailable", "error_description": "try again"}', True),
        (502, b"<h1>502 Bad Gateway</h1>", True),
        (429, b'{"code": "rate_limited", "detail": "slow down"}', True),
        (403, b'{"code": "insufficient_scope", "detail": "not allowed"}', False),
        (401, b"", False),
    ],
)
def test_server_that_cannot_answer_now_ends_no_sign_in(
    status: int, body: bytes, *, keeps: bool
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as api:
        thread = threading.Thread(target=api.handle_request)
        thread.start()
        with running(api_url=f"http://127.0.0.1:{api.server_port}") as app:
            tab = Tab(app)
            tab.ask("/")
            (visit,) = app.visits.values()
            visit.tokens = {"access_token": "t"}
            code, _, page = tab.ask("/")
        thread.join()
    assert code == (503 if keeps else 400)
    assert bool(visit.tokens) == keeps
    assert ("You are still signed in" in page) == keeps


def test_server_that_is_away_ends_no_sign_in() -> None:
    with running() as app:
        tab = Tab(app)
        tab.ask("/")
        (visit,) = app.visits.values()
        visit.tokens = {"access_token": "t"}
        assert tab.ask("/")[0] == 503
        assert visit.tokens


def test_state_is_valid_once() -> None:
    with running() as app:
        tab = Tab(app)
        state = tab.sent_away()["state"]
        for message in ("cannot be reached", "does not belong to this browser"):
            _, _, body = tab.ask(f"/callback?code=c&state={state}&iss={NOWHERE}")
            assert message in body


def test_foreign_response_is_rejected() -> None:
    with running() as app:
        state = Tab(app).sent_away()["state"]
        victim = Tab(app)
        victim.sent_away()
        _, _, body = victim.ask(f"/callback?code=c&state={state}&iss={NOWHERE}")
        assert "does not belong to this browser" in body


def test_unknown_path_is_not_found() -> None:
    with running() as app:
        assert Tab(app).ask("/favicon.ico")[0] == 404


def test_notes_and_error_messages_are_escaped() -> None:
    shown = notes_page("<i>Ada</i>", [("<script>", "a & b")])
    assert "<i>" not in shown
    assert "<script>" not in shown
    assert "a &amp; b" in shown
    assert "1 note," in shown
    assert "<u>" not in error_page("<u>", "<u>")
    assert b"No notes yet" in page(notes_page("Ada", []))


def test_app_shows_allowed_data_and_refreshes_expired_tokens(tmp_path: Path) -> None:
    """The name is shown only if Ada lets it; a token that expired is replaced without her."""
    with Servers(tmp_path) as servers, running(servers.auth_url, servers.api_url) as app:
        servers.register_user("ada", PASSWORD, uid=1001, name="Ada Lovelace")
        servers.register_client(
            ClientMetadata(
                "Notes Printer", "", (f"{app.url}/callback",), scopes=("notes:read", "account:read")
            ),
            "printer",
            SECRET,
        )
        ada, tab = UserAgent(servers.auth_url), Tab(app)
        page = ada.sign_in(ada.open(tab.ask("/sign-in")[1]), "ada", PASSWORD)
        page = ada.allow(page, only=["notes:read"])
        assert tab.ask(page.location.removeprefix(app.url))[:2] == (303, "/")
        assert "Your notes" in tab.ask("/")[2]
        assert "No notes yet" in tab.ask("/")[2]

        servers.clock.forward(hours(2))
        assert "No notes yet" in tab.ask("/")[2]

        page = ada.open(tab.ask("/sign-in")[1])
        assert tab.ask(ada.allow(page).location.removeprefix(app.url))[0] == 303
        assert "Ada Lovelace" in tab.ask("/")[2]
        assert tab.ask("/sign-out", "POST")[:2] == (303, "/")
        assert "Connect your notes" in tab.ask("/")[2]
