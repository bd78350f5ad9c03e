"""Random secrets and identifiers, their fingerprints, and constant-time comparison."""

import hmac
import itertools
import zlib
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, NoReturn

Fingerprint = NewType("Fingerprint", str)
"""Keyed HMAC-SHA-256 of a secret, 43 characters of base64url: the only form that is stored."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_TEN_DIGITS = 62**10
_TO_URL = bytes.maketrans(b"+/", b"-_")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BODY = 43  # base62 digits of 32 bytes
_CHECKSUM = 6  # base62 digits of a CRC-32
_DRAWN = 22  # base62 digits of 16 bytes: the random half of a tagged secret
_TAG = _BODY - _DRAWN  # its other half, 125 bits of a MAC
_KEY_SIZE = 32
_SECONDS = 1 << 40  # Five bytes of seconds last for 34,000 years.
_ORDERED = itertools.count()


class Prefix(StrEnum):
    """The purpose of a secret, readable by users and secret scanners."""

    ACCESS_TOKEN = "vk_at"
    REFRESH_TOKEN = "vk_rt"
    CODE = "vk_ac"
    CLIENT_SECRET = "vk_cs"
    SESSION = "vk_se"
    BROWSER = "vk_br"
    ADMINISTRATION = "vk_am"
    API_TOKEN = "vka"
    LINK = "vk_ln"
    REGISTRATION = "vk_rg"
    INVITATION = "vk_in"
    DEVICE = "vk_rd"
    DEVICE_CODE = "vk_dc"
    SCIM_TOKEN = "vk_sc"


class Secret:
    """A string that is masked when printed and cannot be compared or pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Wrap `text`."""
        self._text = text

    def reveal(self) -> str:
        """Return the string itself, where it has to be sent or fingerprinted."""
        return self._text

    def __repr__(self) -> str:
        """Return a mask."""
        return "Secret(…)"

    def __str__(self) -> str:
        """Return a mask."""
        return "…"

    def __format__(self, format_spec: str) -> str:
        """Return a mask for every format."""
        return "…"

    def __eq__(self, other: object) -> bool:
        """Raise always: compare fingerprints, or use `same`."""
        message = "secrets are not compared with =="
        raise TypeError(message)

    def __hash__(self) -> NoReturn:
        """Raise always: a set of secrets would compare them."""
        message = "secrets are not hashed by Python"
        raise TypeError(message)

    def __reduce__(self) -> NoReturn:
        """Raise always: a pickle or a copy would carry the string in clear."""
        message = "secrets are not pickled or copied"
        raise TypeError(message)


@dataclass(frozen=True, slots=True, eq=False)
class FingerprintKey:
    """The 32-byte key without which a fingerprint can neither be computed nor forged."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the size of the key."""
        if len(self.key) != _KEY_SIZE:
            message = f"a fingerprint key has {_KEY_SIZE} bytes"
            raise ValueError(message)

    def fingerprint(self, purpose: str, text: str) -> Fingerprint:
        """Return the fingerprint of `text` for `purpose` (a short name without NUL).

        A fingerprint for one purpose never matches one for another.
        """
        return Fingerprint(to_base64url(self.digest(purpose, text)))

    def digest(self, purpose: str, text: str) -> bytes:
        """Return the 32 bytes that `of` encodes."""
        # surrogatepass: a lone surrogate from a lenient decoder must not raise an exception.
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, message, "sha256")


def fresh_secret(prefix: Prefix, random: Callable[[int], bytes]) -> Secret:
    """Return a new 256-bit secret: `<prefix>_<43 characters><6 characters of checksum>`."""
    start = prefix + "_" + _base62(int.from_bytes(random(32), "big"), _BODY)
    return Secret(start + _checksum(start))


def well_formed(prefix: Prefix, text: str) -> bool:
    """Return whether `text` has a secret's form: a cheap check before the database is asked."""
    body = text[-_BODY - _CHECKSUM :]
    if not (body.isascii() and body.isalnum()) or text[: -_BODY - _CHECKSUM] != prefix + "_":
        return False
    return text[-_CHECKSUM:] == _checksum(text[:-_CHECKSUM])


