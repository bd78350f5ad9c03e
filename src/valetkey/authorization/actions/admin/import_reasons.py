"""Reasons why an input or an imported user is invalid, in the administrator's language."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from valetkey.kernel.words import translatable

REASONS = (
    translatable("is missing"),
    translatable("has an unknown member"),
    translatable("must be text"),
    translatable("must be a whole number"),
    translatable("must be a number"),
    translatable("must be a list"),
    translatable("must be true or false"),
    translatable("must be an object"),
    translatable("must not be empty"),
    translatable("must not have control characters"),
    translatable("must have at most %(most)s characters"),
    translatable("must have at least %(least)s characters"),
    translatable("must be at least %(least)s"),
    translatable("must be at most %(most)s"),
    translatable("must be 1 to %(most)s characters without spaces and @"),
    translatable("must be an email address"),
    translatable("must be at most %(most)s printable characters"),
    translatable("must be at most %(most)s printable characters, without space at the ends"),
    translatable("must be lines of printable characters, %(most)s together"),
    translatable("must be an https address"),
    translatable("must be YYYY-MM-DD, YYYY, or 0000-MM-DD without the year"),
    translatable("must be the name of a time zone, such as Europe/Berlin"),
    translatable("must be a language tag, such as en or de-AT"),
    translatable("must be an international number, such as +442079460000"),
    translatable("must be absent without a phone_number"),
    translatable("must be a name with a letter and no colon, unlike an id of this server"),
    translatable("must be visible characters only"),
    translatable(
        "must be another one: users could mistake this name for the operator of this server"
    ),
    translatable(
        "must be written in one alphabet per word: letters of different alphabets look alike"
    ),
    translatable("must be another one: this uid, username or email address is taken"),
    translatable("is not declared"),
    translatable("must be a value that the attribute allows"),
    translatable("must fit the schema of the attribute"),
    translatable("must be valid JSON"),
    translatable("must have at most %(most)s bytes of JSON together"),
    translatable("must have whole numbers below 2**53 and at most six levels of lists and objects"),
    translatable("unknown format, or too costly to verify"),
    translatable("an account with this address already exists"),
    translatable("an account with this name already exists"),
    translatable("an account with this number already exists"),
    translatable("the same as in row %(row)s"),
    translatable("the row has more than %(size)s KiB"),
    translatable("the row has a number that is out of range"),
    translatable("the row is not JSON"),
    translatable("the import was stopped"),
)
"""The sentences about a row, after the name of the field. A value has no spaces."""

REQUIREMENTS = (
    translatable("must be %(least)s to %(most)s printable characters"),
    translatable("must be another one: this one is taken"),
    translatable("must be another one: this one is taken or cannot be used"),
    translatable("must be an existing group"),
    translatable("must be a letter, then at most 39 letters, digits and _"),
)
"""The other requirements that a form of the console states about a field."""

FAULTS = (
    translatable("choose a file"),
    translatable("too many imports are unfinished: import or discard one of them first"),
    translatable("the file is not UTF-8: save it as CSV UTF-8"),
    translatable("the file has no users"),
    translatable("the file has more than %(most)s users: split it"),
    translatable("the file is not a JSON array of objects"),
    translatable("the file is not JSON: it ends too early"),
    translatable("the file is not JSON: error in line %(line)s"),
    translatable("row %(row)s is not CSV"),
    translatable("row %(row)s is not CSV: a quotation mark is not closed"),
    translatable("row %(row)s is not CSV: text follows a closing quotation mark"),
    translatable("row %(row)s is not CSV: a cell is too long"),
    translatable("row %(row)s has more cells than the heading"),
    translatable('the column "password": only hashes are imported, as "password_hash"'),
    translatable('the column "%(column)s" is unknown; known are %(columns)s'),
    translatable('there are two columns "%(column)s"'),
    translatable('the first row is the heading, and has no "%(column)s"'),
)
"""The reasons why a file is refused as a whole."""

_OTHER = "%(said)s"
_FIELD = re.compile(r"(?:([a-z_]+(?:/[A-Za-z0-9_]+)*): )?(.*)", re.DOTALL)
_VALUE = re.compile(r"%\\\((\w+)\\\)s")


def _patterns(texts: Iterable[str], value: str) -> Sequence[tuple[str, re.Pattern[str]]]:
    return tuple(
        (text, re.compile(_VALUE.sub(rf"(?P<\1>{value})", re.escape(text)))) for text in texts
    )


_REASONS = _patterns(REASONS, r"\\S+")
_REQUIREMENTS = _patterns((*REASONS, *REQUIREMENTS), r"\\S+")
_FAULTS = _patterns(FAULTS, ".+")


class Reason(Struct, frozen=True):
    """One sentence: a text of the catalogue with its values, about a field, or the whole row."""

    field: str
    text: str
    values: Mapping[str, str]


def reasons_of(stored: str) -> Iterator[Reason]:
    """Yield the sentences of a stored reason; an unknown one stays as it is."""
    for part in stored.split("; "):
        found = _FIELD.fullmatch(part)
        field, said = found.groups("") if found else ("", part)
        yield _found(_REASONS, said, field)


def requirement(detail: str) -> Reason | None:
    """Return what a field must be; None if the detail has no text of the catalogue."""
    found = _found(_REQUIREMENTS, f"must be {detail}")
    return None if found.text == _OTHER else found


def fault_of_file(said: str) -> Reason:
    """Return why the file is refused; an unknown sentence stays as it is."""
    return _found(_FAULTS, said)


def _found(patterns: Sequence[tuple[str, re.Pattern[str]]], said: str, field: str = "") -> Reason:
    found = ((text, pattern.fullmatch(said)) for text, pattern in patterns)
    return next(
        (Reason(field, text, match.groupdict()) for text, match in found if match),
        Reason(field, _OTHER, {"said": said}),
    )


def explain(stored: str, gettext: Callable[[str], str]) -> str:
    """Return a stored reason in the language of `gettext`."""
    return "; ".join(
        f"{each.field}: {said}" if each.field else said
        for each in reasons_of(stored)
        for said in (gettext(each.text) % each.values,)
    )
