# ruff: noqa: RUF001 - these letters are here because they look like others
"""Confusable letters: compare names as people see them (Unicode UTS 39)."""

import re
import unicodedata
from collections.abc import Mapping

# Lower-case letters that look like a Latin one, from the data of Unicode UTS 39, limited to scripts
# in which a Latin name can be imitated.
_LETTERS = {
    "a": "ɑαаᎪꓮᴀ",
    "b": "ƅβвьᏏᏴꓐꞵʙ",
    "c": "σсᏟᴄⲥꓚ",
    "d": "ԁᎠᏧꓒꓓᴅ",
    "e": "εеҽᎬⴹꓰꬲᴇ",
    "f": "ϝքẝꓝꞙꬵꜰ",
    "g": "ƍɡԍցᏀᏳᶃꓖɢ",
    "h": "нһհᎻᏂⲏꓧ",
    "j": "ʝϳјᎫꓙᴊ",
    "k": "κкᏦⲕꓗᴋ",
    "l": "iıɩɪιіᎥꙇⲓǀӏᏞⳑⵏꓡꓲʟ",
    "m": "μϻмᎷⲙꓟᴍ",
    "n": "ոռⲛꓠηɴŋ",
    "o": "οоօჿᴏᴑⲟⵔꓳꬽ",
    "p": "ρрᏢⲣꓑᴘ",
    "q": "ԛգզⵕ",
    "r": "ʀгᎡᎱᏒᴦⲅꓣꭇꭈ",
    "s": "ƽѕտᏕᏚꓢꜱ",
    "t": "τтᎢⲧꓔᴛ",
    "u": "ʋυսᴜꓴꞟꭎꭒ",
    "v": "νѵᏙᴠⴸꓦ",
    "w": "ɯѡԝաᎳᏔᴡꓪ",
    "x": "χхⲭⵝꓫꭓ",
    "y": "ɣʏγуүყᎩᎽᶌỿⲩꓬꭚ",
    "z": "ζᏃᴢꓜ",
}
_FOLDED = str.maketrans({other: letter for letter, others in _LETTERS.items() for other in others})

# Applied before lower-casing: these resemble another letter than their lower-case forms do.
_CAPITALS = str.maketrans(
    {"I": "l", "|": "l", "1": "l", "0": "o", "\u0397": "h", "\u039d": "n", "\u03a5": "y"}
)
# Signs and digits that are read as letters within a name.
_SIGNS = str.maketrans({"$": "s", "5": "s", "@": "a", "!": "l", "€": "e", "†": "t"})
# A number: digits that no letter follows. A single 0 or 1 after a letter is not: `paypa1`, `inf0`.
_NUMBER = re.compile(r"((?:(?<![^\W_])|(?<=[^\W\d_])(?![01](?!\d)))\d++(?!\w))")
_MARKS = str.maketrans(dict.fromkeys("™℠®©"))
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
_STYLED = re.compile(
    r"(?:LATIN (?:SMALL|CAPITAL) LETTER ([A-Z]) WITH .+"
    r"|NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER ([A-Z])"
    r"|REGIONAL INDICATOR SYMBOL LETTER ([A-Z]))"
)
_PAIRS = (("rn", "m"), ("vv", "w"))


def has_blank(text: str) -> bool:
    """Return whether it contains an invisible character that Unicode classifies as a letter."""
    return any(character in text for character in _BLANK)


def letters_of(text: str) -> str:
    """Return the letters and digits of a text without case, accents, width and style."""
    plain = unicodedata.normalize("NFKD", text.translate(_MARKS)).casefold()
    styled = "".join(map(_without_style, plain))
    return "".join(letter for letter in styled if letter.isalnum() and letter not in _BLANK)


def shape_of(text: str) -> str:
    """Return the visual skeleton of a text: equal for texts that look alike."""
    plain = as_letters(unicodedata.normalize("NFKD", text.translate(_MARKS)), _CAPITALS)
    shape = letters_of(as_letters(plain, _SIGNS)).translate(_FOLDED)
    for pair, letter in _PAIRS:
        shape = shape.replace(pair, letter)
    return shape


def as_letters(text: str, table: Mapping[int, str | int]) -> str:
    """Replace digits and signs that stand for letters, except in numbers: `user5`, `Area 51`."""
    parts = _NUMBER.split(text)
    return "".join(part if at % 2 else part.translate(table) for at, part in enumerate(parts))


def _without_style(letter: str) -> str:
    """Return the Latin letter under a stroke, hook or frame that NFKD keeps; else itself."""
    if letter.isascii():
        return letter
    found = _STYLED.fullmatch(unicodedata.name(letter, ""))
    return found[found.lastindex or 0].lower() if found else letter
