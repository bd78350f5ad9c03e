"""Names for apps, made from those that a directory gives: usernames and names of groups."""

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256

from valetkey.authorization.model.account.user import fold

_LONGEST_GROUP = 80
_LONGEST_USERNAME = 190
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_UNUSABLE = re.compile(r"[\s@:]")
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ẞ": "SS",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "Œ": "OE",
        "þ": "th",
        "Þ": "Th",
        **dict(zip("øØłŁđĐðÐħĦıŋ", "oOlLdDdDhHin", strict=True)),
    }
)
"""Latin letters that Unicode does not decompose into a letter of ASCII."""

_TOMBSTONE = re.compile(r"[0-9a-f]{32}(?=[^@]+@)", re.IGNORECASE)


def group_names(display: str) -> Iterator[str]:
    """Yield the names that a group with this display name may have, best first.

    One that is taken, or nothing of which is ASCII, gets a suffix that depends on it alone.
    """
    name = _OTHER.sub("-", _latin(display)).strip("-._")[:_LONGEST_GROUP]
    if name:
        yield name
    digest = sha256(fold(display).encode()).hexdigest()
    for length in (8, 16):
        yield f"{name[: _LONGEST_GROUP - length - 1] or 'group'}-{digest[:length]}"


def username_of(user_name: str) -> str:
    """Return the username that a `userName` suggests: what precedes the @, in ASCII if it is Latin.

    "" if nothing of it is left.
    """
    local = _UNUSABLE.sub("", without_tombstone(user_name).partition("@")[0])
    plain = _latin(local)
    is_latin = all(letter.isascii() or not letter.isalnum() for letter in plain)
    kept = _OTHER.sub("", plain) if is_latin else unicodedata.normalize("NFC", local)
    return kept[:_LONGEST_USERNAME]


def without_tombstone(address: str) -> str:
    """Return the address before its user was deleted: Entra ID puts 32 digits in front of it."""
    return _TOMBSTONE.sub("", address, count=1)


def is_tombstone(address: str) -> bool:
    """Return whether the address is that of a deleted user."""
    return _TOMBSTONE.match(address) is not None


def _latin(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(each for each in plain if not unicodedata.combining(each))
