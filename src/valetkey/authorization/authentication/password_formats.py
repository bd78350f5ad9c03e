"""Verification of password hashes that were imported from other software.

They are verified as they are, and replaced by ours at the first sign-in. Formats: the PHC strings
of Argon2, scrypt and PBKDF2, the strings of passlib and Django for the same, and bcrypt.
"""

import ctypes
import hashlib
import hmac
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from functools import cache

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2d, Argon2i, Argon2id
from msgspec import Struct

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


MOST_MEMORY = 256 * 1024 * 1024
"""Maximum memory for the verification of one hash, in bytes."""

MOST_PBKDF2 = 4_000_000
"""Maximum number of iterations of PBKDF2."""

MOST_BCRYPT = 15
"""Maximum cost of bcrypt: about three seconds of one core."""

_MOST_WORK = 64
"""Maximum of passes times memory of Argon2, and of N times r times p of scrypt, in 16 MiB."""

_UNIT = 16 * 1024 * 1024
_LONGEST = 1_000
_SHORTEST_DIGEST = 16
_ARGON2: Mapping[str, Callable[[bytes, str], None]] = {
    "argon2id": Argon2id.verify_phc_encoded,
    "argon2i": Argon2i.verify_phc_encoded,
    "argon2d": Argon2d.verify_phc_encoded,
}


class _Format(Struct, frozen=True):
    """A pattern of stored hashes, whether its cost is bounded, and how it is verified."""

    pattern: re.Pattern[str]
    is_allowed: Callable[[re.Match[str]], bool]
    verify: Callable[[bytes, re.Match[str]], bool]


def is_foreign(stored: str) -> bool:
    """Return whether the hash is of a known format, complete, and bounded in its cost."""
    return _find(stored) is not None


def verify_foreign(prepared: bytes, stored: str) -> bool:
    """Return whether the password matches a hash of one of these formats."""
    found = _find(stored)
    return found is not None and found[0].verify(prepared, found[1])


def _find(stored: str) -> tuple[_Format, re.Match[str]] | None:
    if len(stored) > _LONGEST:
        return None
    for each in _FORMATS:
        match = each.pattern.fullmatch(stored)
        if match is not None:
            return (each, match) if each.is_allowed(match) else None
    return None


def _bytes(text: str) -> bytes:
    """Return the bytes of base64, padded or not, with passlib's `.` for `+`; b"" if invalid."""
    plain = text.rstrip("=").replace(".", "+")
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except Error:
        return b""


def _argon2_is_allowed(match: re.Match[str]) -> bool:
    memory, passes = int(match["m"]) * 1024, int(match["t"])
    bounded = memory <= MOST_MEMORY and passes * memory <= _MOST_WORK * _UNIT
    return bounded and _has_digest(match) and bool(_bytes(match["salt"]))


def _argon2(prepared: bytes, match: re.Match[str]) -> bool:
    try:
        _ARGON2[match["kind"]](prepared, match["phc"])
    except InvalidKey:
        return False
    return True


def _pbkdf2_is_allowed(match: re.Match[str]) -> bool:
    return 0 < int(match["i"]) <= MOST_PBKDF2 and _has_digest(match)


def _pbkdf2(prepared: bytes, match: re.Match[str]) -> bool:
    return _same_pbkdf2(prepared, match, _bytes(match["salt"]))


def _django_pbkdf2(prepared: bytes, match: re.Match[str]) -> bool:
    # Django's salt is text, not base64.
    return _same_pbkdf2(prepared, match, match["salt"].encode())


def _same_pbkdf2(prepared: bytes, match: re.Match[str], salt: bytes) -> bool:
    expected = _bytes(match["digest"])
    name = match["hash"] or "sha1"
    made = hashlib.pbkdf2_hmac(name, prepared, salt, int(match["i"]), len(expected))
    return hmac.compare_digest(made, expected)


def _scrypt_is_allowed(match: re.Match[str]) -> bool:
    n, r, p = _costs(match)
    if n < 2 or n & (n - 1) or not r or not p:  # noqa: PLR2004 - a power of two
        return False
    bounded = 128 * n * r <= MOST_MEMORY and 128 * n * r * p <= _MOST_WORK * _UNIT
    return bounded and _has_digest(match)


