"""Encrypt to a client's key: JWE, compact serialisation (RFC 7516, RFC 7518 sections 4, 5).

Two key management algorithms and three ciphers; RSA1_5, PBES2 and compression are not supported.
Nothing is decrypted: the server never receives encrypted content.
"""

import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import cast

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

from valetkey.kernel.jose.key import (
    MOST_PUBLISHED,
    entries,
    kid_of,
    members_of,
    public_half,
    public_members,
    refused,
    required,
)
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import to_base64url

RSA_OAEP_256 = "RSA-OAEP-256"
"""A fresh key, encrypted with the client's RSA key (RFC 7518 section 4.3)."""

ECDH_ES = "ECDH-ES"
"""A key agreed with the client's key on P-256, used directly (RFC 7518 section 4.6)."""

ALGORITHMS = (RSA_OAEP_256, ECDH_ES)
"""The key management algorithms: the values of `alg`."""

A128CBC_HS256 = "A128CBC-HS256"
"""AES in CBC mode, authenticated with HMAC (RFC 7518 section 5.2.3)."""

ENCRYPTIONS: Mapping[str, int] = MappingProxyType({A128CBC_HS256: 32, "A128GCM": 16, "A256GCM": 32})
"""The content encryption algorithms: the values of `enc`, with key sizes in bytes (section 5)."""

_ALGORITHM_OF = {"RSA": RSA_OAEP_256, "EC": ECDH_ES}
_TO_USE = {RSA_OAEP_256: ("encrypt", "wrapKey"), ECDH_ES: ("deriveKey", "deriveBits")}
_NONCE = 12
_BLOCK = 16
_OAEP = padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)


@dataclass(frozen=True, slots=True, eq=False)
class EncryptionKey:
    """A public key to encrypt to; `kid` is "" if the client gave it none."""

    kid: str
    alg: str
    jwk: Mapping[str, str]
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey = field(repr=False)


class EncryptionKeys(Struct, frozen=True):
    """The keys of one party that others may encrypt to, in the party's order."""

    keys: tuple[EncryptionKey, ...] = ()

    @staticmethod
    def parse(document: bytes) -> "EncryptionKeys":
        """Return the encryption keys of a JWKS document: RSA from 2,048 bits, or P-256.

        A key is for encryption if its `use`, `key_ops` or a supported `alg` says so. A key with
        none of these counts too, sorted behind those that have one. All other keys are ignored.
        Refused with `invalid_client_metadata` if this is no JWKS document, or above 64 KiB or 100
        keys.
        """
        keys: list[EncryptionKey] = []
        silent: list[EncryptionKey] = []
        for entry in entries(document, MOST_PUBLISHED):
            try:
                jwk = members_of(entry)
                key = _parse(jwk)
            except Refused:
                continue
            (keys if {"use", "key_ops", "alg"} & jwk.keys() else silent).append(key)
        return EncryptionKeys((*keys, *silent))

    def document(self) -> bytes:
        """Return the keys as a JWKS document that `parse` can read."""
        return msgspec.json.encode({"keys": [key.jwk for key in self.keys]})

    def find(self, alg: str) -> EncryptionKey | None:
        """Return the first key for this `alg`."""
        return next((key for key in self.keys if key.alg == alg), None)

    def __iter__(self) -> Iterator[EncryptionKey]:
        """Iterate over the keys in order."""
        return iter(self.keys)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.keys)


