"""Usernames that can be chosen: none that resembles a uid, an address, an id or the operator."""

import re
from collections.abc import Iterable

from valetkey.authorization.model.user import SMALLEST_UID, fold
from valetkey.authorization.protocol.register.faults import input_fault
from valetkey.authorization.protocol.register.self_registration import (
    RESERVED,
    as_letters,
    name_fault,
    shape_of,
)

_CHOOSABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,38}[A-Za-z0-9]", re.ASCII)
_ID = re.compile(r"(?:[a-z]{2,8}|vk_[a-z]{2,4})_[a-z0-9_-]{16,}", re.ASCII)
"""The pattern of the ids and secrets of this server, in lowercase."""

_NUMBER = re.compile(r"[0-9][0-9._-]*", re.ASCII)

_OPERATORS = (
    *("abuse", "admin", "admins", "anonymous", "api", "apply", "cli", "everybody", "everyone"),
    *("help", "helpdesk", "hostmaster", "info", "mailer-daemon", "me", "moderator", "nobody"),
    *("noreply", "null", "oauth", "operator", "operators", "owner", "postmaster", "root", "self"),
    *("server", "service", "staff", "superuser", "sysadmin", "sysop", "undefined", "unknown"),
    *("user", "users", "webmaster", "www"),
)
"""Words that people or programs could mistake for something else than a user."""

_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
    r"|[\U000e0100-\U000e01ef]"
)
"""Invisible characters: fillers, variation selectors, the empty Braille cell."""

_MARKUP = frozenset('<>"&`\\')
"""Characters of markup and quoting, which other systems that get the name may interpret."""

_DIGITS = str.maketrans("0135!|$", "olesils")
"""Digits and signs that stand for letters: `adm1n`, `r00t`."""


def is_choosable(username: str) -> bool:
    """Return whether it is 3 to 40 letters and digits and does not resemble an id."""
    return _CHOOSABLE.fullmatch(username) is not None and not _reads_like_an_id(fold(username))


def is_reserved(username: str, more: Iterable[str] = ()) -> bool:
    """Return whether the name could be mistaken for this server, its operator, or one of `more`."""
    words = (*RESERVED, *_OPERATORS, *more)
    return _bare(username) in map(_bare, words) or _seen(username) in map(_seen, words)


def username_fault(username: str, reserved: Iterable[str] = ()) -> str:
    """Return what a username has to be instead of this one; "" if this one can be assigned."""
    code = username_code(username, reserved)
    return input_fault("username", code).detail if code else ""


def username_code(username: str, reserved: Iterable[str] = ()) -> str:
    """Return the code of why this username cannot be assigned; "" if it can.

    Existing accounts keep their name; only new names are checked.
    """
    folded = fold(username)
    if _reads_like_an_id(folded):
        return "username.id"
    if _UNSEEN.search(username):
        return "username.invisible"
    if _MARKUP & set(folded):
        return "username.markup"
    if is_reserved(username, reserved):
        return "username.reserved"
    return name_fault(username, ()).replace("name.", "username.")


def _reads_like_an_id(folded: str) -> bool:
    if _NUMBER.fullmatch(folded):
        # Numbers of students and staff. The store refuses one that is the uid of another user.
        return folded.isdigit() and len(folded) >= len(str(SMALLEST_UID))
    has_letter = any(letter.isalpha() for letter in folded)
    return not has_letter or bool(set(folded) & set(":@")) or _ID.fullmatch(folded) is not None


def _bare(text: str) -> str:
    # l and i are one letter here: they look alike, and 1 stands for either.
    plain = as_letters(fold(text), _DIGITS).replace("i", "l")
    return "".join(letter for letter in plain if letter.isalnum())


def _seen(text: str) -> str:
    return as_letters(shape_of(text), _DIGITS).replace("i", "l")
