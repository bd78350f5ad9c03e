"""Rules for names of unreviewed apps: no look-alikes, no reserved words."""

import unicodedata
from collections.abc import Collection

from valetkey.authorization.protocol.register.look_alikes import has_blank, letters_of, shape_of

RESERVED = ("valetkey", "administrator", "system", "security", "support", "verified")
"""Words that would make people take an app for this server, its operator, or a verified app."""

_MIXING = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts with letters that resemble those of another one."""


def name_fault(name: str, reserved: Collection[str]) -> str:
    """Return why an app may not register itself with this name; "" if it may."""
    for word in name.split():
        if len({_script(letter) for letter in word} - {""}) > 1:
            return "each word in one script: letters of different scripts look alike"
    if any(unicodedata.category(letter) in {"Cf", "Co", "Cn", "Me"} for letter in name) or (
        has_blank(name)
    ):
        return "characters that can be seen"
    words = [word for word in reserved if letters_of(word)]
    for seen in (letters_of, shape_of):
        if any(taken in seen(name) for taken in map(seen, words)):
            return "another one: users could mistake this name for this server"
    return ""


def look_alike(name: str, others: Collection[str]) -> bool:
    """Whether people would take one of these names for this one: same letters or same shapes."""
    letters, shape = letters_of(name), shape_of(name)
    return bool(letters) and any(
        letters == letters_of(other) or shape == shape_of(other) for other in others
    )


def _script(letter: str) -> str:
    if not letter.isalpha():
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _MIXING else ""
