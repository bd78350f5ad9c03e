"""Keys and key sets, JWK in and out (RFC 7517, 7518, 7638, 8037)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import cast

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import from_base64url, to_base64url
from valetkey.kernel.strict_json import read_object


class Algorithm(StrEnum):
    """How a signature is made (RFC 7518 section 3.1, RFC 8037 section 3.1)."""

    ES256 = "ES256"
    RS256 = "RS256"
    PS256 = "PS256"
    EDDSA = "EdDSA"


LONGEST = 65_536
"""Bytes in a key set."""

MOST = 20
"""Keys in a key set."""

_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})
_KID = re.compile(r"[\x21-\x7e]{1,256}")
_PARTS = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}
_SIZE = 32  # bytes of a coordinate on P-256, of half a signature and of an Ed25519 key
_RSA_BITS = range(2_048, 8_193)
_RSA_EXPONENTS = range(3, 2**32)
_FRESH_RSA_BITS = 2_048

# Points of order 1, 2, 4 and 8 on Curve25519: whoever names one signs anything with no key.
_FIELD = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER = frozenset({0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8})

_HASH = SHA256()
_ECDSA = ec.ECDSA(_HASH)
_PKCS1 = padding.PKCS1v15()
_PSS = padding.PSS(padding.MGF1(_HASH), padding.PSS.DIGEST_LENGTH)

_Public = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
_Private = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """A key that verifies; `jwk` has its public members only.

    `algorithms` are those it verifies: one, unless an RSA key leaves open which of two.
    """

    kid: str
    algorithms: tuple[Algorithm, ...]
    jwk: Mapping[str, str]
    _key: _Public = field(repr=False)

    @property
    def algorithm(self) -> Algorithm:
        """Its algorithm; RS256 for an RSA key that does not say."""
        return self.algorithms[0]

    @staticmethod
    def parse(text: str) -> "PublicKey":
        """The key that a JWK in JSON says; its kid, if it has none, is its thumbprint.

        Refused with `invalid_client_metadata` for anything but P-256, Ed25519 and RSA of 2,048 to
        8,192 bits, for private members, and for keys that are meant to encrypt.
        """
        # surrogatepass: half a character must end as a refusal of the reader, not as a fault.
        jwk = read_object(text.encode("utf-8", "surrogatepass")[: LONGEST + 1])
        if jwk is None:
            raise _refused("json", "a key is a JSON object")
        return _public(jwk)

    def text(self) -> str:
        """The key as a JWK in JSON."""
        return msgspec.json.encode(self.jwk).decode()

    def verifies(self, algorithm: Algorithm, signature: bytes, message: bytes) -> bool:
        """Whether this key signed `message`; False for an algorithm that is not the key's."""
        if algorithm not in self.algorithms:
            return False
        key = self._key
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(_to_der(signature), message, _ECDSA)
            elif isinstance(key, rsa.RSAPublicKey):
                scheme = _PSS if algorithm is Algorithm.PS256 else _PKCS1
                key.verify(signature, message, scheme, _HASH)
            else:
                key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A key that signs. Its kid is the thumbprint of its public half (RFC 7638)."""

    public: PublicKey
    _key: _Private = field(repr=False)
    _headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def kid(self) -> str:
        """The kid that its signatures name."""
        return self.public.kid

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm it signs with."""
        return self.public.algorithm

    @staticmethod
    def generate(algorithm: Algorithm = Algorithm.ES256) -> "SigningKey":
        """A key that nobody has seen; RSA has 2,048 bits and takes a tenth of a second or more."""
        if algorithm is Algorithm.ES256:
            return _signing(ec.generate_private_key(ec.SECP256R1()), algorithm)
        if algorithm is Algorithm.EDDSA:
            return _signing(ed25519.Ed25519PrivateKey.generate(), algorithm)
        return _signing(rsa.generate_private_key(65_537, _FRESH_RSA_BITS), algorithm)

    @staticmethod
    def from_private_jwk(text: str) -> "SigningKey":
        """The key that `private_jwk` wrote. Raises ValueError, which does not repeat the text."""
        jwk = read_object(text.encode("utf-8", "surrogatepass"))
        if jwk is None:
            raise ValueError("a private key is a JSON object")
        try:
            algorithm = Algorithm(_string(jwk, "alg"))
            public = _public({name: jwk[name] for name in jwk if name not in _PRIVATE})
            key = _private(jwk)
        except (Refused, ValueError):
            raise ValueError("this is no private key that can be used") from None
        signing = _signing(key, algorithm)
        if signing.public.jwk != public.jwk:
            raise ValueError("the two halves of this key do not belong together")
        return signing

    def private_jwk(self) -> str:
        """The key with its private members as a JWK in JSON: to be sealed, never to be shown."""
        return msgspec.json.encode({**self.public.jwk, **_private_members(self._key)}).decode()

    def header(self, typ: str) -> str:
        """The first part of every JWT of this type that this key signs."""
        segment = self._headers.get(typ)
        if segment is None:
            header = {"alg": self.algorithm.value, "kid": self.kid}
            if typ:
                header["typ"] = typ
            segment = self._headers[typ] = to_base64url(msgspec.json.encode(header))
        return segment

    def sign(self, message: bytes) -> bytes:
        """The signature as a JWS carries it."""
        key = self._key
        if isinstance(key, ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(key.sign(message, _ECDSA))
            return ((r << (8 * _SIZE)) | s).to_bytes(2 * _SIZE, "big")
        if isinstance(key, rsa.RSAPrivateKey):
            scheme = _PSS if self.algorithm is Algorithm.PS256 else _PKCS1
            return key.sign(message, scheme, _HASH)
        return key.sign(message)


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """The public keys of one party, each with a kid of its own. Make one with `of` or `parse`."""

    _by_kid: Mapping[str, PublicKey] = field(default_factory=dict[str, PublicKey])

    @staticmethod
    def of(*keys: PublicKey) -> "KeySet":
        """The set of these keys. Raises ValueError when two share a kid."""
        by_kid = {key.kid: key for key in keys}
        if len(by_kid) != len(keys):
            raise ValueError("two keys share a kid")
        return KeySet(MappingProxyType(by_kid))

    @staticmethod
    def parse(document: bytes, *, ignore_unknown: bool = False) -> "KeySet":
        """The set that a JWKS document says (RFC 7517 section 5).

        Refused with `invalid_client_metadata` above 64 KiB or 20 keys, for any key that
        `PublicKey.parse` would refuse, and unless several keys have a kid each. With
        `ignore_unknown` a key that cannot be used is left out instead.
        """
        if len(document) > LONGEST:
            raise _refused("long", f"a key set has at most {LONGEST} bytes")
        members = read_object(document)
        entries = None if members is None else members.get("keys")
        if not isinstance(entries, list):
            raise _refused("json", 'a key set is a JSON object with an array "keys"')
        listed = cast("list[object]", entries)
        if len(listed) > MOST:
            raise _refused("many", f"a key set has at most {MOST} keys")
        keys: dict[str, PublicKey] = {}
        for entry in listed:
            try:
                jwk = _members(entry)
                if len(listed) > 1 and "kid" not in jwk and not ignore_unknown:
                    raise _refused("kid", "each of several keys needs a kid")
                key = _public(jwk)
            except Refused:
                if ignore_unknown:
                    continue
                raise
            if key.kid in keys:
                raise _refused("kid", "two keys share a kid")
            keys[key.kid] = key
        return KeySet(MappingProxyType(keys))

    def document(self) -> bytes:
        """The set as a JWKS document."""
        return msgspec.json.encode({"keys": [key.jwk for key in self]})

    def find(self, kid: str | None) -> PublicKey | None:
        """The key that a header means; without a kid, the only one there is."""
        if kid is not None:
            return self._by_kid.get(kid)
        return next(iter(self)) if len(self) == 1 else None

    def __iter__(self) -> Iterator[PublicKey]:
        """The keys in order."""
        return iter(self._by_kid.values())

    def __len__(self) -> int:
        """How many keys."""
        return len(self._by_kid)


def thumbprint(jwk: Mapping[str, str]) -> str:
    """The name that a public key gives itself: SHA-256 of its required members (RFC 7638)."""
    required = {name: jwk[name] for name in _PARTS[jwk["kty"]]}
    return to_base64url(sha256(msgspec.json.encode(required)).digest())


def _public(jwk: Mapping[str, object]) -> PublicKey:
    if not _PRIVATE.isdisjoint(jwk):
        raise _refused("private", "a secret was among the public keys: make a new one")
    _check_purpose(jwk)
    kty = _string(jwk, "kty")
    parts = _PARTS.get(kty)
    if parts is None:
        raise _refused("kty", "keys are of the kinds EC, RSA and OKP")
    members = {name: _string(jwk, name) for name in parts}
    key, possible = _load(members)
    algorithms = possible
    if "alg" in jwk:
        algorithms = tuple(a for a in possible if a == jwk["alg"])
        if not algorithms:
            raise _refused("alg", f"this key is for {' or '.join(possible)}")
        members["alg"] = algorithms[0].value
    kid = jwk.get("kid")
    if kid is None:
        kid = thumbprint(members)
    if not isinstance(kid, str) or _KID.fullmatch(kid) is None:
        raise _refused("kid", "a kid has 1 to 256 visible ASCII characters")
    members = {"kty": kty, "use": "sig", "kid": kid} | members
    return PublicKey(kid, algorithms, members, key)


def _check_purpose(jwk: Mapping[str, object]) -> None:
    if jwk.get("use", "sig") != "sig":
        raise _refused("use", 'the use of a key must be "sig"')
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise _refused("use", 'the key_ops of a key must include "verify"')


def _load(members: Mapping[str, str]) -> tuple[_Public, tuple[Algorithm, ...]]:
    if members["kty"] == "RSA":
        return _load_rsa(members), (Algorithm.RS256, Algorithm.PS256)
    if (members["kty"], members["crv"]) == ("EC", "P-256"):
        x, y = _bytes(members, "x", _SIZE), _bytes(members, "y", _SIZE)
        try:
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + x + y)
        except ValueError:
            raise _refused("point", "x and y are no point on P-256") from None
        return point, (Algorithm.ES256,)
    if (members["kty"], members["crv"]) == ("OKP", "Ed25519"):
        x = _bytes(members, "x", _SIZE)
        ordinate = int.from_bytes(x, "little") & (2**255 - 1)
        if ordinate >= _FIELD or ordinate in _SMALL_ORDER:
            raise _refused("point", "x is no usable point on Ed25519")
        return ed25519.Ed25519PublicKey.from_public_bytes(x), (Algorithm.EDDSA,)
    raise _refused("crv", "the curve is P-256 or Ed25519")


