"""Discover an authorization server's metadata (RFC 8414; OpenID Connect Discovery)."""

import asyncio
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.refusal import OperatorError
from valetkey.sdk.fetch import Fetcher, HttpClient, Unreachable


@dataclass(frozen=True, slots=True)
class Issuer:
    """An authorization server and its endpoints; "" for those it lacks.

    `url` is its name, compared with `iss` byte by byte. `checksummed` says that its tokens by
    reference are Valetkey's, so that malformed tokens are recognised without a request. `errors` is
    the URL that explains error codes. `names_itself` says that its authorization responses have an
    `iss` (RFC 9207). With `signed_introspection` the API requests signed introspection responses
    and accepts no others (RFC 9701).
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
            said = msgspec.json.decode(answer.body, type=ServerMetadata)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # RFC 8414 section 3.3: otherwise one server could impersonate another.
        if said.issuer != issuer:
            raise OperatorError(f"{url} is the metadata of another issuer than {issuer}")
        return said
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
