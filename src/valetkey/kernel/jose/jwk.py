"""Convert between JWK members and keys (RFC 7517, 7518 section 6, 7638, 8037)."""

import re
from collections.abc import Mapping
from hashlib import sha256
from math import lcm
from typing import cast

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import from_base64url, to_base64url
from valetkey.kernel.strict_json import read_object

LONGEST = 65_536
"""Maximum number of bytes in a key set."""

MOST = 20
"""Maximum number of keys in a submitted key set."""

MOST_PUBLISHED = 100
"""Maximum number of keys in a published set: several for each algorithm, some retiring."""

MOST_OF_ISSUER = 1_000
"""Maximum number of keys in the set of the issuer that an API trusts: keys stay for two days."""

LONGEST_OF_ISSUER = 524_288
"""Maximum number of bytes in that set."""

SIZE = 32
"""Bytes of a P-256 coordinate, of half a signature and of an Ed25519 key."""

PARTS = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}
"""The members that every public key of a kind has, in the order of RFC 7638."""

PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})
"""Members that only a key's owner may know."""

PublicHalf = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
PrivateHalf = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

_KID = re.compile(r"[\x21-\x7e]{1,256}")
RSA_BITS = range(2_048, 8_193)
RSA_EXPONENTS = range(3, 2**32)

# Points of order 1, 2, 4 and 8 on Curve25519: a signature that verifies with one of them needs no
# private key.
_FIELD = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER = frozenset({0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8})


def entries(document: bytes, most: int = MOST, longest: int = LONGEST) -> list[object]:
    """Return the entries of a JWKS document (RFC 7517 section 5), not yet validated.

    Refused with `invalid_client_metadata` above `longest` bytes or `most` keys, or without an
    array.
    """
    if len(document) > longest:
        raise refused("long", f"a key set has at most {longest} bytes")
    members = read_object(document)
    listed = None if members is None else members.get("keys")
    if not isinstance(listed, list):
        raise refused("json", 'a key set is a JSON object with an array "keys"')
    keys = cast("list[object]", listed)
    if len(keys) > most:
        raise refused("many", f"a key set has at most {most} keys")
    return keys


def members_of(entry: object) -> Mapping[str, object]:
    """Return the members of a key; refused if it is not a key or contains private members."""
    if not isinstance(entry, dict):
        raise refused("json", "a key is a JSON object")
    jwk = cast("dict[str, object]", entry)
    if not PRIVATE.isdisjoint(jwk):
        raise refused("private", "a secret was among the public keys: make a new one")
    return jwk


def required(jwk: Mapping[str, object]) -> dict[str, str]:
    """Return the required members of a public key of this kind; refused for an unknown kind."""
    parts = PARTS.get(string(jwk, "kty"))
    if parts is None:
        raise refused("kty", "a key must have the type EC, RSA or OKP")
    return {name: string(jwk, name) for name in parts}


def kid_of(jwk: Mapping[str, object], otherwise: str) -> str:
    """Return the kid of a key, or `otherwise` if it has none."""
    kid = jwk.get("kid")
    if kid is None:
        return otherwise
    if not isinstance(kid, str) or _KID.fullmatch(kid) is None:
        raise refused("kid", "a kid has 1 to 256 visible ASCII characters")
    return kid


def thumbprint(jwk: Mapping[str, str]) -> str:
    """Return the JWK thumbprint: SHA-256 of the key's required members (RFC 7638)."""
    members = {name: jwk[name] for name in PARTS[jwk["kty"]]}
    return to_base64url(sha256(msgspec.json.encode(members)).digest())


def public_half(members: Mapping[str, str]) -> PublicHalf:
    """Return the public key of these members: P-256, Ed25519, or RSA of 2,048 to 8,192 bits."""
    if members["kty"] == "RSA":
        return _rsa(members)
    if (members["kty"], members["crv"]) == ("EC", "P-256"):
        x, y = data(members, "x", SIZE), data(members, "y", SIZE)
        try:
            return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + x + y)
        except ValueError:
            raise refused("point", "x and y are no point on P-256") from None
    if (members["kty"], members["crv"]) == ("OKP", "Ed25519"):
        x = data(members, "x", SIZE)
        ordinate = int.from_bytes(x, "little") & (2**255 - 1)
        if ordinate >= _FIELD or ordinate in _SMALL_ORDER:
            raise refused("point", "x is not a usable point on Ed25519")
        return ed25519.Ed25519PublicKey.from_public_bytes(x)
    raise refused("crv", "the curve is P-256 or Ed25519")


