"""What an authorization server says about itself (RFC 8414; OpenID Connect Discovery)."""

import asyncio
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from valetkey.kernel.refusal import Mistake
from valetkey.sdk.fetch import Door, Fetcher, Unreachable
from valetkey.sdk.upstream.issuer import Issuer


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The members of the metadata document that matter to us; "" for those it does not have."""

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


async def discover(issuer: str, door: Door) -> ServerMetadata:
    """What the server called `issuer` says about itself.

    Raises Unreachable where nothing usable answers, and Mistake where another server does.
    """
    for url in _addresses(issuer):
        answer = await door.get(url)
        if answer.status != HTTPStatus.OK:
            continue
        try:
            said = msgspec.json.decode(answer.body, type=ServerMetadata)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # RFC 8414 section 3.3: otherwise one server could speak in the name of another.
        if said.issuer != issuer:
            raise Mistake(f"{url} speaks for another issuer than {issuer}")
        return said
    raise Unreachable(f"no metadata of the issuer {issuer}")


def find_issuer(url: str, tls: ssl.SSLContext | None = None) -> Issuer:
    """The issuer called `url`, as its own metadata describe it, for a program that starts.

    It blocks for 10 seconds at most. Raises Unreachable and Mistake as `discover`; whoever wants
    to start while the issuer is away writes the addresses down instead.
    """

    async def find() -> Issuer:
        async with Fetcher(tls) as door:
            return (await discover(url, door)).as_issuer()

    return asyncio.run(find())


def _addresses(issuer: str) -> tuple[str, str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
    )
