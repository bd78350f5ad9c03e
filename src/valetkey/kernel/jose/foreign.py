"""Verify the JWTs of other issuers: strict about what proves, lenient about the rest.

Algorithm, key, issuer, audience and times decide. Unknown header parameters are ignored, as RFC
7515 section 4 demands, except `crit`; a key is never taken from a header. `jwt.py` is for our own
tokens, whose every byte is known.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from msgspec import Struct

from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.key import (
    LONGEST_OF_ISSUER,
    MOST_PUBLISHED,
    RSA_BITS,
    RSA_EXPONENTS,
    entries,
    members_of,
    public_half,
    string,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Secret, from_base64url

LONGEST = 131_072
"""Maximum number of characters in a token: some directories name every group of a user."""

WORTH_NEW_KEYS = frozenset({jwt.UNKNOWN_KEY, "jwt.signature"})
"""The checks of refusals that newer keys might resolve: a key may change under its `kid`."""

_MOST_TRIED = 20
"""Maximum number of keys that are tried for a token that does not name one."""

_ForeignKey = (
    rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey
)
_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: Mapping[str, ec.EllipticCurve] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
_CURVE_OF = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
_EDWARDS: Mapping[str, tuple[type, ...]] = {
    "EdDSA": (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey),
    "Ed25519": (ed25519.Ed25519PublicKey,),
    "Ed448": (ed448.Ed448PublicKey,),
}
ALGORITHMS = (
    *(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in _HASHES),
    *_EDWARDS,
)
"""The accepted algorithms: the signatures of JWA (RFC 7518 section 3.1, RFC 8037, RFC 9864)."""


class Verified(Struct, frozen=True):
    """A verified token: its header and its claims, whose times are whole seconds."""

    header: jwt.Header
    claims: jwt.Claims


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    kid: str | None
    alg: str
    key: _ForeignKey = field(repr=False)

    def fits(self, alg: str) -> bool:
        if self.alg and self.alg != alg and not {self.alg, alg} <= _EDWARDS.keys():
            return False
        if isinstance(self.key, rsa.RSAPublicKey):
            return alg[:2] in {"RS", "PS"}
        if isinstance(self.key, ec.EllipticCurvePublicKey):
            return _CURVE_OF.get(alg) == self.key.curve.name
        return isinstance(self.key, _EDWARDS.get(alg, ()))

    def verifies(self, alg: str, signature: bytes, message: bytes) -> bool:
        key = self.key
        try:
            if isinstance(key, rsa.RSAPublicKey):
                hash_ = _HASHES[alg[2:]]
                pss = padding.PSS(padding.MGF1(hash_), padding.PSS.DIGEST_LENGTH)
                key.verify(signature, message, pss if alg[0] == "P" else padding.PKCS1v15(), hash_)
            elif isinstance(key, ec.EllipticCurvePublicKey):
                size = (key.key_size + 7) // 8
                if len(signature) != 2 * size:
                    return False
                r, s = (int.from_bytes(half) for half in (signature[:size], signature[size:]))
                key.verify(encode_dss_signature(r, s), message, ec.ECDSA(_HASHES[alg[2:]]))
            else:
                key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ForeignKeys:
    """The usable signature keys that an issuer publishes. Create it with `parse`."""

    _keys: tuple[_Key, ...] = ()

    @staticmethod
    def parse(document: bytes) -> "ForeignKeys":
        """Read a JWKS document; a key that cannot be used is left out (RFC 7517 section 5).

        Keys may share a kid or have none. Refused if it is no key set.
        """
        listed = entries(document, MOST_PUBLISHED, LONGEST_OF_ISSUER)
        keys = (_read_key(entry) for entry in listed)
        return ForeignKeys(tuple(key for key in keys if key is not None))

    def for_token(self, header: jwt.Header) -> tuple[_Key, ...]:
        """Return the keys that may have signed a token with this header.

        Those with its kid; without one, and for keys without one, those of its algorithm (OpenID
        Connect Core section 10.1).
        """
        named = [key for key in self._keys if header.kid is None or key.kid == header.kid]
        possible = named or [key for key in self._keys if key.kid is None]
        return tuple(key for key in possible if key.fits(header.alg))[:_MOST_TRIED]

    def verifies_any(self, algorithm: str) -> bool:
        """Return whether one of the keys is for this algorithm."""
        return any(key.fits(algorithm) for key in self._keys)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)


def verify(
    token: str,
    keys: ForeignKeys,
    *,
    typ: Collection[str],
    audience: str,
    issuer: str,
    now: Instant,
    leeway: int,
    algorithm: str = "",
    secret: Secret | None = None,
    sparse: bool = False,
) -> Verified:
    """Return the header and claims of a live JWT of `issuer` for `audience`.

    `typ` holds the accepted types; "" in it also accepts an unknown one, but not that of another
    kind of token (RFC 8725 section 3.11). With `algorithm` only that one is accepted; HS256 needs
    `secret`. With `sparse`, `exp`, `iss` and `aud` may be absent. Refused as `jwt.verify` would.
    """
    parts = jwt.parse(token, typ, foreign=True, longest=LONGEST)
    header = parts.header
    accepted = (algorithm,) if algorithm else ALGORITHMS
    if header.alg not in accepted:
        raise _refused("alg", " or ".join(accepted), header.alg)
    if header.alg == mac.ALGORITHM:
        mac.check_shared_signature(parts, () if secret is None else (secret,))
    elif header.alg in ALGORITHMS:
        possible = keys.for_token(header)
        if not possible:
            received = f"{header.alg}, {'no kid' if header.kid is None else f'kid {header.kid}'}"
            raise _refused("key", "the kid of a published key for this algorithm", received)
        if not any(key.verifies(header.alg, parts.signature, parts.signed) for key in possible):
            raise _refused("signature", "a signature by a published key of the issuer")
    else:
        raise _refused("alg", " or ".join(ALGORITHMS), header.alg)
    claims = jwt.read_claims(
        parts.payload,
        issuer=issuer,
        audience=audience,
        now=now,
        leeway=leeway,
        sparse=sparse,
        foreign=True,
    )
    return Verified(header, claims)


def _read_key(entry: object) -> _Key | None:
    try:
        jwk = members_of(entry)
        operations = jwk.get("key_ops")
        if jwk.get("use", "sig") != "sig" or (
            isinstance(operations, list) and "verify" not in cast("list[object]", operations)
        ):
            return None
        read = _READERS.get(string(jwk, "kty"))
        key = None if read is None else read(jwk)
    except (Refused, ValueError, UnsupportedAlgorithm):
        return None
    kid, alg = jwk.get("kid"), jwk.get("alg", "")
    if key is None or not isinstance(alg, str):
        return None
    return _Key(kid if isinstance(kid, str) else None, alg, key)


def _rsa(jwk: Mapping[str, object]) -> _ForeignKey | None:
    n, e = _number(jwk, "n"), _number(jwk, "e")
    usable = n.bit_length() in RSA_BITS and e in RSA_EXPONENTS and n % 2 and e % 2
    return rsa.RSAPublicNumbers(e, n).public_key() if usable else None


def _ec(jwk: Mapping[str, object]) -> _ForeignKey | None:
    curve = _CURVES.get(string(jwk, "crv"))
    if curve is None:
        return None
    numbers = ec.EllipticCurvePublicNumbers(_number(jwk, "x"), _number(jwk, "y"), curve)
    return numbers.public_key()


def _okp(jwk: Mapping[str, object]) -> _ForeignKey | None:
    members = {name: string(jwk, name) for name in ("kty", "crv", "x")}
    if members["crv"] == "Ed448":
        return ed448.Ed448PublicKey.from_public_bytes(from_base64url(members["x"]) or b"")
    return cast("ed25519.Ed25519PublicKey", public_half(members))


_READERS: Mapping[str, Callable[[Mapping[str, object]], _ForeignKey | None]] = {
    "RSA": _rsa,
    "EC": _ec,
    "OKP": _okp,
}


def _number(jwk: Mapping[str, object], name: str) -> int:
    # Some issuers pad, or write the zero byte of a sign before the number.
    value = from_base64url(string(jwk, name).rstrip("="))
    return 0 if value is None else int.from_bytes(value)


def _refused(check: str, expected: str, received: str = "") -> Refused:
    return Refused.because(
        ErrorCode.INVALID_TOKEN, "the token is not valid", f"jwt.{check}", expected, received
    )
