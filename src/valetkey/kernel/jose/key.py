"""Keys and key sets, to and from JWK (RFC 7517, 7518, 7638, 8037)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
from valetkey.kernel.jose.jwk import (
    LONGEST,
    LONGEST_OF_ISSUER,
    MOST,
    MOST_OF_ISSUER,
    MOST_PUBLISHED,
    PRIVATE,
    SIZE,
    PrivateHalf,
    PublicHalf,
    entries,
    kid_of,
    members_of,
    private_half,
    private_members,
    public_half,
    public_members,
    refused,
    required,
    string,
    thumbprint,
)
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.strict_json import read_object

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
        found = self.named(kid)
        return found[0] if found else None

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
    known = [members_of(entry) for entry in listed]
    usable = [(jwk, key) for jwk in known if (key := _usable(jwk))]
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
