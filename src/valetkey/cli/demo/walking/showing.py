"""Print an exchange as text: its decisive parts, one per line."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from html import unescape
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl, urlsplit

from valetkey.cli import say
from valetkey.cli.demo.wire import ShownExchange

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


def document(found: object) -> object:
    """Return a JSON value with its secrets shortened."""
    if isinstance(found, dict):
        members = cast("Mapping[str, object]", found)
        return {
            name: shortened(name, inner) if isinstance(inner, str) else document(inner)
            for name, inner in members.items()
        }
    if isinstance(found, list):
        return [document(inner) for inner in cast("list[object]", found)]
    return mask_secrets(found) if isinstance(found, str) else found


def mask_secrets(text: str) -> str:
    """Shorten everything in the text that looks like one of this server's secrets."""
    return _LOOK.sub(lambda match: short(match.group()), text)


def address(url: str) -> str:
    """Return a URL with the secrets in its query and fragment shortened."""
    parts = urlsplit(url)
    query, fragment = (
        "&".join(f"{name}={shortened(name, text)}" for name, text in parse_qsl(each))
        for each in (parts.query, parts.fragment)
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
    found = re.search(r"<h1[^>]*>(.*?)</h1>", html, re.DOTALL)
    yield f"{margin}“{_plain(found[1]) if found else ''}”"
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
    said = urlsplit(exchange.header("Location")).path
    page = [] if said else list(_document_in_words(exchange) or _page(exchange.body, ""))
    yield f"{_MARGIN}{_arrow('←')} {exchange.status} {said or page.pop(0)}"
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
    for said in re.findall(r'[\w-]+="(?:[^"\\]|\\.)*"', rest):
        yield f"{_DEEP}    {said}"


def _document(found: object) -> Iterator[str]:
    shown = document(found)
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
        for each in cast("list[object]", value):
            text = json.dumps(each, ensure_ascii=False)
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
