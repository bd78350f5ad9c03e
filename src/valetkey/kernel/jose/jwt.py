"""Sign and verify JWTs; alg, typ, iss and aud are never implied (RFC 7515, 7519, 8725).

The token is parsed strictly here, then `cryptography` checks the signature. No JOSE library is
used, because it would accept more algorithms, serialisations or headers than this module.
"""

from collections.abc import Collection, Mapping
from typing import cast

import msgspec
from msgspec import Struct

from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import AHEAD, Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import from_base64url, to_base64url
from valetkey.kernel.strict_json import read_object

Claims = dict[str, object]
"""The claims of a verified token. Registered claims have their types; all others are as sent."""

LONGEST = 16_384
"""Maximum number of characters in a token."""

UNKNOWN_KEY = "jwt.key"
"""The check of a refusal that fetching newer keys might resolve."""

UNSIGNED = "none"
"""The `alg` of an unsigned token (RFC 7518 section 3.6); only `parse_unsigned` accepts it."""

_DOTS = 2
_HEADER = frozenset({"alg", "kid", "typ"})
_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}
_TIMES = ("exp", "iat", "nbf")
_TEXTS = ("iss", "sub", "jti")
_LONGEST_KID = 256


class Header(Struct, frozen=True):
    """The header of a JWT, not yet verified; `typ` is in lower case, "" if it is absent."""

    alg: str
    kid: str | None
    typ: str


class Parts(Struct, frozen=True):
    """A JWT split into its parts, not yet verified: the signed content and the signature."""

    header: Header
    payload: bytes
    signed: bytes
    signature: bytes


def sign(claims: Mapping[str, object], key: SigningKey, *, typ: str) -> str:
    """Sign the claims as a JWT of this type in compact serialisation.

    The claims must be representable in JSON; the algorithm and kid are the key's.
    """
    signed = f"{key.header(typ)}.{to_base64url(msgspec.json.encode(claims))}"
    return f"{signed}.{to_base64url(key.sign(signed.encode('ascii')))}"


def verify(
    token: str,
    keys: KeySet,
    *,
    typ: Collection[str],
    algorithms: Collection[Algorithm],
    audience: str | Collection[str],
    now: Instant,
    issuer: str | None = None,
    leeway: int = 10,
) -> Claims:
    """Return the claims of a live JWT for `audience` that one of `keys` signed.

    `typ` holds the accepted types in lower case, with or without their "application/", and "" if
    the header may omit it; with `issuer` None the caller must check `iss`. `exp` is required and
    may have passed at most `leeway` seconds ago; `nbf` has that leeway too, `iat` may be 60 seconds
    ahead. Refused with `invalid_token` and the name of the failed rule; the refusal never contains
    any of the token.
    """
    parts = verify_signature(token, keys, typ=typ, algorithms=algorithms)
    return read_claims(parts.payload, issuer=issuer, audience=audience, now=now, leeway=leeway)


def verify_signature(
    token: str, keys: KeySet, *, typ: Collection[str], algorithms: Collection[Algorithm]
) -> Parts:
    """Return the parts of a JWT that one of `keys` signed; the claims are not checked."""
    parts = parse(token, typ)
    algorithm = _ALGORITHMS.get(parts.header.alg)
    if algorithm is None or algorithm not in algorithms:
        raise _refused("alg", " or ".join(sorted(algorithms)), algorithm or "")
    key = keys.find(parts.header.kid)
    if key is None:
        raise Refused(_refusal("key", "a key of the issuer"))
    if algorithm not in key.algorithms:
        raise _refused("alg", " or ".join(key.algorithms), algorithm)
    if not key.verifies(algorithm, parts.signature, parts.signed):
        raise _refused("signature", "a signature by the key that is named")
    return parts


def parse(token: str, typ: Collection[str]) -> Parts:
    """Split a JWT without checking its signature. Raises Refused as `verify` would."""
    return _parse(token, typ, signed=True)


def parse_unsigned(token: str, typ: Collection[str]) -> Parts:
    """Split an unsecured JWT, which has no signature (RFC 7519 section 6). Raises Refused.

    Only for content that is allowed to be unsigned: its author is unknown.
    """
    parts = _parse(token, typ, signed=False)
    if parts.header.alg != UNSIGNED or parts.signature:
        raise _refused("alg", UNSIGNED)
    return parts


def header_of(token: str) -> Header:
    """Return the header of a JWT, unverified. Refused as `verify` would."""
    return _read_header(_segments(token)[0])


