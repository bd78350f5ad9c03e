"""The HTTP client for the issuer: bounded size and time, no redirects."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import quote_plus, urlencode

from valetkey.kernel.runtime import import_lazily
from valetkey.kernel.secret import Secret
from valetkey.kernel.tracing import TRACES, current_span
from valetkey.kernel.url import parse_url

if TYPE_CHECKING:
    import httpx2
else:
    httpx2 = import_lazily("httpx2")

CONNECT_WITHIN = 3.0
"""Seconds to connect to the issuer."""

ANSWER_WITHIN = 5.0
"""Seconds until the last byte of the response, including connecting."""

SILENT_FOR = 2.5
"""Seconds without a byte after which a stream counts as dead."""

LARGEST_ANSWER = 1_048_576
"""Maximum number of bytes in a response; a page of the revocation feed is the largest expected."""

# Identity: a response must not expand while it is read.
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "valetkey"}


class Unreachable(Exception):
    """There was no usable response: a network error, a timeout or an oversized response."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The API's credential at the issuer: HTTP Basic (RFC 6749 section 2.3.1)."""

    client_id: str
    client_secret: Secret

    def basic(self) -> str:
        """Return the value of the Authorization header."""
        # Both halves are form-encoded first, so that a colon in the id cannot move the separator.
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret.reveal())}"
        return "Basic " + b64encode(pair.encode("ascii")).decode("ascii")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the issuer."""

    status: int
    body: bytes


class HttpClient(Protocol):
    """A connection to the issuer: over the network, or in memory for tests."""

    async def get(self, url: str, credential: Credential | None = None) -> Answer:
        """Get `url`. Raises Unreachable."""
        ...

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str],
        credential: Credential | None = None,
        *,
        accept: str = "",
    ) -> Answer:
        """Send `fields` as a form, accepting this media type. Raises Unreachable."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@cache
def default_trust() -> ssl.SSLContext:
    """Return the context that trusts public certificate authorities and those of the system."""
    # Loaded once for all: the certificates take a megabyte.
    context: ssl.SSLContext = httpx2.create_ssl_context(trust_env=False)
    # Those of the system, too: an operator installs an internal authority there.
    context.load_default_certs()
    return context


class Fetcher:
    """A pool of connections to the issuer.

    Follows no redirect, reads no proxy from the environment, and gives up after 3 seconds without a
    connection, 5 seconds in all, or 1 MiB. Every failure raises `Unreachable`.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Trust what `tls` trusts; without it, public authorities and those of the system."""
        self._client = httpx2.AsyncClient(
            verify=default_trust() if tls is None else tls,
            timeout=httpx2.Timeout(ANSWER_WITHIN, connect=CONNECT_WITHIN),
            limits=httpx2.Limits(
                max_connections=32, max_keepalive_connections=8, keepalive_expiry=20.0
            ),
            headers=_HEADERS,
            follow_redirects=False,
            trust_env=False,
        )

    async def get(self, url: str, credential: Credential | None = None) -> Answer:
        """Get `url`. Raises Unreachable."""
        return await self._exchange("GET", url, credential)

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str],
        credential: Credential | None = None,
        *,
        accept: str = "",
    ) -> Answer:
        """Send `fields` as a form; without `accept`, for JSON. Raises Unreachable."""
        body = urlencode(fields).encode("ascii")
        kind = "application/x-www-form-urlencoded"
        return await self._exchange("POST", url, credential, body, kind, accept)

    async def post_json(
        self, url: str, body: bytes, credential: Credential | None = None
    ) -> Answer:
        """Send `body`, which is JSON already. Raises Unreachable."""
        return await self._exchange("POST", url, credential, body, "application/json")

    async def stream(
        self, url: str, credential: Credential | None = None, last_event_id: str = ""
    ) -> AsyncGenerator[bytes]:
        """Iterate over the lines of an event stream, starting after `last_event_id`.

        Raises Unreachable for any other response, for a line above 1 MiB, for too long without a
        byte, and when the connection breaks; ends when the issuer ends it.
        """
        headers = {"accept": "text/event-stream"}
        if credential is not None:
            headers["authorization"] = credential.basic()
        if last_event_id:
            headers["last-event-id"] = last_event_id
        try:
            async with self._client.stream(
                "GET",
                url,
                headers=headers,
                timeout=httpx2.Timeout(SILENT_FOR, connect=CONNECT_WITHIN),
            ) as response:
                kind = response.headers.get("content-type", "").partition(";")[0].strip()
                if response.status_code != HTTPStatus.OK or kind != "text/event-stream":
                    raise Unreachable("the issuer gives no stream of events")
                async for line in _lines(response):
                    yield line
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreachable(f"the stream broke: {type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def _exchange(
        self,
        method: str,
        url: str,
        credential: Credential | None,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "",
    ) -> Answer:
        headers: dict[str, str] = {}
        if accept:
            headers["accept"] = accept
        if credential is not None:
            headers["authorization"] = credential.basic()
        if content_type:
            headers["content-type"] = content_type
        if not TRACES.on:
            return await self._send(method, url, body, headers)
        web = parse_url(url)
        host, port = ("", 0) if web is None else (web.host, web.port)
        with TRACES.call(current_span(), method, host, port) as span:
            answer = await self._send(method, url, body, {**headers, **span.headers()})
            span.set("http.response.status_code", answer.status)
            return answer

    async def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        try:
            # httpx times each read alone; only this limits the whole exchange.
            async with (
                asyncio.timeout(ANSWER_WITHIN),
                self._client.stream(method, url, content=body, headers=headers) as response,
            ):
                return Answer(response.status_code, await _read(response))
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreachable(f"no answer from the issuer: {type(error).__name__}") from error


async def _lines(response: "httpx2.Response") -> AsyncGenerator[bytes]:
    rest = bytearray()
    async for chunk in response.aiter_raw():
        rest += chunk
        *lines, last = rest.split(b"\n")
        for line in lines:
            yield bytes(line.removesuffix(b"\r"))
        rest = last
        if len(rest) > LARGEST_ANSWER:
            raise Unreachable(f"a line of the stream is above {LARGEST_ANSWER} bytes")


async def _read(response: "httpx2.Response") -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise Unreachable(f"the issuer's answer is above {LARGEST_ANSWER} bytes")
    return bytes(body)
