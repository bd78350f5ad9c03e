"""Sign and verify JWTs; alg, typ, iss and aud are never implied (RFC 7515, 7519, 8725).

The token is parsed strictly here, then `cryptography` checks the signature. No JOSE library is
used, because it would accept more algorithms, serialisations or headers than this module.
"""

from collections.abc import Collection, Mapping
from math import floor
from typing import cast

import msgspec
from msgspec import Struct

from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import AHEAD, Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import from_base64url, to_base64url
from valetkey.kernel.strict_json import read_foreign_object, read_object

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


class JwtParts(Struct, frozen=True):
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
    foreign: bool = False,
) -> Claims:
    """Return the claims of a live JWT for `audience` that one of `keys` signed.

    `typ` holds the accepted types in lower case, with or without their "application/", and "" if
    the header may omit it; with `issuer` None the caller must check `iss`. `exp` is required and
    may have passed at most `leeway` seconds ago; `nbf` has that leeway too, `iat` may be 60 seconds
    ahead. `foreign` is for the claims of another party, as in `read_claims`. Refused with
    `invalid_token` and the name of the failed rule; unless the token is foreign, the refusal never
    contains any of it.
    """
    parts = verify_signature(token, keys, typ=typ, algorithms=algorithms)
    return read_claims(
        parts.payload, issuer=issuer, audience=audience, now=now, leeway=leeway, foreign=foreign
    )


def verify_signature(
    token: str, keys: KeySet, *, typ: Collection[str], algorithms: Collection[Algorithm]
) -> JwtParts:
    """Return the parts of a JWT that one of `keys` signed; the claims are not checked."""
    parts = parse(token, typ)
    algorithm = _ALGORITHMS.get(parts.header.alg)
    if algorithm is None or algorithm not in algorithms:
        raise _refused("alg", " or ".join(sorted(algorithms)), algorithm or "")
    named = keys.named(parts.header.kid)
    if not named:
        raise Refused(_refusal("key", "a key of the issuer"))
    if not any(algorithm in key.algorithms for key in named):
        raise _refused("alg", " or ".join(named[0].algorithms), algorithm)
    # False for a key of another algorithm.
    if not any(key.verifies(algorithm, parts.signature, parts.signed) for key in named):
        raise _refused("signature", "a signature by the key that is named")
    return parts


def parse(
    token: str, typ: Collection[str], *, foreign: bool = False, longest: int = LONGEST
) -> JwtParts:
    """Split a JWT without checking its signature. Raises Refused as `verify` would.

    `foreign` is for tokens of other issuers: unknown header parameters are ignored, and "" in `typ`
    stands for every type that is not one of OAuth.
    """
    return _parse(token, typ, signed=True, foreign=foreign, longest=longest)


def parse_unsigned(token: str, typ: Collection[str]) -> JwtParts:
    """Split an unsecured JWT, which has no signature (RFC 7519 section 6). Raises Refused.

    Only for content that is allowed to be unsigned: its author is unknown.
    """
    parts = _parse(token, typ, signed=False, foreign=False)
    if parts.header.alg != UNSIGNED or parts.signature:
        raise _refused("alg", UNSIGNED)
    return parts


def header_of(token: str, *, foreign: bool = False, longest: int = LONGEST) -> Header:
    """Return the header of a JWT, unverified. Refused as `verify` would."""
    return _read_header(_segments(token, longest)[0], foreign=foreign)


def _segments(token: str, longest: int = LONGEST) -> tuple[str, str, str]:
    if len(token) > longest:
        raise _refused("long", f"at most {longest} characters", f"{len(token)} characters")
    # Before splitting: a million dots would become a million strings.
    if token.count(".") != _DOTS:
        raise _refused("form", "three parts", f"{token.count('.') + 1} parts")
    header, payload, signature = token.split(".")
    return header, payload, signature


