"""The issuer's metadata and its public keys (RFC 8414; OpenID Connect Discovery)."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.refusal import OperatorError, Refused
from valetkey.sdk.fetch import Fetcher, HttpClient, Unreachable


@dataclass(frozen=True, slots=True)
class Issuer:
    """An authorization server and its endpoints; "" for those it lacks.

    `url` is its name, compared with `iss` byte by byte. `checksummed` says that its tokens by
    reference are Valetkey's, so that malformed tokens are recognised without a request. `errors` is
    the URL that explains error codes. `names_itself` says that its authorization responses have an
    `iss` (RFC 9207). With `signed_introspection` the API requests signed introspection responses
    and accepts no others (RFC 9701).

    An issuer other than Valetkey is described by its endpoints, or read by `find_issuer`:

    >>> other = Issuer(
    ...     "https://id.example.com",
    ...     keys="https://id.example.com/keys",
    ...     introspection="https://id.example.com/introspect",
    ... )
    >>> Issuer.valetkey("https://auth.example.com").keys
    'https://auth.example.com/oauth/jwks'
    """

    url: str
    keys: str
    introspection: str = ""
    revocations: str = ""
    uses: str = ""
    authorization: str = ""
    token: str = ""
    device: str = ""
    errors: str = ""
    algorithms: tuple[Algorithm, ...] = tuple(Algorithm)
    checksummed: bool = False
    names_itself: bool = False
    signed_introspection: bool = False

    @staticmethod
    def valetkey(url: str, *, signed_introspection: bool = False) -> "Issuer":
        """Return the Valetkey authorization server whose base URL and issuer name is `url`."""
        return Issuer(
            url=url,
            keys=f"{url}/oauth/jwks",
            introspection=f"{url}/oauth/introspect",
            revocations=f"{url}/oauth/revocations",
            uses=f"{url}/oauth/uses",
            authorization=f"{url}/oauth/authorize",
            token=f"{url}/oauth/token",
            device=f"{url}/oauth/device-authorization",
            errors=f"{url}/errors",
            checksummed=True,
            names_itself=True,
            signed_introspection=signed_introspection,
        )


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The members of the metadata document that the SDK uses; "" for those it lacks."""

    issuer: str
    jwks_uri: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    introspection_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False

    def as_issuer(self) -> Issuer:
        """Return the issuer that an API trusts, with the endpoints found by discovery."""
        return Issuer(
            url=self.issuer,
            keys=self.jwks_uri,
            introspection=self.introspection_endpoint,
            authorization=self.authorization_endpoint,
            token=self.token_endpoint,
            names_itself=self.authorization_response_iss_parameter_supported,
        )


async def discover(issuer: str, http: HttpClient) -> ServerMetadata:
    """Fetch the metadata of the server called `issuer`.

    Raises Unreachable without a usable response, and OperatorError if another server answers.
    """
    for url in _addresses(issuer):
        answer = await http.get(url)
        if answer.status != HTTPStatus.OK:
            continue
        try:
            metadata = msgspec.json.decode(answer.body, type=ServerMetadata)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # RFC 8414 section 3.3: otherwise one server could impersonate another.
        if metadata.issuer != issuer:
            raise OperatorError(f"{url} is the metadata of another issuer than {issuer}")
        return metadata
    raise Unreachable(f"no metadata of the issuer {issuer}")


def find_issuer(url: str, tls: ssl.SSLContext | None = None) -> Issuer:
    """Return the issuer called `url`, as its metadata describes it, when a program starts.

    Blocks for at most 10 seconds. Raises Unreachable and OperatorError as `discover` does.
    Configure the addresses instead to start while the issuer is unreachable.
    """

    async def find() -> Issuer:
        async with Fetcher(tls) as http:
            return (await discover(url, http)).as_issuer()

    return asyncio.run(find())


def _addresses(issuer: str) -> tuple[str, str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
    )


REST = seconds(10)
"""Minimum pause after a fetch without new keys: attackers can invent key ids."""

FRESH = seconds(300)
"""Interval between fetches, so that a withdrawn key is forgotten."""

