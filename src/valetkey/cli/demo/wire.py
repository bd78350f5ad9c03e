"""An HTTP client that records its exchanges, and prints their decisive parts."""

import base64
import json
import re
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPMessage
from typing import cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from valetkey.cli import say
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
            value: object = json.loads(self.body)
        except ValueError:
            return {}
        return cast("Reply", value) if isinstance(value, dict) else {}

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


_NAMES = frozenset(
    {"client_secret", "code_challenge", "code_verifier", "csrf", "interaction", "password"}
)
_LONG = 16
_HEAD, _TAIL = 8, 4
_LOOK = re.compile(
    r"vk_[a-z]{2}_[0-9A-Za-z.~_-]{20,}|eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+"
)


def short(text: str) -> str:
    """Return the beginning and the end of a secret; only the beginning of a short one."""
    if len(text) > _LONG:
        return f"{text[:_HEAD]}…{text[-_TAIL:]}"
    return f"{text[:2]}…" if text else ""


def shortened(name: str, text: str) -> str:
    """Return the value of a parameter or member, shortened if it is a secret."""
    if name == "password":
        return f"{text[:2]}…"
    return short(text) if name in _NAMES else mask_secrets(text)


def header(name: str, text: str) -> str:
    """Return the value of a header, with its secrets shortened."""
    if name == "Authorization":
        scheme, _, credential = text.partition(" ")
        return f"{scheme} {short(credential)}"
    return mask_secrets(text)


def document(value: object) -> object:
    """Return a JSON value with its secrets shortened."""
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        return {
            name: shortened(name, inner) if isinstance(inner, str) else document(inner)
            for name, inner in members.items()
        }
    if isinstance(value, list):
        return [document(inner) for inner in cast("list[object]", value)]
    return mask_secrets(value) if isinstance(value, str) else value


def mask_secrets(text: str) -> str:
    """Shorten everything in the text that looks like one of this server's secrets."""
    return _LOOK.sub(lambda match: short(match.group()), text)


def address(url: str) -> str:
    """Return a URL with the secrets in its query and fragment shortened."""
    parts = urlsplit(url)
    query, fragment = (
        "&".join(f"{name}={shortened(name, text)}" for name, text in parse_qsl(part))
        for part in (parts.query, parts.fragment)
    )
    return parts._replace(query=query, fragment=fragment).geturl()


WIDTH = 100
"""Maximum number of columns; longer lines are cut."""

_DECISIVE = ("Content-Type", "Cache-Control", "WWW-Authenticate", "Deprecation", "Allow")
_PROBLEM = "application/problem+json"
_FORM = "application/x-www-form-urlencoded"
_ERROR = 400
_SHOWN = 4
_MARGIN = " " * 4
_DEEP = " " * 8


def lines(exchange: ShownExchange) -> Iterator[str]:
    """Yield the lines that show the exchange."""
    if exchange.brief:
        yield from _brief(exchange)
        return
    yield from _request(exchange)
    yield from _answer(exchange)


def _page(html: str, margin: str) -> Iterator[str]:
    """Return the heading and the list items of a page."""
    match = re.search(r"<h1[^>]*>(.*?)</h1>", html, re.DOTALL)
    yield f"{margin}“{_plain(match[1]) if match else ''}”"
    for item in re.findall(r"<li>(.*?)</li>", html, re.DOTALL):
        yield f"{margin}  · {_plain(item)}"


def _plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def _request(exchange: ShownExchange) -> Iterator[str]:
    parts = urlsplit(exchange.url)
    address = f"{parts.scheme}://{parts.netloc}{parts.path}"
    yield f"{_number(exchange)}{_arrow('→')} {say.strong(exchange.method)} {address}"
    yield from _pairs(parts.query, "?")
    for name, value in exchange.sent_headers:
        if name == "Cookie":
            continue
        yield _header(name, value)
    if (_type_of(exchange) or "") == _FORM:
        yield from _pairs(exchange.sent, " ")
    elif exchange.sent:
        for line in _wrapped(mask_secrets(exchange.sent), WIDTH - len(_DEEP)):
            yield f"{_DEEP}{line}"


