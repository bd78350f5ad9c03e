"""Texts: sentences marked for translation, text made printable, codes as people type them."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Self, cast


def translatable(text: str) -> str:
    """Mark `text` for translation and return it; the catalogue is collected from these calls.

    Call it with a plain literal where a sentence is declared; translate the sentence where it is
    shown.
    """
    return text


class FilledText(str):
    """A text with values in it that still knows both, so that it can be translated later.

    It is the English text for programs: `FilledText(translatable("at most %(most)s"), most=20)`.
    """

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, object]

    def __new__(cls, template: str, **values: object) -> Self:
        """Fill `template`, which names its values as in `%(name)s`, and keep both."""
        text = super().__new__(cls, template % values)
        text.template, text.values = template, values
        return text


def printable(text: str, instead: str = " ") -> str:
    """Return the text with `instead` for each character that Unicode does not print.

    These are control characters, line breaks and what changes the direction of text; a space stays.
    """
    return "".join(letter if letter.isprintable() else instead for letter in text)


def trimmed(value: object) -> object:
    """Return a text, or each text of a list, without the spaces around it; others as they are."""
    match value:
        case str():
            return value.strip(" ")
        case list():
            return [trimmed(item) for item in cast("list[object]", value)]
        case _:
            return value


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
    kept = [
        _plain(character)
        for character in unicodedata.normalize("NFKC", text)
        if not _separates(character)
    ]
    # ASCII first: upper() turns other letters into these.
    code = "".join(kept)
    return code.upper() if code.isascii() and _CODE.fullmatch(code.upper()) else ""


def _separates(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category in _SEPARATING or category[0] in _SEPARATING or letter in _DASHES


def _plain(letter: str) -> str:
    digit = unicodedata.decimal(letter, None)
    return letter if digit is None else str(digit)
