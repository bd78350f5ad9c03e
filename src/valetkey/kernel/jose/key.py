"""Keys and key sets, to and from JWK (RFC 7517, 7518 section 6, 7638, 8037)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from math import lcm
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

from valetkey.kernel.jose.algorithm import Algorithm
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


_FRESH_RSA_BITS = 2_048
_MOST_OF_KID = 3
"""Maximum number of published keys with the same kid."""

_TO_ENCRYPT = ("encrypt", "wrapKey", "deriveKey", "deriveBits")
_ENCRYPTING = ("RSA-OAEP", "RSA1_5", "ECDH-ES")
_HASH = SHA256()
_ECDSA = ec.ECDSA(_HASH)
_PKCS1 = padding.PKCS1v15()
_PSS = padding.PSS(padding.MGF1(_HASH), padding.PSS.DIGEST_LENGTH)


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """A public key for verifying; `jwk` has its public members only.

    `algorithms` are those it verifies: one, or two for an RSA key that does not name its algorithm.
    """

    kid: str
    algorithms: tuple[Algorithm, ...]
    jwk: Mapping[str, str]
    _key: PublicHalf = field(repr=False)

    @property
    def algorithm(self) -> Algorithm:
        """Return its algorithm; RS256 for an RSA key that does not name one."""
        return self.algorithms[0]

    @staticmethod
    def parse(text: str) -> "PublicKey":
        """Parse a JWK in JSON; a key without a kid gets its thumbprint.

        Refused with `invalid_client_metadata` for anything but P-256, Ed25519 and RSA of 2,048 to
        8,192 bits, for private members, and for encryption keys.
        """
        # surrogatepass: a lone surrogate must become the parser's refusal, not an exception.
        jwk = read_object(text.encode("utf-8", "surrogatepass")[: LONGEST + 1])
        if jwk is None:
            raise refused("json", "a key is a JSON object")
        return _public(jwk)

    def text(self) -> str:
        """Return the key as a JWK in JSON."""
        return msgspec.json.encode(self.jwk).decode()

    def verifies(self, algorithm: Algorithm, signature: bytes, message: bytes) -> bool:
        """Return whether this key signed `message`; False for an algorithm of another key type."""
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
    """A signing key. Its kid is the thumbprint of its public half (RFC 7638)."""

    public: PublicKey
    _key: PrivateHalf = field(repr=False)
    _headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def kid(self) -> str:
        """Return the kid that its signatures name."""
        return self.public.kid

    @property
    def algorithm(self) -> Algorithm:
        """Return the algorithm it signs with."""
        return self.public.algorithm

    @staticmethod
    def generate(algorithm: Algorithm = Algorithm.ES256) -> "SigningKey":
        """Generate a new key; RSA has 2,048 bits and takes a tenth of a second or more."""
        if algorithm is Algorithm.ES256:
            return _signing(ec.generate_private_key(ec.SECP256R1()), algorithm)
        if algorithm is Algorithm.EDDSA:
            return _signing(ed25519.Ed25519PrivateKey.generate(), algorithm)
        return _signing(rsa.generate_private_key(65_537, _FRESH_RSA_BITS), algorithm)

    @staticmethod
    def from_private_jwk(text: str) -> "SigningKey":
        """Parse the output of `private_jwk`. Raises ValueError, which does not repeat the text."""
        jwk = read_object(text.encode("utf-8", "surrogatepass"))
        if jwk is None:
            raise ValueError("a private key is a JSON object")
        try:
            algorithm = Algorithm(string(jwk, "alg"))
            public = _public({name: jwk[name] for name in jwk if name not in PRIVATE})
            key = private_half(jwk)
        except (Refused, ValueError):
            raise ValueError("this is not a usable private key") from None
        signing = _signing(key, algorithm)
        if signing.public.jwk != public.jwk:
            raise ValueError("the two halves of this key do not belong together")
        return signing

    def private_jwk(self) -> str:
        """Return the private key as a JWK in JSON: to be encrypted at rest, never to be shown."""
        return msgspec.json.encode({**self.public.jwk, **private_members(self._key)}).decode()

    def header(self, typ: str) -> str:
        """Return the header segment of a JWT of this type signed by this key."""
        segment = self._headers.get(typ)
        if segment is None:
            header = {"alg": self.algorithm.value, "kid": self.kid}
            if typ:
                header["typ"] = typ
            segment = self._headers[typ] = to_base64url(msgspec.json.encode(header))
        return segment

    def sign(self, message: bytes) -> bytes:
        """Return the signature as a JWS carries it."""
        key = self._key
        if isinstance(key, ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(key.sign(message, _ECDSA))
            return ((r << (8 * SIZE)) | s).to_bytes(2 * SIZE, "big")
        if isinstance(key, rsa.RSAPrivateKey):
            scheme = _PSS if self.algorithm is Algorithm.PS256 else _PKCS1
            return key.sign(message, scheme, _HASH)
        return key.sign(message)


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """The public keys of one party, by kid. Create it with `of` or `parse`."""

    _by_kid: Mapping[str, tuple[PublicKey, ...]] = field(
        default_factory=dict[str, tuple[PublicKey, ...]]
    )

    @staticmethod
    def of(*keys: PublicKey) -> "KeySet":
        """Return the set of these keys. Raises ValueError when two share a kid."""
        by_kid = {key.kid: (key,) for key in keys}
        if len(by_kid) != len(keys):
            raise ValueError("two keys share a kid")
        return KeySet(MappingProxyType(by_kid))

    @staticmethod
    def parse(
        document: bytes, *, ignore_unknown: bool = False, of_issuer: bool = False
    ) -> "KeySet":
        """Parse a JWKS document (RFC 7517 section 5).

        Keys that `PublicKey.parse` would refuse are left out, unless none is left, and so are
        encryption keys. Refused with `invalid_client_metadata` above 64 KiB or 20 keys, for private
        members, and for several keys unless each has a kid of its own. With `ignore_unknown`, for
        sets that a server publishes, there may be 100, each of these is left out as well, and up to
        three may share a kid; `of_issuer` allows 512 KiB and 1,000 keys, because the issuer is
        trusted and publishes each key for two days after its last signature.
        """
        if of_issuer:
            listed = entries(document, MOST_OF_ISSUER, LONGEST_OF_ISSUER)
        else:
            listed = entries(document, MOST_PUBLISHED if ignore_unknown else MOST)
        signing = [entry for entry in listed if not _is_to_encrypt(entry)]
        keys = _published(signing) if ignore_unknown else _registered(signing)
        if not keys and not ignore_unknown and signing and len(signing) == len(listed):
            # Refused with the reason.
            _public(members_of(signing[0]))
        return KeySet(MappingProxyType(keys))

    def document(self) -> bytes:
        """Return the set as a JWKS document."""
        return msgspec.json.encode({"keys": [key.jwk for key in self]})

    def find(self, kid: str | None) -> PublicKey | None:
        """Return the key that a header names; without a kid, the only key of the set."""
        keys = self.named(kid)
        return keys[0] if keys else None

    def named(self, kid: str | None) -> tuple[PublicKey, ...]:
        """Return the keys that a header names, usually one; without a kid, the only one."""
        if kid is not None:
            return self._by_kid.get(kid, ())
        return tuple(self) if len(self) == 1 else ()

    def __iter__(self) -> Iterator[PublicKey]:
        """Iterate over the keys in order."""
        return chain.from_iterable(self._by_kid.values())

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(map(len, self._by_kid.values()))


def _registered(listed: Sequence[object]) -> Mapping[str, tuple[PublicKey, ...]]:
    """Return the usable keys of a set that a party sends; refused if it is unsafe or ambiguous."""
    jwks = [members_of(entry) for entry in listed]
    usable = [(jwk, key) for jwk in jwks if (key := _usable(jwk))]
    if len(usable) > 1 and not all("kid" in jwk for jwk, _ in usable):
        raise refused("kid", "each of several keys needs a kid")
    keys = {key.kid: (key,) for _, key in usable}
    if len(keys) != len(usable):
        raise refused("kid", "two keys share a kid")
    return keys


def _published(listed: Sequence[object]) -> Mapping[str, tuple[PublicKey, ...]]:
    """Return the usable keys of a published set, of which nothing else is refused."""
    keys: dict[str, tuple[PublicKey, ...]] = {}
    for entry in listed:
        try:
            key = _public(members_of(entry))
        except Refused:
            continue
        others = keys.get(key.kid, ())
        # A repeated key adds nothing, and each more is one more signature to try.
        if len(others) < _MOST_OF_KID and key.jwk not in [other.jwk for other in others]:
            keys[key.kid] = (*others, key)
    return keys


def _usable(jwk: Mapping[str, object]) -> PublicKey | None:
    try:
        return _public(jwk)
    except Refused:
        return None


def _public(jwk: Mapping[str, object]) -> PublicKey:
    _check_purpose(members_of(jwk))
    members = required(jwk)
    key = public_half(members)
    algorithms = possible = _possible(key)
    if "alg" in jwk:
        algorithms = tuple(a for a in possible if a == jwk["alg"])
        if not algorithms:
            raise refused("alg", f"this key is for {' or '.join(possible)}")
        members["alg"] = algorithms[0].value
    kid = kid_of(jwk, thumbprint(members))
    return PublicKey(
        kid, algorithms, {"kty": members["kty"], "use": "sig", "kid": kid} | members, key
    )


def _possible(key: PublicHalf) -> tuple[Algorithm, ...]:
    if isinstance(key, rsa.RSAPublicKey):
        return (Algorithm.RS256, Algorithm.PS256)
    return (Algorithm.ES256 if isinstance(key, ec.EllipticCurvePublicKey) else Algorithm.EDDSA,)


def _is_to_encrypt(entry: object) -> bool:
    """Return whether a public key is declared for encryption and so cannot verify signatures."""
    if not isinstance(entry, dict) or not PRIVATE.isdisjoint(cast("dict[str, object]", entry)):
        return False
    jwk = cast("dict[str, object]", entry)
    if "use" in jwk:
        return jwk["use"] == "enc"
    operations, alg = jwk.get("key_ops"), jwk.get("alg")
    if isinstance(operations, list) and operations:
        return all(operation in _TO_ENCRYPT for operation in cast("list[object]", operations))
    return isinstance(alg, str) and alg.startswith(_ENCRYPTING)


def _check_purpose(jwk: Mapping[str, object]) -> None:
    if jwk.get("use", "sig") != "sig":
        raise refused("use", 'the use of a key must be "sig"')
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise refused("use", 'the key_ops of a key must include "verify"')


def _signing(key: PrivateHalf, algorithm: Algorithm) -> SigningKey:
    return SigningKey(_public({**public_members(key.public_key()), "alg": algorithm.value}), key)


def _to_der(signature: bytes) -> bytes:
    if len(signature) != 2 * SIZE:
        raise InvalidSignature
    r = int.from_bytes(signature[:SIZE], "big")
    s = int.from_bytes(signature[SIZE:], "big")
    return encode_dss_signature(r, s)
