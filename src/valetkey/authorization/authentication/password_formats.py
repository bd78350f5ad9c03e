"""Password hashes as stored, of this server and others: what can be verified, and how.

`read_hash` decides both, so a hash that an import accepts is one that a sign-in can verify. Hashes
of other software are replaced by ours at the first sign-in.
"""

import ctypes
import hashlib
import hmac
import re
import unicodedata
from base64 import b64decode, b64encode
from binascii import Error, unhexlify
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Literal

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.argon2 import Argon2d, Argon2i, Argon2id
from msgspec import Struct

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
    return library is not None and _crypt_matches(library, prepared, stored.encode("ascii"))


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
        if _crypt_matches(library, _KNOWN_PASSWORD, _KNOWN):
            return library
    return None


def _crypt_matches(library: ctypes.CDLL, password: bytes, stored: bytes) -> bool:
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
    return _little_endian_64(bytes(digest[index] for index in _APR1_ORDER))


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


_MIB = 1024 * 1024

MOST_PBKDF2 = 4_000_000
"""Maximum number of iterations of PBKDF2, for all blocks of the digest together."""

MOST_BCRYPT = 15
"""Maximum cost of bcrypt: about three seconds of one core."""

MOST_CRYPT = 2_000_000
"""Maximum number of rounds of SHA-crypt: about a second of one core."""

MOST_PHPASS = 1 << 17
"""Maximum number of rounds of phpass: a tenth of a second, in which other requests run slowly."""

_LONGEST = 1_000
_SHORTEST_SALT = 8
"""Minimum bytes of a salt of Argon2 (RFC 9106, section 3.1)."""

_SHORTEST_DIGEST = 16
_LONGEST_LOG = 30


class Cost(Struct, frozen=True):
    """The maximum of memory-hard hashes: memory, and memory times passes, in bytes."""

    memory: int
    work: int


FOREIGN = Cost(256 * _MIB, 1024 * _MIB)
"""What a hash of other software may cost."""

OWN = Cost(1024 * _MIB, 20 * 1024 * _MIB)
"""What our own may cost: the highest values of the settings of passwords."""


class HashFault(Exception):
    """A hash that cannot be verified, with the code of the reason."""

    def __init__(self, code: str = "row.hash") -> None:
        """Store the code of a reason in `protocol/register/reasons.py`."""
        super().__init__(code)
        self.code = code


_TOO_COSTLY = "row.hash.cost"
_BROKEN = "row.hash.broken"
_ABSENT = "row.hash.system"

Check = Callable[[bytes], bool]
_Match = re.Match[str]


class StoredHash(Struct, frozen=True):
    """A hash that can be verified: the name of its format, and whether a password matches it."""

    format: str
    matches: Check


def read_hash(stored: str, most: Cost = FOREIGN) -> StoredHash:
    """Return the hash, to be verified at a bounded cost. Raises HashFault."""
    if len(stored) > _LONGEST:
        raise HashFault
    for hash_format in _FORMATS:
        match = hash_format.pattern.fullmatch(stored)
        if match is not None:
            return StoredHash(hash_format.name, hash_format.read(match, most))
    raise HashFault


_OF_OURS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_OF_OTHERS: tuple[Literal["NFC", "NFD", "NFKC"], ...] = ("NFC", "NFD", "NFKC")


def spellings(typed: str, stored: str | None) -> Iterator[bytes]:
    """Yield the forms of a password that `stored` may be the hash of, each once.

    Ours are hashed as NFC, and look like those of other software that hashes what a keyboard sends,
    such as NFD on macOS. Compatibility forms (NFKC) are tried for other formats only.
    """
    names = _OF_OURS if stored is None or stored.startswith("$argon2id$") else _OF_OTHERS
    forms = (unicodedata.normalize(name, typed) for name in names)
    yield from dict.fromkeys(form.encode() for form in (*forms, typed))