def tagged_secret(prefix: Prefix, drawn: bytes, key: FingerprintKey, purpose: str) -> Secret:
    """Return a secret of 16 random bytes followed by their MAC for `purpose`.

    It looks like any other secret of 256 bits, but `is_tagged` can tell it from an invented one.
    """
    half = _base62(int.from_bytes(drawn, "big"), _DRAWN)
    start = f"{prefix}_{half}{_tag(key, purpose, half)}"
    return Secret(start + _checksum(start))


def is_tagged(prefix: Prefix, text: str, key: FingerprintKey, purpose: str) -> bool:
    """Return whether `tagged_secret` made `text` with this key and purpose. Constant time."""
    if not well_formed(prefix, text):
        return False
    body = text[len(prefix) + 1 :]
    return same(body[_DRAWN:_BODY], _tag(key, purpose, body[:_DRAWN]))


def fresh_id(prefix: str, random: Callable[[int], bytes]) -> str:
    """Return a new 128-bit identifier: `<prefix>_<22 characters of base64url>`. Not secret."""
    return f"{prefix}_{to_base64url(random(16))}"


def ordered_id(prefix: str, second: int, random: Callable[[int], bytes]) -> str:
    """Return a new identifier: `<prefix>_<28 hexadecimal digits>`. Not secret.

    They are `second`, a count and 48 random bits. Identifiers of one second sort in the order in
    which this process made them, in every collation, until the count wraps at 2^24. New rows are
    therefore at the end of an index: inserting many of them changes few pages.
    """
    number = (second % _SECONDS) << 24 | next(_ORDERED) % (1 << 24)
    return f"{prefix}_{number:016x}{random(6).hex()}"


def fresh_reference(random: Callable[[int], bytes]) -> str:
    """Return a 60-bit reference for a refusal or failure, easy to read out: VK-7F3K-9QXM-2RTD."""
    number = int.from_bytes(random(8), "big")
    letters = "".join(_CROCKFORD[number >> shift & 31] for shift in range(0, 60, 5))
    return f"VK-{letters[:4]}-{letters[4:8]}-{letters[8:]}"


def same(a: str, b: str) -> bool:
    """Return whether both are equal, in time that depends on their lengths only."""
    # Bytes: compare_digest raises TypeError for non-ASCII str.
    return hmac.compare_digest(
        a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass")
    )


def to_base64url(data: bytes) -> str:
    """Encode `data` in base64url without padding (RFC 7515 section 2)."""
    return b2a_base64(data, newline=False).translate(_TO_URL, b"=").decode("ascii")


def from_base64url(text: str) -> bytes | None:
    """Decode base64url; return None unless `text` is the canonical encoding."""
    try:
        data = urlsafe_b64decode(text + "==="[: -len(text) % 4])
    except ValueError:
        return None
    # The library skips foreign characters and accepts non-zero trailing bits: "AR" for "AQ".
    return data if to_base64url(data) == text else None


def _base62(number: int, width: int) -> str:
    text = ""
    # Ten digits at a time: dividing large numbers is expensive, dividing small ones is not.
    while len(text) < width:
        number, ten = divmod(number, _TEN_DIGITS)
        ten, a = divmod(ten, 3_844)
        ten, b = divmod(ten, 3_844)
        ten, c = divmod(ten, 3_844)
        e, d = divmod(ten, 3_844)
        text = f"{_PAIRS[e]}{_PAIRS[d]}{_PAIRS[c]}{_PAIRS[b]}{_PAIRS[a]}{text}"
    return text[-width:]


def _tag(key: FingerprintKey, purpose: str, half: str) -> str:
    return _base62(int.from_bytes(key.digest(purpose, half)[:16], "big"), _DRAWN)[-_TAG:]


def _checksum(text: str) -> str:
    high, low = divmod(zlib.crc32(text.encode("ascii")), 3_844)
    high, middle = divmod(high, 3_844)
    return f"{_PAIRS[high]}{_PAIRS[middle]}{_PAIRS[low]}"
