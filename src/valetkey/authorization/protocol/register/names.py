"""Names that nobody looked at before people read them: no look-alikes, nothing that is reserved."""

import unicodedata
from collections.abc import Collection

RESERVED = ("valetkey", "administrator", "system", "security", "support")
"""Words by which people would take an application for this server or for who runs it."""

_MIXING = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts with letters that look like those of another one of them."""


def name_fault(name: str, reserved: Collection[str]) -> str:
    """Why an application may not give itself this name; "" if it may."""
    for word in name.split():
        if len({_script(letter) for letter in word} - {""}) > 1:
            return "each word in one script: letters of different scripts look alike"
    if any(unicodedata.category(letter) in {"Cf", "Co", "Cn", "Me"} for letter in name):
        return "characters that can be seen"
    folded = _folded(name)
    if any(taken and taken in folded for taken in map(_folded, reserved)):
        return "another one: this name would make people think of this server"
    return ""


def alike(name: str, others: Collection[str]) -> bool:
    """Whether people would take one of these names for this one: the same letters and digits."""
    folded = _folded(name)
    return bool(folded) and any(folded == _folded(other) for other in others)


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(letter for letter in plain if letter.isalnum())


def _script(letter: str) -> str:
    if not letter.isalpha():
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _MIXING else ""
