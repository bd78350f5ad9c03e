"""An authorization server and where it answers."""

from dataclasses import dataclass

from valetkey.kernel.jose.algorithm import Algorithm


@dataclass(frozen=True, slots=True)
class Issuer:
    """An authorization server and where it answers; "" for what it does not have.

    `url` is its name, compared with `iss` byte by byte. `checksummed` says that its tokens by
    reference are Valetkey's, so that noise is told apart without asking. `errors` explains codes.
    `names_itself` says that its authorization responses have an `iss` (RFC 9207).
    With `signed_introspection` it is asked for signed answers about tokens, and no others are taken
    (RFC 9701).
    """

    url: str
    keys: str
    introspection: str = ""
    revocations: str = ""
    authorization: str = ""
    token: str = ""
    errors: str = ""
    algorithms: tuple[Algorithm, ...] = tuple(Algorithm)
    checksummed: bool = False
    names_itself: bool = False
    signed_introspection: bool = False

    @staticmethod
    def valetkey(url: str, *, signed_introspection: bool = False) -> "Issuer":
        """A Valetkey authorization server with the base `url`, which is its issuer name."""
        return Issuer(
            url=url,
            keys=f"{url}/oauth/jwks",
            introspection=f"{url}/oauth/introspect",
            revocations=f"{url}/oauth/revocations",
            authorization=f"{url}/oauth/authorize",
            token=f"{url}/oauth/token",
            errors=f"{url}/errors",
            algorithms=(Algorithm.ES256,),
            checksummed=True,
            names_itself=True,
            signed_introspection=signed_introspection,
        )
