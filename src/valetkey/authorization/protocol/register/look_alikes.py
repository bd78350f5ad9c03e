# ruff: noqa: RUF001 - these letters are here because they look like others
"""Which letters look like which others, so that a name can be compared as people see it."""

import unicodedata

# Lower-case letters that look like a Latin one, from the data of Unicode UTS 39: of the scripts in
# which a name for a Latin word can be spelled, and no others.
_LETTERS = {
    "a": "ɑαаᎪꓮᴀ",
    "b": "ƅβвьᏏᏴꓐꞵʙ",
    "c": "σсᏟᴄⲥꓚ",
    "d": "ԁᎠᏧꓒꓓᴅ",
    "e": "εеҽᎬⴹꓰꬲᴇ",
    "f": "ϝքẝꓝꞙꬵꜰ",
    "g": "ƍɡԍցᏀᏳᶃꓖɢ",
    "h": "нһհᎻᏂⲏꓧ",
    "i": "ıɩɪιіᎥꙇⲓ",
    "j": "ʝϳјᎫꓙᴊ",
    "k": "κкᏦⲕꓗᴋ",
    "l": "ǀӏᏞⳑⵏꓡꓲʟ",
    "m": "μϻмᎷⲙꓟᴍ",
    "n": "ոռⲛꓠηɴ",
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

# Before capitals become small: these look like another letter than their small ones do.
_CAPITALS = str.maketrans(
    {"I": "l", "|": "l", "1": "l", "0": "o", "\u0397": "h", "\u039d": "n", "\u03a5": "y"}
)
_PAIRS = (("rn", "m"), ("vv", "w"))


def letters_of(text: str) -> str:
    """The letters and digits of a text, whatever their case, accents, width and style."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(letter for letter in plain if letter.isalnum())


def shape_of(text: str) -> str:
    """What people see of a text: the same for two that look alike, whatever their script."""
    plain = unicodedata.normalize("NFKD", text).translate(_CAPITALS)
    shape = letters_of(plain).translate(_FOLDED)
    for pair, letter in _PAIRS:
        shape = shape.replace(pair, letter)
    return shape