def _segments(token: str) -> tuple[str, str, str]:
    if len(token) > LONGEST:
        raise _refused("long", f"at most {LONGEST} characters", f"{len(token)} characters")
    # Before splitting: a million dots would become a million strings.
    if token.count(".") != _DOTS:
        raise _refused("form", "three parts", f"{token.count('.') + 1} parts")
    header, payload, signature = token.split(".")
    return header, payload, signature


def _parse(token: str, typ: Collection[str], *, signed: bool) -> Parts:
    header_part, payload_part, signature_part = _segments(token)
    payload = from_base64url(payload_part)
    signature = from_base64url(signature_part)
    if payload is None or signature is None or (signed and not signature):
        raise _refused("encoding", "canonical base64url")
    header = _read_header(header_part)
    if header.typ not in typ:
        raise _refused("typ", " or ".join(sorted(typ)))
    return Parts(header, payload, f"{header_part}.{payload_part}".encode("ascii"), signature)


def read_claims(
    payload: bytes,
    *,
    audience: str | Collection[str],
    now: Instant,
    issuer: str | None,
    leeway: int,
    ahead: int = AHEAD,
    sparse: bool = False,
) -> Claims:
    """Return the claims of a JWT whose signature was verified; refused as `verify` would.

    With `sparse`, `exp`, `iss` and `aud` may be absent; if present, they must be valid.
    """
    # Only after the signature check: claims from anyone but the key's owner must not reach the
    # parser.
    claims = read_object(payload)
    if claims is None:
        raise _refused("payload", "a strict JSON object")
    absent = {"exp", "iss", "aud"} - claims.keys() if sparse else set[str]()
    _check_times(claims, now, leeway, ahead, absent)
    audience = {audience} if isinstance(audience, str) else audience
    _check_parties(claims, issuer, audience, absent)
    return claims


def _read_header(segment: str) -> Header:
    data = from_base64url(segment)
    header = None if data is None else read_object(data)
    if header is None:
        raise _refused("header", "a strict JSON object in base64url")
    # crit, b64, zip, jwk, jku, x5u and x5c would change what is verified or with which key.
    if not _HEADER.issuperset(header):
        raise _refused("header", "alg, kid and typ")
    alg, kid, typ = header.get("alg"), header.get("kid"), header.get("typ", "")
    if not isinstance(alg, str) or not alg:
        raise _refused("alg", " or ".join(Algorithm))
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= _LONGEST_KID):
        raise _refused("kid", f"a string of 1 to {_LONGEST_KID} characters")
    if not isinstance(typ, str) or ("typ" in header and not typ):
        raise _refused("typ", "a media type")
    # RFC 7515 section 4.1.9: types compare case-insensitively, and "application/" may be omitted.
    return Header(alg, kid, typ.lower().removeprefix("application/"))


def _check_times(
    claims: Claims, now: Instant, leeway: int, ahead: int, absent: Collection[str]
) -> None:
    times: dict[str, int] = {}
    for name in _TIMES:
        value = claims.get(name)
        if name in absent or (value is None and name not in claims and name != "exp"):
            continue
        # type, not isinstance: True is an int.
        if type(value) is not int or value < 0:
            raise _refused(name, "whole seconds since 1970")
        times[name] = value
    if "exp" in times and times["exp"] + leeway <= now:
        refusal = _refusal("exp", f"after {now}", str(times["exp"]), "the token has expired")
        raise Refused(refusal)
    if times.get("nbf", now) > now + leeway:
        raise _refused("nbf", f"at most {now + leeway}", str(times["nbf"]))
    if times.get("iat", now) > now + ahead:
        raise _refused("iat", f"at most {now + ahead}", str(times["iat"]))


def _check_parties(
    claims: Claims, issuer: str | None, audience: Collection[str], absent: Collection[str]
) -> None:
    for name in _TEXTS:
        if name in claims and not isinstance(claims[name], str):
            raise _refused(name, "a string")
    if issuer is not None and "iss" not in absent and claims.get("iss") != issuer:
        raise _refused("iss", issuer)
    if "aud" in absent:
        return
    named = claims.get("aud")
    listed = cast("list[object]", named) if isinstance(named, list) else [named]
    texts = [text for text in listed if isinstance(text, str)]
    if not texts or len(texts) != len(listed):
        raise _refused("aud", "a string or strings")
    if not any(text in audience for text in texts):
        raise _refused("aud", " or ".join(sorted(audience)))


def _refusal(
    check: str, expected: str, received: str = "", description: str = "the token is not valid"
) -> Refusal:
    return Refusal(ErrorCode.INVALID_TOKEN, description, f"jwt.{check}", expected, received)


def _refused(check: str, expected: str, received: str = "") -> Refused:
    return Refused(_refusal(check, expected, received))
