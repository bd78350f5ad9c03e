"""An HTTP client that records its exchanges, so that they can be shown."""

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPMessage
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

from valetkey.kernel.replace import replace

_SECONDS = 15

Reply = Mapping[str, object]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class ShownExchange:
    """A request and its response as sent; numbered from 1 when shown.

    Exchanges with pages of the authorization server are `brief`: printed on two lines.
    """

    number: int
    method: str
    url: str
    sent_headers: tuple[tuple[str, str], ...]
    sent: str
    status: int
    headers: HTTPMessage = field(repr=False)
    body: str = field(repr=False)
    brief: bool = False

    @property
    def json(self) -> Reply:
        """The response as a JSON object; empty if it is none."""
        try:
            found: object = json.loads(self.body)
        except ValueError:
            return {}
        return cast("Reply", found) if isinstance(found, dict) else {}

    def text(self, name: str) -> str:
        """Return a string member of the response, "" if it is missing."""
        value = self.json.get(name)
        return value if isinstance(value, str) else ""

    def header(self, name: str) -> str:
        """Return a header of the response, "" if it is missing."""
        return self.headers.get(name, "")


class Unanswered(Exception):
    """A request without a response."""


Seen = Callable[[ShownExchange], None]
"""The receiver of every exchange that is shown."""


class TracedHttp:
    """Sends requests; numbers and shows those that are not mere repetitions."""

    def __init__(self, seen: Seen) -> None:
        """Start without exchanges."""
        self._seen = seen
        self.count = 0

    def send(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        document: object = None,
        headers: Mapping[str, str] | None = None,
        brief: bool = False,
    ) -> ShownExchange:
        """Send one request and show it. Raises Unanswered."""
        return self.show(self._exchange(method, url, query, form, document, headers, brief=brief))

    def until(
        self, status: int, seconds: float, method: str, url: str, headers: Mapping[str, str]
    ) -> tuple[ShownExchange, float]:
        """Repeat a request until the response has this status; show the last one only.

        Also returns the seconds that it took; after `seconds` the latest response is returned.
        """
        began = time.monotonic()
        while True:
            exchange = self._exchange(method, url, None, None, None, headers)
            took = time.monotonic() - began
            if exchange.status == status or took > seconds:
                return self.show(exchange), took
            time.sleep(0.1)

    def show(self, exchange: ShownExchange) -> ShownExchange:
        """Number an exchange and show it."""
        self.count += 1
        numbered = replace(exchange, number=self.count)
        self._seen(numbered)
        return numbered

    def _exchange(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        form: Mapping[str, str] | None,
        document: object,
        headers: Mapping[str, str] | None,
        *,
        brief: bool = False,
    ) -> ShownExchange:
        sent_headers = dict(headers or {})
        sent = ""
        if query:
            url = f"{url}?{urlencode(query, quote_via=quote)}"
        if form is not None:
            sent = urlencode(form, quote_via=quote)
            sent_headers["Content-Type"] = "application/x-www-form-urlencoded"
        elif document is not None:
            sent = json.dumps(document, ensure_ascii=False)
            sent_headers.setdefault("Content-Type", "application/json")
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = HTTPConnection(parts.netloc, timeout=_SECONDS)
        try:
            connection.request(method, target, sent.encode() or None, sent_headers)
            answer = connection.getresponse()
            body = answer.read().decode("utf-8", "replace")
        except (OSError, HTTPException) as error:
            reason = f"no answer to {method} {parts.scheme}://{parts.netloc}{parts.path}"
            raise Unanswered(f"{reason}: {type(error).__name__}") from error
        finally:
            connection.close()
        return ShownExchange(
            0,
            method,
            url,
            tuple(sent_headers.items()),
            sent,
            answer.status,
            answer.headers,
            body,
            brief,
        )


def bearer(token: str) -> Mapping[str, str]:
    """Return the header with an access token (RFC 6750 section 2.1)."""
    return {"Authorization": f"Bearer {token}"}


def basic(client_id: str, secret: str) -> Mapping[str, str]:
    """Return the header with a client's credentials (RFC 6749 section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
