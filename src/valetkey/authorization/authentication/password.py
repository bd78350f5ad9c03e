"""Passwords: Argon2id hashes as PHC strings (RFC 9106), and rules for new passwords.

Hashes of imported accounts may be of another format until the first sign-in, and may be of another
form of the password: ours are of NFC, as keyboards differ in how they compose letters (RFC 8265).

Those most frequent in data breaches are refused: docs/well_known_passwords.py makes their file.
"""

import hashlib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from valetkey.authorization.authentication.password_formats import (
    OWN,
    HashFault,
    read_hash,
    spellings,
)
from valetkey.config.settings import PasswordSettings
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web import log

FILE = resources.files("valetkey.authorization.authentication") / "well_known_passwords.bin"
"""The list: four bytes of each hash, sorted; one good password in 40,000 is rejected by chance."""

LARGEST = 98_000
"""Maximum number of passwords in the list."""

_SHORTEST = 8
_TAIL = "0123456789!?.*#$@_-"


def is_well_known(text: str) -> bool:
    """Return whether the password is in the list, in any spelling or with an added ending."""
    known = _known()
    for print_ in prints(forms(text)):
        place = bisect_left(known, print_)
        if place < len(known) and known[place] == print_:
            return True
    return _is_poor(text)


def forms(text: str) -> tuple[str, ...]:
    """Return the text as the list has it, and without trailing digits and marks."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    bare = plain.rstrip(_TAIL)
    return tuple(form for form in dict.fromkeys((plain, bare)) if len(form) >= _SHORTEST)


def prints(words: Iterable[str]) -> Sequence[int]:
    """Return the list entries of these texts."""
    digests = (hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest() for word in words)
    return [int.from_bytes(digest[:4], "big") for digest in digests]


def _is_poor(text: str) -> bool:
    """Return whether the text is little more than one character or a short repeated piece."""
    for size in range(1, 4):
        piece = text[:size]
        if len(text) >= _SHORTEST and (piece * len(text))[: len(text)] == text:
            return True
    return False


@cache
def _known() -> Sequence[int]:
    data = memoryview(FILE.read_bytes())
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]


SHORTEST = 8
"""Minimum number of characters in a new password."""

LONGEST = 1_024
"""Maximum number of bytes in a password, in UTF-8."""

_SALT = 16
_LENGTH = 32
_KIB_PER_MIB = 1_024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def password_problem(text: str) -> str:
    """Return why `text` is not allowed, as the end of a sentence; "" if it is allowed."""
    if len(text) < SHORTEST:
        return f"must have at least {SHORTEST} characters"
    prepared = prepare(text)
    if prepared is None:
        return f"must have at most {LONGEST} bytes and no control characters"
    if is_well_known(text):
        return "is too common; use several words instead"
    return ""


def hash_password(text: str, settings: PasswordSettings, random: Callable[[int], bytes]) -> str:
    """Return the PHC string for a new password; takes tens of milliseconds of one core.

    Raises Refused (invalid_request) for a password that `password_problem` rejects.
    """
    prepared = prepare(text)
    problem = password_problem(text)
    if prepared is None or problem:
        raise Refused.because(ErrorCode.INVALID_REQUEST, f"the password {problem}", "password.rule")
    return hash_prepared(prepared, settings, random(_SALT))


def prepare(text: str) -> bytes | None:
    """Return the bytes to hash; None for an impossible password."""
    # The length first: normalising a megabyte for an unauthenticated client is expensive.
    if not text or len(text) > LONGEST or _CONTROL.search(text):
        return None
    try:
        prepared = unicodedata.normalize("NFC", text).encode()
    except UnicodeEncodeError:
        return None
    return prepared if len(prepared) <= LONGEST else None


def hash_prepared(prepared: bytes, settings: PasswordSettings, salt: bytes) -> str:
    """Return the PHC string of the bytes from `prepare`."""
    return Argon2id(
        salt=salt,
        length=_LENGTH,
        iterations=settings.passes,
        lanes=1,
        memory_cost=settings.memory * _KIB_PER_MIB,
    ).derive_phc_encoded(prepared)


def verify(text: str, stored: str | None, settings: PasswordSettings) -> bool:
    """Return whether the password matches; a stored text that is no hash matches none.

    Without a hash that can be verified, False at the cost of one of ours.
    """
    if prepare(text) is None:
        return False
    matches = _check(stored)
    if matches is None:
        for each in spellings(text, stored):
            hash_prepared(each, settings, bytes(_SALT))
        return False
    try:
        return any(matches(each) for each in spellings(text, stored))
    except MemoryError:
        raise
    except Exception as failure:  # noqa: BLE001 - a library may fail on what is stored
        log.throttled("error", "password.unverifiable", type(failure).__name__, failure)
        return False


def _check(stored: str | None) -> Callable[[bytes], bool] | None:
    if stored is None:
        return None
    try:
        return read_hash(stored, OWN).matches
    except HashFault as fault:
        log.throttled("error", "password.unverifiable", fault.code)
        return None


def is_current(stored: str, settings: PasswordSettings) -> bool:
    """Return whether the hash was made with the current parameters."""
    memory = settings.memory * _KIB_PER_MIB
    return stored.startswith(f"$argon2id$v=19$m={memory},t={settings.passes},p=1$")
