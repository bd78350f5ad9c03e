"""Passwords that everybody tries first, because they were found in breach after breach.

The list is a file of hashes beside this one, made by docs/well_known_passwords.py; nobody is asked.
"""

import hashlib
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

FILE = resources.files("valetkey.authorization.authentication") / "well_known_passwords.bin"
"""Four bytes each, in order: one good password in 40,000 is taken for a common one."""

LARGEST = 98_000
"""Passwords in it, at most."""

_SHORTEST = 8
_TAIL = "0123456789!?.*#$@_-"


def is_well_known(text: str) -> bool:
    """Whether a new password is one of them, however it is written, or one with a tail."""
    known = _known()
    for print_ in prints(forms(text)):
        place = bisect_left(known, print_)
        if place < len(known) and known[place] == print_:
            return True
    return _is_poor(text)


def forms(text: str) -> tuple[str, ...]:
    """The text as the list has it, and without the digits and marks that people put behind."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    bare = plain.rstrip(_TAIL)
    return tuple(form for form in dict.fromkeys((plain, bare)) if len(form) >= _SHORTEST)


def prints(words: Iterable[str]) -> Sequence[int]:
    """What stands for each of them in the list."""
    digests = (hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest() for word in words)
    return [int.from_bytes(digest[:4], "big") for digest in digests]


def _is_poor(text: str) -> bool:
    """Whether it is hardly more than one character, or a short piece again and again."""
    for size in range(1, 4):
        piece = text[:size]
        if len(text) >= _SHORTEST and (piece * len(text))[: len(text)] == text:
            return True
    return False


@cache
def _known() -> Sequence[int]:
    data = memoryview(FILE.read_bytes())
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
