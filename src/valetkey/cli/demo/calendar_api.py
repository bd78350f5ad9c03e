"""Calendar: an API of a second team, protected with `valetkey.sdk`.

It has an identifier with a path, which clients name as `resource` (RFC 8707), and accepts only
tokens for it. Everyone with the scope reads; adding an event also takes the role `planner`.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from valetkey.sdk import Gate
from valetkey.sdk.adapters.wsgi import Protected, caller_of

PATH = "/calendar"
NAME = "Calendar"
READ, WRITE = "calendar:read", "calendar:write"
SCOPES = {READ: "see your calendar", WRITE: "change your calendar"}
PLANNER = "planner"
"""The role of users who may add events."""

FIRST = "Flight to Lisbon, 12 May at 7:40"
"""The event in every calendar."""
_LARGEST = 4096  # bytes of a request
_KEPT = 100  # events of a user


class CalendarApi(ThreadingMixIn, WSGIServer):
    """The HTTP server of the API at `address`. Events are kept in memory."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], auth_url: str) -> None:
        """Listen at `address` and trust the issuer at `auth_url`."""
        super().__init__(address, _Request)
        self.identifier = f"http://{address[0]}:{self.server_port}{PATH}"
        self._events = defaultdict[str, deque[str]](lambda: deque([FIRST], _KEPT))
        gate = Gate(auth_url, audience=self.identifier, name=NAME, scopes=SCOPES)
        self.set_app(Protected(self._answer, gate))

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        caller, reads = caller_of(environ), environ["REQUEST_METHOD"] == "GET"
        if environ["PATH_INFO"] != PATH:
            return _json(start, "404 Not Found", {"detail": f"Everything is at {PATH}."})
        if not caller.allows(READ if reads else WRITE):
            return _json(start, "403 Forbidden", {"detail": "The token lacks the scope."})
        events = self._events[caller.subject]
        if reads:
            return _json(start, "200 OK", {"events": list(events)})
        if PLANNER not in caller.roles:
            return _json(start, "403 Forbidden", {"detail": f"Adding takes the role {PLANNER}."})
        title = _title(environ)
        if not title:
            return _json(start, "400 Bad Request", {"detail": 'Send {"title": "…"}.'})
        events.append(title)
        return _json(start, "201 Created", {"title": title})


def _title(environ: WSGIEnvironment) -> str:
    """Return the title in the request's JSON, "" if there is none."""
    length = str(environ.get("CONTENT_LENGTH", ""))
    if not length.isdecimal() or int(length) > _LARGEST:
        return ""
    try:
        said: object = json.loads(environ["wsgi.input"].read(int(length)))
    except (ValueError, RecursionError):
        return ""
    title = cast("dict[str, object]", said).get("title") if isinstance(said, dict) else None
    return title if isinstance(title, str) else ""


def _json(start: StartResponse, status: str, document: object) -> Iterable[bytes]:
    body = json.dumps(document).encode()
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    start(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]


class _Request(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the demo prints its own output."""
