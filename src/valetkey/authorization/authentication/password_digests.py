"""Digests of passwords that need a loop of our own or crypt(3): phpass, apr1, bcrypt, SHA-crypt."""

import ctypes
import hashlib
import hmac
from functools import cache

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", "libc.so")
_STATE = 256 * 1024
"""Bytes for the state of one call: libxcrypt takes 32 KiB, others half as much as this."""

_KNOWN = b"$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"
_KNOWN_PASSWORD = b"abc"
_CRYPT_64 = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_APR1_ROUNDS = 1_000
_APR1_ORDER = (12, 6, 0, 13, 7, 1, 14, 8, 2, 15, 9, 3, 5, 10, 4, 11)
"""Places of the MD5 digest in the order in which crypt's MD5 writes them."""


def has_crypt() -> bool:
    """Return whether this system has a crypt(3) with bcrypt and SHA-crypt."""
    return _library() is not None


def crypt(prepared: bytes, stored: str) -> bool:
    """Return whether the system makes `stored` of the password; bcrypt reads 72 bytes of it."""
    library = _library()
    return library is not None and _same(library, prepared, stored.encode("ascii"))


@cache
def _library() -> ctypes.CDLL | None:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            library.crypt_r.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
            library.crypt_r.restype = ctypes.c_char_p
        except (OSError, AttributeError):
            continue
        # An older glibc has crypt_r without bcrypt.
        if _same(library, _KNOWN_PASSWORD, _KNOWN):
            return library
    return None


def _same(library: ctypes.CDLL, password: bytes, stored: bytes) -> bool:
    # ctypes releases the GIL during the call; the state is not shared.
    made: bytes | None = library.crypt_r(password, stored, ctypes.create_string_buffer(_STATE))
    return made is not None and hmac.compare_digest(made, stored)


def canonical_bcrypt(stored: str) -> str:
    """Return the hash with the unused bits of its salt and its digest cleared.

    Some libraries write them at random, and crypt(3) never makes such a hash.
    """
    salt, digest = stored[:29], stored[29:]
    return f"{salt[:-1]}{_bcrypt_64(salt[-1], 0x30)}{digest[:-1]}{_bcrypt_64(digest[-1], 0x3C)}"


def _bcrypt_64(character: str, used: int) -> str:
    alphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    return alphabet[alphabet.index(character) & used]


def phpass_rounds(character: str) -> int:
    """Return how many rounds the character behind the identifier of phpass stands for."""
    return 1 << _CRYPT_64.index(character)


def phpass(prepared: bytes, name: str, salt: bytes, rounds: int) -> str:
    """Return the digest of phpass, as text: iterated MD5 (WordPress, phpBB) or SHA-512 (Drupal)."""
    digest = hashlib.new(name, salt + prepared, usedforsecurity=False).digest()
    for _ in range(rounds):
        digest = hashlib.new(name, digest + prepared, usedforsecurity=False).digest()
    return _little_endian_64(digest)


def apr1(prepared: bytes, salt: bytes) -> str:
    """Return the digest of Apache's variant of crypt's MD5, as text."""
    digest = _md5(prepared + salt + prepared)
    first = prepared + b"$apr1$" + salt
    first += (digest * (len(prepared) // 16 + 1))[: len(prepared)]
    left = len(prepared)
    while left:
        first += b"\0" if left & 1 else prepared[:1]
        left >>= 1
    digest = _md5(first)
    for turn in range(_APR1_ROUNDS):
        odd = turn & 1
        text = prepared if odd else digest
        text += (salt if turn % 3 else b"") + (prepared if turn % 7 else b"")
        digest = _md5(text + (digest if odd else prepared))
    return _little_endian_64(bytes(digest[place] for place in _APR1_ORDER))


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _little_endian_64(data: bytes) -> str:
    """Return the bytes in crypt's base64, which writes the lowest six bits of three bytes first."""
    written: list[str] = []
    for at in range(0, len(data), 3):
        piece = data[at : at + 3]
        number = int.from_bytes(piece, "little")
        for _ in range(len(piece) + 1):
            written.append(_CRYPT_64[number & 63])
            number >>= 6
    return "".join(written)


def firebase(derived: bytes, signer_key: bytes) -> bytes:
    """Return the project's key encrypted with the 32 bytes that scrypt derived (AES-256, CTR)."""
    encryptor = Cipher(algorithms.AES256(derived), modes.CTR(bytes(16))).encryptor()
    return encryptor.update(signer_key) + encryptor.finalize()