def _parse(
    token: str, typ: Collection[str], *, signed: bool, foreign: bool, longest: int = LONGEST
) -> JwtParts:
    header_part, payload_part, signature_part = _segments(token, longest)
    payload = from_base64url(payload_part)
    signature = from_base64url(signature_part)
    if payload is None or signature is None or (signed and not signature):
        raise _refused("encoding", "canonical base64url")
    header = _read_header(header_part, foreign=foreign)
    is_untyped = foreign and "" in typ and not header.typ.endswith("+jwt")
    if header.typ not in typ and not is_untyped:
        raise _refused("typ", " or ".join(sorted(typ)), header.typ if foreign else "")
    return JwtParts(header, payload, f"{header_part}.{payload_part}".encode("ascii"), signature)


def read_claims(
    payload: bytes,
    *,
    audience: str | Collection[str],
    now: Instant,
    issuer: str | None,
    leeway: int,
    ahead: int = AHEAD,
    sparse: bool = False,
    foreign: bool = False,
) -> Claims:
    """Return the claims of a JWT whose signature was verified; refused as `verify` would.

    With `sparse`, `exp`, `iss` and `aud` may be absent; if present, they must be valid. With
    `foreign`, times may have fractions, and other claims may be of any kind.
    """
    # Only after the signature check: claims from anyone but the key's owner must not reach the
    # parser.
    claims = read_foreign_object(payload) if foreign else read_object(payload)
    if claims is None:
        raise _refused("payload", "a strict JSON object")
    if foreign or sparse:
        _round_times(claims)
    absent = {"exp", "iss", "aud"} - claims.keys() if sparse else set[str]()
    _check_times(claims, now, leeway, ahead, absent)
    audience = {audience} if isinstance(audience, str) else audience
    _check_parties(claims, issuer, audience, absent, foreign=foreign)
    return claims


def _read_header(segment: str, *, foreign: bool = False) -> Header:
    data = from_base64url(segment)
    header = None if data is None else read_foreign_object(data) if foreign else read_object(data)
    if header is None:
        raise _refused("header", "a strict JSON object in base64url")
    if foreign:
        # RFC 7515 section 4: what is not understood is ignored, and never read. crit forbids that,
        # and b64 changes what is signed.
        if "crit" in header or header.get("b64") is False:
            raise _refused("header", "neither crit nor b64")
    # crit, b64, zip, jwk, jku, x5u and x5c would change what is verified or with which key.
    elif not _HEADER.issuperset(header):
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


def _round_times(claims: Claims) -> None:
    # RFC 7519 section 2: a NumericDate may have a fraction. The parser refuses NaN and infinity.
    for name in (*_TIMES, "auth_time"):
        value = claims.get(name)
        if isinstance(value, float):
            claims[name] = floor(value)


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
    claims: Claims,
    issuer: str | None,
    audience: Collection[str],
    absent: Collection[str],
    *,
    foreign: bool,
) -> None:
    for name in ("iss", "sub") if foreign else _TEXTS:
        if name in claims and not isinstance(claims[name], str):
            raise _refused(name, "a string")
    if issuer is not None and "iss" not in absent and claims.get("iss") != issuer:
        raise _refused("iss", issuer, str(claims.get("iss", "")) if foreign else "")
    if "aud" in absent:
        return
    named = claims.get("aud")
    listed = cast("list[object]", named) if isinstance(named, list) else [named]
    texts = [text for text in listed if isinstance(text, str)]
    if not texts or len(texts) != len(listed):
        raise _refused("aud", "a string or strings")
    if not any(text in audience for text in texts):
        received = " and ".join(texts) if foreign else ""
        raise _refused("aud", " or ".join(sorted(audience)), received)


def _refusal(
    check: str, expected: str, received: str = "", description: str = "the token is not valid"
) -> Refusal:
    return Refusal(ErrorCode.INVALID_TOKEN, description, f"jwt.{check}", expected, received)


def _refused(check: str, expected: str, received: str = "") -> Refused:
    return Refused(_refusal(check, expected, received))