def _answer(exchange: ShownExchange) -> Iterator[str]:
    status = HTTPStatus(exchange.status)
    colour = "green" if status < _ERROR else "yellow"
    shown = say.coloured(f"{status.value} {status.phrase}", colour)
    yield f"{_MARGIN}{_arrow('←')} {shown}"
    for name in _DECISIVE:
        for value in exchange.headers.get_all(name) or ():
            if _is_decisive(name, value, exchange):
                yield from _folded(name, value)
    if location := exchange.header("Location"):
        parts = urlsplit(location)
        bare = location.partition("?")[0].partition("#")[0]
        yield _header("Location", bare)
        yield from _pairs(parts.query, "?", _DEEP + "  ")
        yield from _pairs(parts.fragment, "#", _DEEP + "  ")
    elif exchange.json:
        yield from _document(exchange.json)
    elif "<h1" in exchange.body:
        yield from _page(exchange.body, _DEEP)


def _is_decisive(name: str, value: str, exchange: ShownExchange) -> bool:
    if name == "Content-Type":
        return value == _PROBLEM
    # Cache-Control matters in a response with a token.
    return name != "Cache-Control" or "access_token" in exchange.json


def _brief(exchange: ShownExchange) -> Iterator[str]:
    parts = urlsplit(exchange.url)
    typed = [
        # The form has the id of the API before a scope of a declared one.
        f"{name}={shortened(name, value).rpartition('#')[2]}"
        for name, value in parse_qsl(exchange.sent)
        if name != "csrf"
    ]
    yield f"{_number(exchange)}{_arrow('→')} {exchange.method} {' '.join([parts.path, *typed])}"
    path = urlsplit(exchange.header("Location")).path
    page = [] if path else list(_document_in_words(exchange) or _page(exchange.body, ""))
    yield f"{_MARGIN}{_arrow('←')} {exchange.status} {path or page.pop(0)}"
    for item in page:
        yield f"{_MARGIN}      {item.lstrip()}"


def _document_in_words(exchange: ShownExchange) -> list[str]:
    """Return the first names in a JSON document, and how many more there are."""
    names = list(exchange.json)
    if not names:
        return []
    more = len(names) - _SHOWN
    return [", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")]


def _pairs(query: str, first: str, margin: str = _DEEP) -> Iterator[str]:
    mark = first
    for name, value in parse_qsl(query, keep_blank_values=True):
        yield f"{margin}{say.faint(mark)}{name}={shortened(name, value)}"
        mark = "&"


def _header(name: str, value: str) -> str:
    return f"{_DEEP}{say.faint(name + ':')} {header(name, value)}"


def _folded(name: str, value: str) -> Iterator[str]:
    """Return a header; the parameters of a challenge are on lines below its scheme."""
    scheme, _, rest = value.partition(" ")
    if name != "WWW-Authenticate" or len(value) + len(name) < WIDTH - len(_DEEP):
        yield _header(name, value)
        return
    yield _header(name, scheme)
    for parameter in re.findall(r'[\w-]+="(?:[^"\\]|\\.)*"', rest):
        yield f"{_DEEP}    {parameter}"


def _document(reply: object) -> Iterator[str]:
    shown = document(reply)
    if not isinstance(shown, dict):
        return
    members = list(cast("dict[str, object]", shown).items())
    yield f"{_DEEP}{{"
    for name, value in members:
        yield from _member(name, value, "," if name != members[-1][0] else "")
    yield f"{_DEEP}}}"


def _member(name: str, value: object, comma: str) -> Iterator[str]:
    key = f"{_DEEP}  {say.faint(json.dumps(name) + ':')} "
    room = WIDTH - len(_DEEP) - len(name) - 7
    whole = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(whole) > room:
        yield f"{key}["
        for item in cast("list[object]", value):
            text = json.dumps(item, ensure_ascii=False)
            yield f"{_DEEP}    {_cut(text, WIDTH - len(_DEEP) - 4)}"
        yield f"{_DEEP}  ]{comma}"
        return
    first, *others = _wrapped(f"{whole}{comma}", room)
    yield f"{key}{first}"
    for line in others:
        yield f"{_DEEP}      {line}"


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [text]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _number(exchange: ShownExchange) -> str:
    return say.faint(f"{exchange.number:>3} ")


def _arrow(sign: str) -> str:
    return say.coloured(sign, "cyan")


def _type_of(exchange: ShownExchange) -> str | None:
    return dict(exchange.sent_headers).get("Content-Type")
