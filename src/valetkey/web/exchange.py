"""What goes in and what comes out: Request, Response and the few ways to make a response."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType

import msgspec

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal

Pairs = tuple[tuple[str, str], ...]
"""Header fields of a response, in the order they are sent."""

COOKIE_BYTES = 4 * 1024
COOKIE_PAIRS = 100

_COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]*")  # cookie-octet, RFC 6265 section 4.1.1

_FORWARDED = b"x-forwarded-"
_MIDNIGHT = Instant(0)
_SINGLE = frozenset((b"authorization", b"content-length", b"content-type", b"forwarded", b"host"))


class Headers:
    """The header fields of one request. Names are asked for in lower case.

    Its repr counts the fields and shows none: credentials travel in them.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Keep `pairs` as ASGI gives them: names in lower case, everything in bytes."""
        self._pairs = tuple(pairs)
        self._first = dict(self._pairs)
        if len(self._first) != len(self._pairs):
            # Reversed, so that the first field of a name is the one that stays.
            self._first = dict(reversed(self._pairs))

    def get(self, name: str) -> str | None:
        """The first value of `name`, or None. Values are never joined."""
        value = self._first.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def raw(self, name: bytes) -> bytes | None:
        """The first value of `name` as it came."""
        return self._first.get(name)

    def last(self) -> Mapping[bytes, bytes]:
        """The last value of each name; not to be changed."""
        return self._first if len(self._first) == len(self._pairs) else dict(self._pairs)

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of `name`, in the order sent."""
        key = name.encode("latin-1")
        first = self._first.get(key)
        if first is None:
            return ()
        if len(self._first) == len(self._pairs):
            return (first.decode("latin-1"),)
        return tuple(value.decode("latin-1") for each, value in self._pairs if each == key)

    def has_any(self, names: frozenset[bytes]) -> bool:
        """Whether a field of one of these names came."""
        return not names.isdisjoint(self._first)

    def repeats(self) -> bool:
        """Whether a field came twice on which client and server could disagree (RFC 9110 5.3)."""
        if len(self._first) == len(self._pairs):
            return False
        seen: set[bytes] = set()
        for name, _ in self._pairs:
            if name in seen and (name in _SINGLE or name.startswith(_FORWARDED)):
                return True
            seen.add(name)
        return False

    def __repr__(self) -> str:
        return f"Headers({len(self._pairs)} fields)"


NO_HEADERS = Headers()
NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})


class Request(msgspec.Struct, frozen=True):
    """One request, read completely. Its repr shows method and path; the rest may be secret."""

    method: str
    path: str
    """Exactly as sent: nothing is decoded, nothing normalised."""
    query: str = ""
    """As sent, without the question mark; always empty on routes that hide their query."""
    hidden_query: str = ""
    """What a route that hides its query took away; never written anywhere."""
    headers: Headers = NO_HEADERS
    body: bytes = b""
    address: str = ""
    """The client's address behind trusted proxies; empty if unknown."""
    secure: bool = False
    """The client reached us by TLS, ours or a trusted proxy's."""
    at: Instant = _MIDNIGHT
    """When it came; the one instant that every rule about this request uses."""
    arguments: Mapping[str, str] = NO_ARGUMENTS
    """The segments of the path that the route names, as sent."""

    def cookie(self, name: str) -> str | None:
        """The cookie's value (RFC 6265); None if absent, sent twice or malformed.

        Two of one name mean that somebody planted one, and nobody can say which. More than 4 KiB
        or 100 pairs are not read at all.
        """
        fields = self.headers.all("cookie")
        if len(fields) != 1 or len(fields[0]) > COOKIE_BYTES:
            return None
        found = None
        pairs = fields[0].split(";", COOKIE_PAIRS)
        if len(pairs) > COOKIE_PAIRS:
            return None
        for pair in pairs:
            key, equals, value = pair.strip(" \t").partition("=")
            if key != name or not equals:
                continue
            if found is not None:
                return None
            found = value
        return found if found is not None and _COOKIE_VALUE.fullmatch(found) else None

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"


# Not frozen, which would cost four times as much as all else about making one.
@dataclass(slots=True)
class Response:
    """One answer, not to be changed once it is made.

    The App adds security headers, Content-Length and `no-store` if nothing else. With
    a `stream` the pieces follow the body as they come, without Content-Length, each when the client
    has room for it. The stream is closed when it ends, when the client goes, and when the server
    stops; a client that takes nothing for 30 seconds is gone. Only an answer whose stream came to
    its own end looks complete.
    """

    status: int
    body: bytes = b""
    headers: Pairs = ()
    stream: AsyncGenerator[bytes] | None = None


Endpoint = Callable[[Request], Awaitable[Response]]
"""Answers one method of one path; may raise Refused."""

Refuse = Callable[[Request, Refusal], Response]
"""How a family of routes says no; must not fail."""

_JSON = ("content-type", "application/json")
_NO_STORE = ("cache-control", "no-store")
_encode = msgspec.json.Encoder().encode


def json_response(value: object, status: int = 200, headers: Pairs = ()) -> Response:
    """`value` as JSON: anything msgspec can encode, dataclasses included."""
    return Response(status, _encode(value), (_JSON, *headers))


def html_response(body: bytes, status: int, csp: str, headers: Pairs = ()) -> Response:
    """A page that nothing stores, under the Content-Security-Policy `csp`."""
    own = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", csp),
        _NO_STORE,
    )
    return Response(status, body, (*own, *headers))


def redirect(url: str, headers: Pairs = ()) -> Response:
    """303: the browser follows with GET, so that a form's fields go no further (RFC 9700 4.12)."""
    return Response(303, b"", (("location", url), _NO_STORE, *headers))


STATUS_LINE = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
"""How an answer of each status begins (RFC 9112 section 4)."""
