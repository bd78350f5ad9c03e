"""Codes as people type, paste and scan them, in one form."""

import re
import unicodedata

_LONGEST = 100
"""More characters than any code has, separators of its groups included."""

_CODE = re.compile(r"[0-9A-Z]*")
_SEPARATING = frozenset(["Z", "P", "Cc", "Cf"])
# The minus sign, and the long vowel mark that Japanese keyboards write for a hyphen.
_DASHES = frozenset("\u2212\u30fc")


def read_code(text: str) -> str:
    """Return the letters and digits of a code in ASCII, in upper case; "" if it has others.

    Letters and digits of any width and digits of any script count as the ASCII ones (NFKC). Spaces,
    punctuation and invisible characters only separate.
    """
    if len(text) > _LONGEST:
        return ""
    kept = [_plain(each) for each in unicodedata.normalize("NFKC", text) if not _separates(each)]
    # ASCII first: upper() turns other letters into these.
    code = "".join(kept)
    return code.upper() if code.isascii() and _CODE.fullmatch(code.upper()) else ""


def _separates(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category in _SEPARATING or category[0] in _SEPARATING or letter in _DASHES


def _plain(letter: str) -> str:
    digit = unicodedata.decimal(letter, None)
    return letter if digit is None else str(digit)