def encrypt(
    payload: bytes,
    key: EncryptionKey,
    *,
    alg: str,
    enc: str,
    cty: str,
    random: Callable[[int], bytes],
) -> str:
    """Encrypt `payload` for the owner of `key`, in compact serialisation.

    `cty` is "JWT" around a signed token, "" for none. Raises ValueError for an `alg` that does not
    fit the key and for an unknown `enc`.
    """
    size = ENCRYPTIONS.get(enc)
    if alg != key.alg or size is None:
        raise ValueError("this key, algorithm and encryption do not go together")
    header: dict[str, object] = {"alg": alg, "enc": enc}
    if key.kid:
        header["kid"] = key.kid
    if cty:
        header["cty"] = cty
    if isinstance(key.key, rsa.RSAPublicKey):
        content_key = random(size)
        encrypted_key = key.key.encrypt(content_key, _OAEP)
    else:
        ephemeral = ec.generate_private_key(ec.SECP256R1())
        header["epk"] = public_members(ephemeral.public_key())
        content_key = derive(ephemeral.exchange(ec.ECDH(), key.key), enc, size)
        encrypted_key = b""
    protected = to_base64url(msgspec.json.encode(header))
    cbc = enc == A128CBC_HS256
    return seal_content(
        payload,
        protected,
        content_key,
        encrypted_key=encrypted_key,
        nonce=random(_BLOCK if cbc else _NONCE),
        cbc=cbc,
    )


def seal_content(
    payload: bytes,
    protected: str,
    content_key: bytes,
    *,
    encrypted_key: bytes,
    nonce: bytes,
    cbc: bool = False,
) -> str:
    """Encrypt the content and return the five parts (RFC 7516 section 5.1, steps 14 to 19)."""
    if cbc:
        ciphertext, tag = _seal_cbc(payload, protected, content_key, nonce)
    else:
        sealed = AESGCM(content_key).encrypt(nonce, payload, protected.encode("ascii"))
        ciphertext, tag = sealed[:-16], sealed[-16:]
    rest = (encrypted_key, nonce, ciphertext, tag)
    return ".".join((protected, *map(to_base64url, rest)))


def _seal_cbc(payload: bytes, protected: str, key: bytes, iv: bytes) -> tuple[bytes, bytes]:
    """Encrypt with the second half of the key, authenticate with the first (section 5.2.2.1)."""
    mac_key, cipher_key = key[:_BLOCK], key[_BLOCK:]
    missing = _BLOCK - len(payload) % _BLOCK
    encryptor = Cipher(AES(cipher_key), CBC(iv)).encryptor()
    ciphertext = encryptor.update(payload + bytes([missing]) * missing) + encryptor.finalize()
    data = protected.encode("ascii")
    length = (8 * len(data)).to_bytes(8, "big")
    return ciphertext, hmac.digest(mac_key, data + iv + ciphertext + length, "sha256")[:_BLOCK]


def derive(agreed: bytes, enc: str, size: int, *, apu: bytes = b"", apv: bytes = b"") -> bytes:
    """Derive a key of `size` bytes, at most 32, from an agreed secret.

    Concat KDF with SHA-256 in one round (RFC 7518 section 4.6.2), `enc` being the AlgorithmID.
    """
    parts = (enc.encode("ascii"), apu, apv)
    info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    length = (8 * size).to_bytes(4, "big")
    return sha256((1).to_bytes(4, "big") + agreed + info + length).digest()[:size]


def _parse(jwk: Mapping[str, object]) -> EncryptionKey:
    members = required(jwk)
    alg = _ALGORITHM_OF.get(members["kty"])
    key = public_half(members)
    if alg is None or not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise refused("kty", "a key to encrypt to must have the type EC or RSA")
    if jwk.get("use", "enc") != "enc" or jwk.get("alg", alg) != alg:
        raise refused("use", "this key is for something else")
    operations = jwk.get("key_ops", list(_TO_USE[alg]))
    if not isinstance(operations, list):
        raise refused("use", "key_ops is an array")
    if not any(operation in _TO_USE[alg] for operation in cast("list[object]", operations)):
        raise refused("use", "this key is for something else")
    kid = kid_of(jwk, "")
    named = {"kid": kid} if kid else {}
    spelt = {"kty": members["kty"], "use": "enc", "alg": alg} | named | members
    return EncryptionKey(kid, alg, spelt, key)