def _scrypt(prepared: bytes, match: re.Match[str]) -> bool:
    return _same_scrypt(prepared, match, _bytes(match["salt"]))


def _django_scrypt(prepared: bytes, match: re.Match[str]) -> bool:
    return _same_scrypt(prepared, match, match["salt"].encode())


def _same_scrypt(prepared: bytes, match: re.Match[str], salt: bytes) -> bool:
    n, r, p = _costs(match)
    expected = _bytes(match["digest"])
    memory = 128 * r * (n + p + 2) + 1024 * 1024
    made = hashlib.scrypt(prepared, salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=len(expected))
    return hmac.compare_digest(made, expected)


def _costs(match: re.Match[str]) -> tuple[int, int, int]:
    groups = match.groupdict()
    n = 1 << min(int(groups["ln"]), 30) if groups.get("ln") else int(groups["n"])
    return n, int(match["r"]), int(match["p"])


def _bcrypt_is_allowed(match: re.Match[str]) -> bool:
    return int(match["cost"]) <= MOST_BCRYPT and has_bcrypt()


def _bcrypt(prepared: bytes, match: re.Match[str]) -> bool:
    return bcrypt(prepared, match["bcrypt"])


def _django_bcrypt(prepared: bytes, match: re.Match[str]) -> bool:
    if match["before"]:
        prepared = hashlib.sha256(prepared).hexdigest().encode()
    return bcrypt(prepared, match["bcrypt"])


def _has_digest(match: re.Match[str]) -> bool:
    return len(_bytes(match["digest"])) >= _SHORTEST_DIGEST


def _format(
    pattern: str,
    is_allowed: Callable[[re.Match[str]], bool],
    verify: Callable[[bytes, re.Match[str]], bool],
) -> _Format:
    return _Format(re.compile(pattern, re.ASCII), is_allowed, verify)


_B64 = r"[A-Za-z0-9+/.]+={0,2}"
_SALT_AND_DIGEST = rf"\$(?P<salt>{_B64})\$(?P<digest>{_B64})"
_BCRYPT = r"(?P<bcrypt>\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53})"
_DJANGO_SALT = r"\$(?P<salt>[^$\s]{1,100})\$"

_FORMATS = (
    _format(
        r"(?:argon2)?(?P<phc>\$(?P<kind>argon2(?:id|i|d))\$v=19"
        rf"\$m=(?P<m>\d{{1,8}}),t=(?P<t>\d{{1,3}}),p=\d{{1,2}}{_SALT_AND_DIGEST})",
        _argon2_is_allowed,
        _argon2,
    ),
    _format(
        rf"\$pbkdf2(?:-(?P<hash>sha1|sha256|sha512))?\$(?:i=)?(?P<i>\d{{1,8}})(?:,l=\d{{1,3}})?"
        rf"{_SALT_AND_DIGEST}",
        _pbkdf2_is_allowed,
        _pbkdf2,
    ),
    _format(
        rf"pbkdf2_(?P<hash>sha1|sha256|sha512)\$(?P<i>\d{{1,8}}){_DJANGO_SALT}(?P<digest>{_B64})",
        _pbkdf2_is_allowed,
        _django_pbkdf2,
    ),
    _format(
        rf"\$scrypt\$ln=(?P<ln>\d{{1,2}}),r=(?P<r>\d{{1,3}}),p=(?P<p>\d{{1,3}}){_SALT_AND_DIGEST}",
        _scrypt_is_allowed,
        _scrypt,
    ),
    _format(
        rf"scrypt\$(?P<n>\d{{1,9}}){_DJANGO_SALT}(?P<r>\d{{1,3}})\$(?P<p>\d{{1,3}})"
        rf"\$(?P<digest>{_B64})",
        _scrypt_is_allowed,
        _django_scrypt,
    ),
    _format(_BCRYPT, _bcrypt_is_allowed, _bcrypt),
    _format(
        rf"bcrypt(?P<before>_sha256)?\${_BCRYPT}",
        _bcrypt_is_allowed,
        _django_bcrypt,
    ),
)