def _load_rsa(members: Mapping[str, str]) -> rsa.RSAPublicKey:
    n, e = (int.from_bytes(_bytes(members, name), "big") for name in ("n", "e"))
    if n.bit_length() not in _RSA_BITS or n % 2 == 0:
        raise _refused("rsa", f"an RSA key has {_RSA_BITS[0]} to {_RSA_BITS[-1]} bits")
    if e not in _RSA_EXPONENTS or e % 2 == 0:
        raise _refused("rsa", "the exponent of an RSA key is odd, above 1 and below 2**32")
    return rsa.RSAPublicNumbers(e, n).public_key()


def _private(jwk: Mapping[str, object]) -> _Private:
    if jwk["kty"] == "OKP":
        return ed25519.Ed25519PrivateKey.from_private_bytes(_bytes(jwk, "d", _SIZE))
    if jwk["kty"] == "EC":
        return ec.derive_private_key(int.from_bytes(_bytes(jwk, "d", _SIZE), "big"), ec.SECP256R1())
    n, e, d, p, q, dp, dq, qi = (
        int.from_bytes(_bytes(jwk, name), "big")
        for name in ("n", "e", "d", "p", "q", "dp", "dq", "qi")
    )
    return rsa.RSAPrivateNumbers(p, q, d, dp, dq, qi, rsa.RSAPublicNumbers(e, n)).private_key()


