"""Reject common passwords: those most frequent in data breaches.

The list is a file of hashes in this package, made by docs/well_known_passwords.py; no service is
called.
"""

import hashlib
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

FILE = resources.files("valetkey.authorization.authentication") / "well_known_passwords.bin"
"""Four bytes for each hash, sorted: one good password in 40,000 is taken for a common one."""

LARGEST = 98_000
"""Maximum number of passwords in it."""

_SHORTEST = 8
_TAIL = "0123456789!?.*#$@_-"


def is_well_known(text: str) -> bool:
    """Return whether a new password is in the list, in any spelling or with an added ending."""
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
    """Return whether it is little more than one character or a short repeated piece."""
    for size in range(1, 4):
        piece = text[:size]
        if len(text) >= _SHORTEST and (piece * len(text))[: len(text)] == text:
            return True
    return False


@cache
def _known() -> Sequence[int]:
    data = memoryview(FILE.read_bytes())
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