def _same(made: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(made, expected)


def _bytes(text: str) -> bytes:
    """Return the bytes of base64 of any alphabet, padded or not, also with passlib's `.` for `+`.

    Raises HashFault.
    """
    plain = text.rstrip("=").replace(".", "+").replace("-", "+").replace("_", "/")
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except Error:
        raise HashFault(_BROKEN) from None


def _digest(data: bytes) -> bytes:
    # A digest of no or few bytes fits every password, or many.
    if len(data) < _SHORTEST_DIGEST:
        raise HashFault(_BROKEN)
    return data


def _encoded(match: _Match) -> tuple[bytes, bytes]:
    return _bytes(match["salt"]), _digest(_bytes(match["digest"]))


def _parameters(text: str) -> dict[str, int]:
    """Return `name=number` pairs in any order. Raises HashFault for a repeated one."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    parameters = {name: int(value) for name, _, value in pairs}
    if len(parameters) < len(pairs):
        raise HashFault(_BROKEN)
    return parameters


_ARGON2: Mapping[str, type[Argon2id | Argon2i | Argon2d]] = {
    "argon2id": Argon2id,
    "argon2i": Argon2i,
    "argon2d": Argon2d,
}


def _argon2(match: _Match, most: Cost) -> Check:
    salt, digest = _encoded(match)
    costs = _parameters(match["costs"])
    if costs.keys() != {"m", "t", "p"} or len(salt) < _SHORTEST_SALT:
        raise HashFault(_BROKEN)
    memory = costs["m"] * 1024
    if memory > most.memory or costs["t"] * memory > most.work:
        raise HashFault(_TOO_COSTLY)
    make = partial(
        _ARGON2[match["kind"]],
        salt=salt,
        length=len(digest),
        iterations=costs["t"],
        lanes=costs["p"],
        memory_cost=costs["m"],
    )
    try:
        make()
    except ValueError:
        raise HashFault(_BROKEN) from None
    # An object derives once.
    return lambda prepared: _same(make().derive(prepared), digest)


def _pbkdf2_of(name: str, iterations: int, salt: bytes, digest: bytes) -> Check:
    blocks = -(-len(digest) // hashlib.new(name).digest_size)
    if iterations * blocks > MOST_PBKDF2:
        raise HashFault(_TOO_COSTLY)
    if not iterations:
        raise HashFault(_BROKEN)
    return lambda prepared: _same(
        hashlib.pbkdf2_hmac(name, prepared, salt, iterations, len(digest)), digest
    )


def _pbkdf2(match: _Match, most: Cost) -> Check:
    return _pbkdf2_of(match["hash"] or "sha1", int(match["i"]), *_encoded(match))


def _django_pbkdf2(match: _Match, most: Cost) -> Check:
    # The salt of Django and Werkzeug is text, not base64.
    digest = _digest(_bytes(match["digest"]))
    return _pbkdf2_of(match["hash"], int(match["i"]), match["salt"].encode(), digest)


def _werkzeug_pbkdf2(match: _Match, most: Cost) -> Check:
    digest = _digest(unhexlify(match["hex"]))
    return _pbkdf2_of(match["hash"], int(match["i"]), match["salt"].encode(), digest)


_IDENTITY_HASHES = {0: "sha1", 1: "sha256", 2: "sha512"}
_IDENTITY_2 = (1_000, 16, 32)
"""Iterations, and the bytes of salt and digest, of version 2."""


def _identity(match: _Match, most: Cost) -> Check:
    """Read the record of ASP.NET Identity: version 3 says its parameters, version 2 has none."""
    data = _bytes(match["record"])
    iterations, size, length = _IDENTITY_2
    if data[:1] == b"\0" and len(data) == 1 + size + length:
        return _pbkdf2_of("sha1", iterations, data[1 : 1 + size], data[1 + size :])
    kind, iterations, size = (int.from_bytes(data[at : at + 4], "big") for at in (1, 5, 9))
    if data[:1] != b"\1" or kind not in _IDENTITY_HASHES:
        raise HashFault
    salt, digest = data[13 : 13 + size], data[13 + size :]
    return _pbkdf2_of(_IDENTITY_HASHES[kind], iterations, salt, _digest(digest))


def _scrypt_of(
    n: int, r: int, p: int, salt: bytes, length: int, most: Cost
) -> Callable[..., bytes]:
    memory = 128 * n * r
    if memory > most.memory or memory * p > most.work:
        raise HashFault(_TOO_COSTLY)
    # RFC 7914 section 2: N is a power of two and less than 2 ** (128 * r / 8).
    if n < 2 or n & (n - 1) or not r or not p or n >> (16 * r):  # noqa: PLR2004 - a power of two
        raise HashFault(_BROKEN)
    room = 128 * r * (n + p + 2) + _MIB
    return partial(hashlib.scrypt, salt=salt, n=n, r=r, p=p, maxmem=room, dklen=length)


def _scrypt(match: _Match, most: Cost) -> Check:
    salt, digest = _encoded(match)
    derive = _scrypt_of(*_scrypt_costs(match), salt, len(digest), most)
    return lambda prepared: _same(derive(prepared), digest)


def _scrypt_costs(match: _Match) -> tuple[int, int, int]:
    costs = _parameters(match["costs"])
    if costs.keys() != {"ln", "r", "p"}:
        raise HashFault(_BROKEN)
    # `ln` is the logarithm of N, but N itself in the exports of Kratos.
    n = costs["ln"] if costs["ln"] > _LONGEST_LOG else 1 << costs["ln"]
    return n, costs["r"], costs["p"]


def _text_scrypt(match: _Match, most: Cost) -> Check:
    """Read the string of Django or Werkzeug, with a salt of text."""
    groups = match.groupdict()
    digest = _digest(unhexlify(groups["hex"]) if "hex" in groups else _bytes(groups["digest"]))
    costs = int(match["n"]), int(match["r"]), int(match["p"])
    derive = _scrypt_of(*costs, match["salt"].encode(), len(digest), most)
    return lambda prepared: _same(derive(prepared), digest)


def _firebase(match: _Match, most: Cost) -> Check:
    salt, digest = _encoded(match)
    separator, key = _bytes(match["separator"]), _bytes(match["key"])
    if len(key) != len(digest):
        raise HashFault(_BROKEN)
    derive = _scrypt_of(*_scrypt_costs(match), salt + separator, 32, most)
    return lambda prepared: _same(firebase(derive(prepared), key), digest)


def _bcrypt(match: _Match, most: Cost) -> Check:
    if int(match["cost"]) > MOST_BCRYPT:
        raise HashFault(_TOO_COSTLY)
    return _crypt_of(canonical_bcrypt(match["bcrypt"]))


def _crypt_of(stored: str) -> Check:
    if not has_crypt():
        raise HashFault(_ABSENT)
    return partial(crypt, stored=stored)


def _bcrypt_sha256(match: _Match, most: Cost) -> Check:
    check = _bcrypt(match, most)
    return lambda prepared: check(hashlib.sha256(prepared).hexdigest().encode())


def _sha_crypt(match: _Match, most: Cost) -> Check:
    if int(match["rounds"] or 0) > MOST_CRYPT:
        raise HashFault(_TOO_COSTLY)
    return _crypt_of(match["crypt"])


def _md5_crypt(match: _Match, most: Cost) -> Check:
    return _crypt_of(match["crypt"])


def _apr1(match: _Match, most: Cost) -> Check:
    salt, digest = match["salt"].encode(), match["digest"].encode()
    return lambda prepared: _same(apr1(prepared, salt).encode(), digest)


def _phpass_of(match: _Match, name: str) -> Check:
    rounds = phpass_rounds(match["rounds"])
    if rounds > MOST_PHPASS:
        raise HashFault(_TOO_COSTLY)
    salt, digest = match["salt"].encode(), match["digest"].encode()
    return lambda prepared: _same(
        phpass(prepared, name, salt, rounds).encode()[: len(digest)], digest
    )


def _phpass(match: _Match, most: Cost) -> Check:
    return _wordpress_of(_phpass_of(match, "md5"))


def _phpbb(match: _Match, most: Cost) -> Check:
    return _phpass_of(match, "md5")


def _drupal(match: _Match, most: Cost) -> Check:
    return _phpass_of(match, "sha512")


def _wordpress(match: _Match, most: Cost) -> Check:
    check = _bcrypt(match, most)
    return _wordpress_of(lambda prepared: check(_wordpress_digest(prepared)))


def _wordpress_digest(prepared: bytes) -> bytes:
    return b64encode(hmac.digest(b"wp-sha384", prepared, "sha384"))


def _wordpress_of(check: Check) -> Check:
    """Return the check of a password as WordPress hashes it: without the space around it.

    Its forms also put a backslash before each quotation mark and backslash, its programs do not.
    """

    def matches(prepared: bytes) -> bool:
        bare = prepared.strip()
        slashed = re.sub(rb"(['\"\\])", rb"\\\1", bare)
        return any(check(spelling) for spelling in dict.fromkeys((bare, slashed)))

    return matches


_SALTED_SIZES: Mapping[str, str] = {"": "sha1", "256": "sha256", "384": "sha384", "512": "sha512"}


def _salted_sha(match: _Match, most: Cost) -> Check:
    """Read the hash of an LDAP server: the digest of password and salt, then the salt."""
    name = _SALTED_SIZES[match["size"] or ""]
    data = _bytes(match["digest"])
    size = hashlib.new(name).digest_size
    digest, salt = data[:size], data[size:]
    if len(digest) < size or not salt:
        raise HashFault(_BROKEN)
    return lambda prepared: _same(hashlib.new(name, prepared + salt).digest(), digest)


class _Format(Struct, frozen=True):
    """A format: its name in reports, its pattern, and what reads it. `read` raises HashFault."""

    name: str
    pattern: re.Pattern[str]
    read: Callable[[_Match, Cost], Check]


def _format(name: str, pattern: str, read: Callable[[_Match, Cost], Check]) -> _Format:
    return _Format(name, re.compile(pattern, re.ASCII), read)


_B64 = r"[A-Za-z0-9+/._-]+={0,2}"
_SALT_AND_DIGEST = rf"\$(?P<salt>{_B64})\$(?P<digest>{_B64})"
_BCRYPT = r"(?P<bcrypt>\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53})"
_TEXT_SALT = r"\$(?P<salt>[^$\s]{1,100})\$"
_SHA = r"(?P<hash>sha(?:1|224|256|384|512))"
_COSTS = r"(?P<costs>[a-z]{1,2}=\d{1,9}(?:,[a-z]{1,2}=\d{1,9}){2})"
_HEX = r"(?P<hex>(?:[0-9a-f]{2}){1,256})"
_PHPASS = r"(?P<rounds>[./0-9A-Za-z])(?P<salt>[./0-9A-Za-z]{8})"
_CRYPT = r"(?:\{(?:CRYPT|crypt)\})?"
_ROUNDS = r"(?:rounds=(?P<rounds>[1-9]\d{3,8})\$)?[./0-9A-Za-z]{1,16}\$"

_FORMATS = (
    _format(
        "Argon2",
        rf"(?:argon2|\{{ARGON2\}})?\$(?P<kind>argon2(?:id|i|d))\$v=19\${_COSTS}{_SALT_AND_DIGEST}",
        _argon2,
    ),
    _format(
        "PBKDF2",
        rf"\$pbkdf2(?:-{_SHA})?\$(?:l=\d{{1,3}},)?(?:i=)?(?P<i>\d{{1,8}})(?:,l=\d{{1,3}})?"
        rf"{_SALT_AND_DIGEST}",
        _pbkdf2,
    ),
    _format(
        "PBKDF2 (Django)",
        rf"pbkdf2_{_SHA}\$(?P<i>\d{{1,8}}){_TEXT_SALT}(?P<digest>{_B64})",
        _django_pbkdf2,
    ),
    _format(
        "PBKDF2 (Werkzeug)",
        rf"pbkdf2:{_SHA}:(?P<i>\d{{1,8}}){_TEXT_SALT}{_HEX}",
        _werkzeug_pbkdf2,
    ),
    _format("scrypt", rf"\$scrypt\${_COSTS}{_SALT_AND_DIGEST}", _scrypt),
    _format(
        "scrypt (Django)",
        rf"scrypt\$(?P<n>\d{{1,9}}){_TEXT_SALT}(?P<r>\d{{1,3}})\$(?P<p>\d{{1,3}})"
        rf"\$(?P<digest>{_B64})",
        _text_scrypt,
    ),
    _format(
        "scrypt (Werkzeug)",
        rf"scrypt:(?P<n>\d{{1,9}}):(?P<r>\d{{1,3}}):(?P<p>\d{{1,3}}){_TEXT_SALT}{_HEX}",
        _text_scrypt,
    ),
    _format(
        "scrypt (Firebase)",
        rf"\$firescrypt\${_COSTS}{_SALT_AND_DIGEST}\$(?P<separator>{_B64})\$(?P<key>{_B64})",
        _firebase,
    ),
    _format("bcrypt", rf"(?:bcrypt\$|\{{bcrypt\}}|\{{CRYPT\}}|\{{crypt\}})?{_BCRYPT}", _bcrypt),
    _format("bcrypt of SHA-256 (Django)", rf"bcrypt_sha256\${_BCRYPT}", _bcrypt_sha256),
    _format("bcrypt (WordPress)", rf"\$wp{_BCRYPT}", _wordpress),
    _format("phpass (WordPress)", rf"\$P\${_PHPASS}(?P<digest>[./0-9A-Za-z]{{22}})", _phpass),
    _format("phpass (phpBB)", rf"\$H\${_PHPASS}(?P<digest>[./0-9A-Za-z]{{22}})", _phpbb),
    _format("phpass (Drupal)", rf"\$S\${_PHPASS}(?P<digest>[./0-9A-Za-z]{{43}})", _drupal),
    _format("SHA-512-crypt", rf"{_CRYPT}(?P<crypt>\$6\${_ROUNDS}[./0-9A-Za-z]{{86}})", _sha_crypt),
    _format("SHA-256-crypt", rf"{_CRYPT}(?P<crypt>\$5\${_ROUNDS}[./0-9A-Za-z]{{43}})", _sha_crypt),
    _format(
        "MD5-crypt",
        rf"{_CRYPT}(?P<crypt>\$1\$[./0-9A-Za-z]{{1,8}}\$[./0-9A-Za-z]{{22}})",
        _md5_crypt,
    ),
    _format(
        "apr1",
        r"\$apr1\$(?P<salt>[./0-9A-Za-z]{1,8})\$(?P<digest>[./0-9A-Za-z]{22})",
        _apr1,
    ),
    _format(
        "salted SHA (LDAP)", rf"\{{SSHA(?P<size>256|384|512)?\}}(?P<digest>{_B64})", _salted_sha
    ),
    _format("ASP.NET Identity", r"(?P<record>A[A-Q][A-Za-z0-9+/]{40,700}={0,2})", _identity),
)
FORMATS = tuple(hash_format.name for hash_format in _FORMATS)
"""The names of the formats, as reports show them."""
