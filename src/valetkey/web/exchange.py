"""Requests, responses, and the functions that build responses."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.preconditions import preconditions
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
    """The header fields of one request, looked up by names in lower case.

    The repr shows only their number, because fields contain credentials.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Keep `pairs` as ASGI provides them: names in lower case, names and values as bytes."""
        self._pairs = tuple(pairs)
        self._first = dict(self._pairs)
        if len(self._first) != len(self._pairs):
            # Reversed, so that the first field of a name is kept.
            self._first = dict(reversed(self._pairs))

    def get(self, name: str) -> str | None:
        """Return the first value of `name`, or None. Values are never joined."""
        value = self._first.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def raw(self, name: bytes) -> bytes | None:
        """Return the first value of `name` as bytes, or None."""
        return self._first.get(name)

    def last(self) -> Mapping[bytes, bytes]:
        """Return the last value of each name, as a mapping that must not be changed."""
        return self._first if len(self._first) == len(self._pairs) else dict(self._pairs)

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of `name`, in the order sent."""
        key = name.encode("latin-1")
        first = self._first.get(key)
        if first is None:
            return ()
        if len(self._first) == len(self._pairs):
            return (first.decode("latin-1"),)
        return tuple(
            value.decode("latin-1") for field_name, value in self._pairs if field_name == key
        )

    def has_any(self, names: frozenset[bytes]) -> bool:
        """Return whether a field with one of these names was sent."""
        return not names.isdisjoint(self._first)

    def repeats(self) -> bool:
        """Return whether a field was repeated that must be unique (RFC 9110 section 5.3)."""
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


_BEARER = "bearer "


class Request(msgspec.Struct, frozen=True):
    """A complete request; its repr shows only method and path, because the rest may be secret."""

    method: str
    path: str
    """Exactly as sent: not decoded and not normalised."""
    query: str = ""
    """As sent, without the question mark; always empty on routes that hide their query."""
    hidden_query: str = ""
    """The query of a route that hides it; never written anywhere."""
    headers: Headers = NO_HEADERS
    body: bytes = b""
    address: str = ""
    """The client's address behind trusted proxies; empty if unknown."""
    secure: bool = False
    """Whether the client used TLS, to this server or to a trusted proxy."""
    at: Instant = _MIDNIGHT
    """When the request arrived; the one instant used by every rule about this request."""
    arguments: Mapping[str, str] = NO_ARGUMENTS
    """The values of the path's named segments, as sent."""

    def cookie(self, name: str) -> str | None:
        """Return a cookie's value (RFC 6265); None if it is absent, sent twice or malformed.

        Two cookies of one name mean that one was planted, and it is unknown which. More than
        4 KiB or 100 pairs are ignored altogether.
        """
        fields = self.headers.all("cookie")
        if len(fields) != 1 or len(fields[0]) > COOKIE_BYTES:
            return None
        cookie_value = None
        pairs = fields[0].split(";", COOKIE_PAIRS)
        if len(pairs) > COOKIE_PAIRS:
            return None
        for pair in pairs:
            key, equals, value = pair.strip(" \t").partition("=")
            if key != name or not equals:
                continue
            if cookie_value is not None:
                return None
            cookie_value = value
        return (
            cookie_value
            if cookie_value is not None and _COOKIE_VALUE.fullmatch(cookie_value)
            else None
        )

    @property
    def bearer_token(self) -> str:
        """The token of the Authorization header, "" for none (RFC 6750 section 2.1)."""
        sent = self.headers.get("authorization") or ""
        return sent[len(_BEARER) :].strip(" ") if sent[: len(_BEARER)].lower() == _BEARER else ""

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"


# Not frozen: creating a frozen instance costs four times as much as the rest of it.
class Response(Struct):
    """A response; it must not be changed once it is made.

    The App adds security headers, Content-Length, and `no-store` unless the response sets a
    Cache-Control. With a `stream` its pieces follow the body, without Content-Length, each when the
    client has room for it. The stream is closed when it ends, when the client disconnects (also
    when it takes nothing for 30 seconds), and when the server stops. Only a response whose stream
    ended by itself appears complete to the client.
    """

    status: int
    body: bytes = b""
    headers: Pairs = ()
    stream: AsyncGenerator[bytes] | None = None


Endpoint = Callable[[Request], Awaitable[Response]]
"""Answers one method of one path; may raise Refused."""

Refuse = Callable[[Request, Refusal], Response]
"""Turns a refusal into the error response of a group of routes; must not fail."""

_JSON = ("content-type", "application/json")
_NO_REFERRER = ("referrer-policy", "no-referrer")
_NO_STORE = ("cache-control", "no-store")
_encode = msgspec.json.Encoder().encode


def json_response(value: object, status: int = 200, headers: Pairs = ()) -> Response:
    """Return `value` as a JSON response: anything msgspec can encode, dataclasses included."""
    return Response(status, _encode(value), (_JSON, *headers))


def html_response(body: bytes, status: int, csp: str, headers: Pairs = ()) -> Response:
    """Return a page with the Content-Security-Policy `csp` that must not be stored."""
    own = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", csp),
        _NO_STORE,
    )
    return Response(status, body, (*own, *headers))


class Interrupt(Exception):
    """Raised to end a request at once with `response`."""

    def __init__(self, response: Response) -> None:
        """Answer with this response."""
        super().__init__(response.status)
        self.response = response


def redirect(url: str, headers: Pairs = ()) -> Response:
    """Return a 303: the browser continues with GET, without form fields (RFC 9700 4.12)."""
    return Response(303, b"", (("location", url), _NO_STORE, *headers))


def see_other(url: str, *headers: tuple[str, str]) -> Response:
    """Return a redirect to `url` that does not tell it where the browser came from."""
    return redirect(url, (_NO_REFERRER, *headers))


def conditional(request: Request, response: Response) -> Response:
    """Return the 304 of `response` if the client has it already (RFC 9110 section 13.1.2).

    It has the header fields of the 200, except those of the body: caches take them over, so that
    one which differs, such as a policy, would replace that of the stored response. Raises Refused
    (400) for an invalid list of tags.
    """
    tags = request.headers.all("if-none-match")
    if not tags or response.status != _OK or request.method not in READS:
        return response
    etag = next((value for name, value in response.headers if name == "etag"), "")
    if not etag or not preconditions((), tags).lists(etag.removeprefix("W/")):
        return response
    kept = tuple(pair for pair in response.headers if pair[0] not in _OF_THE_BODY)
    return Response(_NOT_MODIFIED, b"", kept)


_OK, _NOT_MODIFIED = HTTPStatus.OK.value, HTTPStatus.NOT_MODIFIED.value
READS = frozenset(("GET", "HEAD"))
"""The methods that only read."""
_OF_THE_BODY = frozenset(("content-encoding", "content-type"))

STATUS_LINE = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
"""The status line of each status (RFC 9112 section 4)."""
