"""bcrypt by `crypt_r` of the operating system: libxcrypt or musl, as every Linux has one.

No macOS and no Windows has it; an import refuses bcrypt hashes there.
"""

import ctypes
import hmac
from functools import cache

_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", "libc.so")
_STATE = 256 * 1024
"""Bytes for the state of one call: libxcrypt takes 32 KiB, others half as much as this."""

_KNOWN = b"$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"
_KNOWN_PASSWORD = b"abc"


def has_bcrypt() -> bool:
    """Return whether this system can verify bcrypt hashes."""
    return _library() is not None


def bcrypt(prepared: bytes, stored: str) -> bool:
    """Return whether the password matches; only its first 72 bytes count."""
    library = _library()
    if library is None:
        return False
    return _same(library, prepared, stored.encode("ascii"))


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
