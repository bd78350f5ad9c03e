"""Signed introspection responses (RFC 9701): verify issuer, audience and time."""

from collections.abc import Mapping
from typing import cast

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import AHEAD, Instant, seconds
from valetkey.kernel.refusal import Refused
from valetkey.kernel.strict_json import read_object

MEDIA_TYPE = "application/token-introspection+jwt"
"""The media type of requested and accepted responses."""

FRESH = seconds(60)
"""Maximum age of a response: an older one may be a replay."""

_TYP = MEDIA_TYPE.removeprefix("application/")
_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}


class UnknownKey(Exception):
    """The response is signed with an unknown key; fetching newer keys may help."""


def read_signed(
    body: bytes, keys: KeySet, *, issuer: str, audience: str, now: Instant
) -> Mapping[str, object] | None:
    """Return `issuer`'s response to `audience` about a token; None if it is invalid.

    Raises UnknownKey.
    """
    try:
        parts = jwt.parse(body.decode("ascii"), (_TYP,))
    except (Refused, UnicodeDecodeError):
        return None
    algorithm = _ALGORITHMS.get(parts.header.alg)
    key = keys.find(parts.header.kid)
    if key is None:
        raise UnknownKey
    if algorithm is None or algorithm not in key.algorithms:
        return None
    if not key.verifies(algorithm, parts.signature, parts.signed):
        return None
    claims = read_object(parts.payload) or {}
    at, named = claims.get("iat"), claims.get("aud")
    listed = cast("list[object]", named) if isinstance(named, list) else [named]
    said = claims.get("token_introspection")
    if (
        claims.get("iss") != issuer
        or audience not in listed
        or type(at) is not int
        or not now - FRESH <= at <= now + AHEAD
        or not isinstance(said, dict)
    ):
        return None
    return cast("dict[str, object]", said)
