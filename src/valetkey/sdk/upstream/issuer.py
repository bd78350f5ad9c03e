"""Issuer: an authorization server and its endpoints."""

from dataclasses import dataclass

from valetkey.kernel.jose.algorithm import Algorithm


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
