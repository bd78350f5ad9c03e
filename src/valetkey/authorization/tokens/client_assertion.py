"""Authenticate this server at another one, with `private_key_jwt` (RFC 7523, OIDC Core 9)."""

from collections.abc import Collection

from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose import jwt
from valetkey.kernel.moment import minutes
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import to_base64url

_LIFETIME = minutes(1)


async def sign_client_assertion(
    keys: SigningKeyRing,
    runtime: Runtime,
    client_id: str,
    audience: str,
    announced: Collection[str],
) -> str:
    """Return an assertion, signed with a key that `/oauth/jwks` publishes.

    The first of our algorithms that the other server announced, or the first if it announced none.
    Its issuer is the client ID, so it is no token of this server.
    """
    now = runtime.now()
    await keys.refresh(now, surely=True)
    algorithms = tuple(keys.algorithms)
    algorithm = next((each for each in algorithms if each in announced), algorithms[0])
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": to_base64url(runtime.random(16)),
        "iat": now,
        "exp": now + _LIFETIME,
    }
    return jwt.sign(claims, keys.current(now, algorithm), typ="JWT")