def private_half(jwk: Mapping[str, object]) -> PrivateHalf:
    """Return the private key of these members. Raises Refused or ValueError for anything else."""
    if jwk["kty"] == "OKP":
        return ed25519.Ed25519PrivateKey.from_private_bytes(data(jwk, "d", SIZE))
    if jwk["kty"] == "EC":
        return ec.derive_private_key(int.from_bytes(data(jwk, "d", SIZE), "big"), ec.SECP256R1())
    n, e, d, p, q, dp, dq, qi = (
        int.from_bytes(data(jwk, name), "big")
        for name in ("n", "e", "d", "p", "q", "dp", "dq", "qi")
    )
    fits = p * q == n and e * d % lcm(p - 1, q - 1) == 1 and q * qi % p == 1
    if not fits or (dp, dq) != (d % (p - 1), d % (q - 1)):
        raise ValueError("the numbers of this key do not belong together")
    numbers = rsa.RSAPrivateNumbers(p, q, d, dp, dq, qi, rsa.RSAPublicNumbers(e, n))
    # Testing p and q for primality takes a hundred times as long, and the generator of the key has
    # done it.
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def public_members(key: PublicHalf) -> dict[str, str]:
    """Return the JWK members of a public key."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        point = key.public_numbers()
        x, y = base64url_uint(point.x, SIZE), base64url_uint(point.y, SIZE)
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {"kty": "RSA", "n": base64url_uint(numbers.n), "e": base64url_uint(numbers.e)}
    return {"kty": "OKP", "crv": "Ed25519", "x": to_base64url(key.public_bytes_raw())}


def private_members(key: PrivateHalf) -> dict[str, str]:
    """Return the private JWK members of a private key."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return {"d": base64url_uint(key.private_numbers().private_value, SIZE)}
    if isinstance(key, rsa.RSAPrivateKey):
        own = key.private_numbers()
        values = {"d": own.d, "p": own.p, "q": own.q}
        values |= {"dp": own.dmp1, "dq": own.dmq1, "qi": own.iqmp}
        return {name: base64url_uint(value) for name, value in values.items()}
    return {"d": to_base64url(key.private_bytes_raw())}


def string(jwk: Mapping[str, object], name: str) -> str:
    """Return the member `name`; refused unless it is a string."""
    value = jwk.get(name)
    if not isinstance(value, str):
        raise refused("member", f"a key of this kind needs {name}, a string")
    return value


def data(jwk: Mapping[str, object], name: str, size: int = 0) -> bytes:
    """Return the number in `name`: `size` bytes, or as few as it needs (RFC 7518 section 2)."""
    value = from_base64url(string(jwk, name))
    if not value or (len(value) != size if size else value[0] == 0):
        raise refused("member", f"{name} is not a number in base64url")
    return value


def base64url_uint(number: int, size: int = 0) -> str:
    """Encode a number as Base64urlUInt (RFC 7518 section 2), in at least `size` bytes."""
    return to_base64url(number.to_bytes(size or (number.bit_length() + 7) // 8, "big"))


def refused(check: str, description: str) -> Refused:
    """Return a refusal of a key or of a key set."""
    return Refused.because(
        ErrorCode.INVALID_CLIENT_METADATA,
        f"these keys cannot be used: {description}",
        f"jwks.{check}",
    )


def _rsa(members: Mapping[str, str]) -> rsa.RSAPublicKey:
    n, e = (int.from_bytes(data(members, name), "big") for name in ("n", "e"))
    if n.bit_length() not in RSA_BITS or n % 2 == 0:
        raise refused("rsa", f"an RSA key has {RSA_BITS[0]} to {RSA_BITS[-1]} bits")
    if e not in RSA_EXPONENTS or e % 2 == 0:
        raise refused("rsa", "the exponent of an RSA key is odd, above 1 and below 2**32")
    return rsa.RSAPublicNumbers(e, n).public_key()