def _signing(key: _Private, algorithm: Algorithm) -> SigningKey:
    return SigningKey(_public(_public_members(key) | {"alg": algorithm.value}), key)


def _public_members(key: _Private) -> dict[str, object]:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        point = key.public_key().public_numbers()
        x, y = _spell(point.x, _SIZE), _spell(point.y, _SIZE)
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {"kty": "RSA", "n": _spell(numbers.n), "e": _spell(numbers.e)}
    x = to_base64url(key.public_key().public_bytes_raw())
    return {"kty": "OKP", "crv": "Ed25519", "x": x}


def _private_members(key: _Private) -> dict[str, str]:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return {"d": _spell(key.private_numbers().private_value, _SIZE)}
    if isinstance(key, rsa.RSAPrivateKey):
        own = key.private_numbers()
        values = {"d": own.d, "p": own.p, "q": own.q}
        values |= {"dp": own.dmp1, "dq": own.dmq1, "qi": own.iqmp}
        return {name: _spell(value) for name, value in values.items()}
    return {"d": to_base64url(key.private_bytes_raw())}


def _members(entry: object) -> Mapping[str, object]:
    if not isinstance(entry, dict):
        raise _refused("json", "a key is a JSON object")
    return cast("dict[str, object]", entry)


def _string(jwk: Mapping[str, object], name: str) -> str:
    value = jwk.get(name)
    if not isinstance(value, str):
        raise _refused("member", f"a key of this kind needs {name}, a string")
    return value


def _bytes(jwk: Mapping[str, object], name: str, size: int = 0) -> bytes:
    """The number in `name`: `size` bytes, or as few as it needs (RFC 7518 section 2)."""
    data = from_base64url(_string(jwk, name))
    if not data or (len(data) != size if size else data[0] == 0):
        raise _refused("member", f"{name} is not a number in base64url")
    return data


def _spell(number: int, size: int = 0) -> str:
    return to_base64url(number.to_bytes(size or (number.bit_length() + 7) // 8, "big"))


def _to_der(signature: bytes) -> bytes:
    if len(signature) != 2 * _SIZE:
        raise InvalidSignature
    r = int.from_bytes(signature[:_SIZE], "big")
    s = int.from_bytes(signature[_SIZE:], "big")
    return encode_dss_signature(r, s)


def _refused(check: str, description: str) -> Refused:
    return Refused(
        Refusal(
            ErrorCode.INVALID_CLIENT_METADATA,
            f"these keys cannot be used: {description}",
            f"jwks.{check}",
        )
    )