_RETRY = seconds(1)  # while the issuer is unreachable, no key is known, or keys are being rotated
_LOOK_EVERY = 1.0
_FIRST_PAUSE = 0.05  # seconds after the first fetch without an answer; each further pause doubles

Keep = Callable[[bytes], Awaitable[object]]
"""Stores the key set whenever it changes, so that a restart does not need the issuer."""


class KeySource:
    """The keys of one issuer. `keys` stays one object until the set changes."""

    def __init__(
        self, url: str, fetch: HttpClient, *, cached: bytes = b"", keep: Keep | None = None
    ) -> None:
        """Fetch from `url`; start with the document that was `cached` before."""
        self._url = url
        self._fetch = fetch
        self._keep = keep
        self._document = b""
        self._keys: KeySet | None = None
        self._asked_at = Instant(0)
        self._heard_at = Instant(0)
        self._had_new_keys = False
        self._request: asyncio.Task[bool] | None = None
        self._replace(cached)

    @property
    def keys(self) -> KeySet | None:
        """Return the known keys; None if the issuer never answered."""
        return self._keys

    def is_sure(self) -> bool:
        """Return whether the last fetch succeeded: only then is an unknown key invalid."""
        return self._keys is not None and self._heard_at >= self._asked_at

    async def fetch_missing(self, now: Instant) -> bool:
        """Fetch the keys because one is missing, if the last fetch is long enough ago.

        Returns True if the set changed. At most one request in 10 seconds, or in one second while
        the issuer does not answer. Concurrent callers wait for one response.

        An issuer in an emergency rotates more than once: in the second after a response with new
        keys, a missing key may be newer still, and the request is sent when that second has passed.
        """
        if self._request is None and 0 <= (passed := now - self._asked_at) < self._shortest_pause():
            if not self._had_new_keys:
                return False
            return await self._fetch_shared(now, _RETRY - passed)
        return await self._fetch_shared(now)

    def _shortest_pause(self) -> int:
        return REST if self.is_sure() and not self._had_new_keys else _RETRY

    async def follow(self, now: Callable[[], Instant]) -> None:
        """Fetch at once and then every five minutes, sooner after a failure, until cancelled.

        While no key is known, no token can be verified: the pauses grow from 0.05 s to 1 s, because
        a server that starts together with its issuer is often the first to be ready.
        """
        pause = _FIRST_PAUSE
        while True:
            at = now()
            if self._keys is None:
                await self._fetch_shared(at)
            elif not self.is_sure() or at - self._heard_at >= FRESH:
                await self.fetch_missing(at)
            await asyncio.sleep(_LOOK_EVERY if self._keys is not None else pause)
            pause = min(2 * pause, _LOOK_EVERY)

    async def _fetch_shared(self, now: Instant, after: float = 0) -> bool:
        if self._request is None:
            self._request = asyncio.get_running_loop().create_task(self._refresh(now, after))
            self._request.add_done_callback(self._end_request)
        # Shielded: cancelling one caller must not cancel the shared request.
        return await asyncio.shield(self._request)

    def _end_request(self, _: asyncio.Task[bool]) -> None:
        self._request = None

    async def _refresh(self, now: Instant, after: float) -> bool:
        await asyncio.sleep(after)
        self._asked_at = now
        self._had_new_keys = False
        try:
            answer = await self._fetch.get(self._url)
        except Unreachable:
            return False
        if answer.status != HTTPStatus.OK:
            return False
        if answer.body == self._document:
            self._heard_at = now
            return False
        if not self._replace(answer.body):
            return False
        self._heard_at = now
        self._had_new_keys = True
        if self._keep is not None:
            await self._keep(answer.body)
        return True

    def _replace(self, document: bytes) -> bool:
        """Replace the keys by `document`, unless it is no key set or an empty one."""
        if not document:
            return False
        try:
            # The issuer may have keys for algorithms that we do not support (RFC 7517 section 5).
            keys = KeySet.parse(document, ignore_unknown=True, of_issuer=True)
        except Refused:
            return False
        if not len(keys):
            return False
        self._keys = keys
        self._document = document
        return True
