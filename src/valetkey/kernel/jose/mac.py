"""Sign and verify JWTs with a shared secret: HS256 (RFC 7518 section 3.2, OIDC Core 10.1).

Separate from `jwt.py` on purpose: a public key can never reach code that expects a secret.
"""

import hmac
from collections.abc import Collection, Mapping

import msgspec

from valetkey.kernel.jose import jwt
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Secret, to_base64url

ALGORITHM = "HS256"
"""The only supported algorithm; longer hashes add no security."""

SHORTEST = 32
"""Minimum number of bytes in a signing secret: the size of the hash."""


def sign_shared(claims: Mapping[str, object], secret: Secret, *, typ: str = "JWT") -> str:
    """Sign the claims as a JWT of this type with `secret`.

    The claims must be representable in JSON. Raises ValueError for a secret under 32 bytes.
    """
    key = _key(secret)
    if key is None:
        raise ValueError(f"a secret that signs has at least {SHORTEST} bytes")
    header = {"alg": ALGORITHM} | ({"typ": typ} if typ else {})
    parts = (to_base64url(msgspec.json.encode(part)) for part in (header, claims))
    signed = ".".join(parts)
    return f"{signed}.{to_base64url(authenticate(key, signed.encode('ascii')))}"


def verify_shared(
    token: str,
    secrets: Collection[Secret],
    *,
    typ: Collection[str],
    audience: str | Collection[str],
    now: Instant,
    issuer: str | None = None,
    leeway: int = 10,
    foreign: bool = False,
) -> jwt.Claims:
    """Return the claims of a live JWT for `audience` that one of `secrets` signed.

    Every rule is as in `jwt.verify`. A secret under 32 bytes verifies nothing.
    """
    parts = verify_shared_signature(token, secrets, typ=typ)
    return jwt.read_claims(
        parts.payload, issuer=issuer, audience=audience, now=now, leeway=leeway, foreign=foreign
    )


def verify_shared_signature(
    token: str, secrets: Collection[Secret], *, typ: Collection[str]
) -> jwt.JwtParts:
    """Return the parts of a JWT that one of `secrets` signed; the claims are not checked."""
    parts = jwt.parse(token, typ)
    check_shared_signature(parts, secrets)
    return parts


def check_shared_signature(parts: jwt.JwtParts, secrets: Collection[Secret]) -> None:
    """Refuse a JWT unless one of `secrets` signed it."""
    if parts.header.alg != ALGORITHM:
        raise _refused("alg", ALGORITHM)
    keys = [key for key in map(_key, secrets) if key is not None]
    macs = (authenticate(key, parts.signed) for key in keys)
    if not any(hmac.compare_digest(mac, parts.signature) for mac in macs):
        raise _refused("signature", "a signature with the client's secret")


def authenticate(key: bytes, message: bytes) -> bytes:
    """Return the signature of `message` as a JWS carries it."""
    return hmac.digest(key, message, "sha256")


def _key(secret: Secret) -> bytes | None:
    # OpenID Core section 10.1: the key is the bytes of the secret as written, not decoded.
    key = secret.reveal().encode("utf-8", "surrogatepass")
    return key if len(key) >= SHORTEST else None


def _refused(check: str, expected: str) -> Refused:
    description = "the token is not valid"
    return Refused.because(ErrorCode.INVALID_TOKEN, description, f"jwt.{check}", expected)
