"""Requests to an app of this process, as an ASGI server hands them over."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from valetkey.web.connection.incoming_request import Message
from valetkey.web.router import RoutedApp

FORM = "application/x-www-form-urlencoded"


async def request(
    app: RoutedApp,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    scheme: str = "http",
    address: str = "127.0.0.1",
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Send one request; return status, headers and the whole body of the response."""
    path, _, query = target.partition("?")
    scope: Message = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": [
            (name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()
        ],
        "client": (address, 50_000),
    }
    bodies: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()  # the client stays connected until it has the response
        return bodies.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *pieces = sent
    status, pairs = start["status"], start["headers"]
    assert isinstance(status, int)
    assert isinstance(pairs, list)
    content = b""
    for piece in pieces:
        part = piece["body"]
        assert isinstance(part, bytes)
        content += part
    return status, [(name.decode(), text.decode()) for name, text in pairs], content


def basic(user: str, password: str) -> str:
    """Return the value of an Authorization header for HTTP Basic."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@dataclass(frozen=True)
class Answer:
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        document: dict[str, object] = json.loads(self.body)
        return document

    def text(self, name: str) -> str:
        """Return a member of the JSON object that must be a string."""
        value = self.json[name]
        assert isinstance(value, str), value
        return value

    def refused(self, status: int, code: str) -> None:
        assert (self.status, self.json["error"]) == (status, code), self.body


@dataclass
class Caller:
    """Sends requests to an app as scripts do: no cookies, headers on demand."""

    app: RoutedApp

    async def call(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        content_type: str = "",
        authorization: str = "",
        accept: str = "",
        if_match: str = "",
    ) -> Answer:
        """Send one request."""
        headers = {
            "host": "localhost:8400",
            "content-type": content_type,
            "authorization": authorization,
            "accept": accept,
            "if-match": if_match,
            "content-length": str(len(body)) if body else "",
        }
        headers = {name: text for name, text in headers.items() if text}
        status, pairs, content = await request(self.app, method, target, headers, body)
        names = [name for name, _ in pairs if name != "set-cookie"]
        # Browsers reject a response with two Access-Control-Allow-Origin headers.
        assert len(set(names)) == len(names), names
        return Answer(status, dict(pairs), content)

    async def post(
        self,
        path: str,
        form: Mapping[str, str] | bytes = b"",
        authorization: str = "",
        accept: str = "",
    ) -> Answer:
        """Send a form."""
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        return await self.call("POST", path, body, FORM if body else "", authorization, accept)
