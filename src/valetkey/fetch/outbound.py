"""The outbound HTTP client: bounded, without redirects, and never to an internal address."""

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.fetch.address import (
    Address,
    Lookups,
    Network,
    RequestSlots,
    Resolve,
    is_in,
    may_be_reached,
    read_address,
    resolve_by_system,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import import_lazily
from valetkey.kernel.tracing import TRACES, current_span
from valetkey.kernel.url import Web, parse_url

if TYPE_CHECKING:
    import httpx2
else:
    httpx2 = import_lazily("httpx2")

CONNECT_WITHIN = 3.0
"""Timeout for connecting to one address, in seconds."""

ANSWER_WITHIN = 5.0
"""Timeout for the whole request in seconds: wait for a slot, name lookup, connection, response."""

LARGEST = 262_144
"""Maximum size of a response body, in bytes."""

REMEMBERED = 5
"""Seconds for which a URL that failed is not requested again."""

JSON = ("application/json",)
"""The media type of most responses."""

FORM = "application/x-www-form-urlencoded"

ANYTHING = ("*/*",)
"""The `accept` of callers that take any media type."""

_MOST_REMEMBERED = 1_000
_TRUSTS_NOTHING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate
_HEADERS = {"accept-encoding": "identity", "connection": "close", "user-agent": "valetkey"}
_FORM = {"content-type": FORM}
_JSON_BODY = {"content-type": "application/json"}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Unfetchable(Exception):
    """No usable response was received; the message deliberately says no more than that.

    `check` names the failure for the operator's log. Shown to a client, it would describe the
    internal network.
    """

    def __init__(self, check: str) -> None:
        """Record the failed `check`."""
        super().__init__("the address gives no usable answer")
        self.check = f"fetch.{check}"


class Fetched(Struct, frozen=True):
    """A response from another server; `media_type` is lower case and without parameters."""

    status: int
    media_type: str
    body: bytes
    retry_after: str = ""
    """The Retry-After header as received."""
    cache_control: str = ""
    """The Cache-Control headers as received, joined."""
    age: str = ""
    """The Age header as received."""
    date: str = ""
    """The Date header as received."""


class OutboundHttp:
    """Send HTTP requests to URLs chosen by untrusted parties (protects against SSRF).

    Allows https on port 443 to public addresses only. The name is resolved once, a single internal
    address among the results rejects it, and the connection goes to the addresses that were
    checked. Networks in `allow` may be internal; http and other ports are permitted there.
    Redirects are not followed, proxy settings are not read from the environment, and content
    encodings are rejected. Limits: 3 seconds to connect, 5 seconds in all, 256 KiB of response
    body.
    """

    def __init__(
        self,
        allow: Collection[Network],
        now: Callable[[], Instant],
        *,
        ca_file: Path | None = None,
        resolve: Resolve = resolve_by_system,
    ) -> None:
        """Trust the system's certificates and those in `ca_file`."""
        self._allow = tuple(allow)
        self._now = now
        self._ca_file = ca_file
        self._lookups = Lookups(resolve)
        self._tls: ssl.SSLContext | None = None
        self._reading = asyncio.Lock()
        self._turns = RequestSlots()
        self._under_way: dict[tuple[str, tuple[str, ...]], asyncio.Task[Fetched]] = {}
        self._failed: dict[str, tuple[Instant, str]] = {}

    def prepare(self) -> None:
        """Load the certificate file now, if there is one. Raises OperatorError if it holds none."""
        if self._ca_file is not None:
            self._tls = trust(self._ca_file)

    async def get(self, url: str, *, accept: tuple[str, ...] = JSON) -> Fetched:
        """Return the response to GET `url`; its status must be 200.

        The media type must be one of `accept`, unless that is ANYTHING. Concurrent calls for one
        URL and `accept` share a request. Raises Unfetchable; after a failure it is raised again
        without a request for 5 seconds.
        """
        failed = self._failed.get(url)
        if failed is not None and abs(self._now() - failed[0]) < REMEMBERED:
            raise Unfetchable(failed[1])
        key = (url, accept)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._read(url, accept))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._end(key, done))
        # Shielded: cancelling one caller must not cancel the request that others share.
        return await asyncio.shield(task)

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str],
        *,
        accept: tuple[str, ...] = ANYTHING,
        authorization: str = "",
    ) -> Fetched:
        """POST `fields` as a form and return the response of any status. Raises Unfetchable."""
        body = urlencode(fields).encode("ascii")
        headers = _FORM | _authorized(authorization)
        return await self._exchange("POST", url, accept, body, headers)

    async def post_json(self, url: str, body: bytes, headers: Mapping[str, str]) -> Fetched:
        """POST `body` as JSON with these headers; return the response of any status.

        Raises Unfetchable.
        """
        return await self._exchange("POST", url, ANYTHING, body, {**headers, **_JSON_BODY})

    async def post(
        self,
        url: str,
        body: bytes,
        media_type: str,
        *,
        authorization: str,
        accept: tuple[str, ...] = ANYTHING,
    ) -> Fetched:
        """POST `body` and return the response of any status. Raises Unfetchable."""
        headers = {"content-type": media_type} | _authorized(authorization)
        return await self._exchange("POST", url, accept, body, headers)

    async def get_authorized(
        self, url: str, *, authorization: str, accept: tuple[str, ...] = JSON
    ) -> Fetched:
        """GET `url` with an Authorization header; return the response of any status, never cached.

        Raises Unfetchable.
        """
        return await self._exchange("GET", url, accept, None, _authorized(authorization))

    async def _read(self, url: str, accept: tuple[str, ...]) -> Fetched:
        fetched = await self._exchange("GET", url, accept, None)
        if fetched.status != HTTPStatus.OK:
            _refuse("status")
        if accept != ANYTHING and fetched.media_type not in accept:
            _refuse("type")
        return fetched

    def _end(self, key: tuple[str, tuple[str, ...]], done: asyncio.Task[Fetched]) -> None:
        del self._under_way[key]
        # Reading the exception also keeps asyncio from logging it as never retrieved.
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Unfetchable):
            if len(self._failed) >= _MOST_REMEMBERED:
                self._failed.clear()
            self._failed[key[0]] = (self._now(), error.check.removeprefix("fetch."))

    async def _exchange(
        self,
        method: str,
        url: str,
        accept: tuple[str, ...],
        body: bytes | None,
        more: Mapping[str, str] = _NO_HEADERS,
    ) -> Fetched:
        web = parse_url(url)
        if web is None:
            _refuse("url")
        own = {"host": _host_field(web), "accept": ", ".join(accept)}
        with TRACES.call(current_span(), method, web.host, web.port) as span:
            try:
                async with asyncio.timeout(ANSWER_WITHIN), self._turns.take(web):
                    addresses = await self._vetted(web)
                    headers = {**more, **own, **span.headers(with_state=False)}
                    fetched = await self._ask(method, web, addresses, headers, body)
            except TimeoutError:
                span.fail("fetch.slow")
                _refuse("slow")
            except Unfetchable as failure:
                span.fail(failure.check)
                raise
            span.set("http.response.status_code", fetched.status)
            return fetched

    async def _vetted(self, web: Web) -> list[Address]:
        host = web.host.strip("[]")
        literal = read_address(host)
        if literal is not None:
            candidates: list[Address | None] = [literal]
        else:
            try:
                candidates = [
                    read_address(text) for text in await self._lookups.find(host, web.port)
                ]
            except OSError:
                _refuse("name")
        addresses = [address for address in dict.fromkeys(candidates) if address is not None]
        if not addresses or None in candidates:
            _refuse("name")
        usual = web.scheme == "https" and web.port == 443  # noqa: PLR2004 - https itself
        # One internal address rejects the name: otherwise the address picked would be a matter of
        # luck.
        if not all(may_be_reached(address, self._allow) for address in addresses):
            _refuse("address")
        if not usual and not all(is_in(address, self._allow) for address in addresses):
            _refuse("port")
        return addresses

    async def _ask(
        self,
        method: str,
        web: Web,
        addresses: list[Address],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Fetched:
        headers = {**_HEADERS, **headers}
        async with httpx2.AsyncClient(
            verify=_TRUSTS_NOTHING if web.scheme == "http" else await self.context(),
            timeout=httpx2.Timeout(ANSWER_WITHIN, connect=CONNECT_WITHIN),
            follow_redirects=False,
            trust_env=False,
        ) as client:
            for address in addresses:
                request = client.build_request(
                    method,
                    _at(web, address),
                    headers=headers,
                    content=body,
                    # The certificate must match the name, not the address of the connection.
                    extensions={"sni_hostname": web.host.strip("[]")},
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    # No part of the request was sent yet, so the next address may be tried.
                    continue
                except (httpx2.HTTPError, httpx2.InvalidURL):
                    _refuse("answer")
                return await _answer(response)
        raise Unfetchable("connect")

    async def context(self) -> ssl.SSLContext:
        """Return the TLS context for https; the first call reads the system's certificates."""
        async with self._reading:
            if self._tls is None:
                # Loading the system's certificates takes about 0.1 s: done on a thread.
                self._tls = await asyncio.to_thread(trust, self._ca_file)
            return self._tls


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """Return a TLS 1.2+ client context trusting the system's certificates and those in `ca_file`.

    Raises OperatorError if the file holds no certificates.
    """
    context = httpx2.create_ssl_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            message = f"{ca_file} is not a PEM file with certificates that can be read"
            raise OperatorError(message, "fetch.ca_file") from error
    return context


async def _answer(response: "httpx2.Response") -> Fetched:
    try:
        # A compressed body could exceed the size limit when it is unpacked.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            _refuse("encoding")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > LARGEST:
                _refuse("large")
    except httpx2.HTTPError:
        _refuse("answer")
    finally:
        await response.aclose()
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    names = ("retry-after", "cache-control", "age", "date")
    more = (response.headers.get(name, "").strip() for name in names)
    return Fetched(response.status_code, kind, bytes(body), *more)


def _authorized(authorization: str) -> dict[str, str]:
    return {"authorization": authorization} if authorization else {}


def _at(web: Web, address: Address) -> str:
    host = f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 - IPv6
    rest = web.rest if web.rest.startswith("/") else f"/{web.rest}"
    return f"{web.scheme}://{host}:{web.port}{rest}"


def _host_field(web: Web) -> str:
    return web.origin().partition("://")[2]


def _refuse(check: str) -> NoReturn:
    # `from None`: details of the network must not appear in a traceback.
    raise Unfetchable(check) from None
