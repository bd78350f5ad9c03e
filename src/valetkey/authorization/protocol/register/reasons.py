"""Reasons why an input is invalid, as codes with parameters, and their templates.

Imports of users store codes, and forms of the console show them in the user's language. Interfaces
for programs return the text.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.authorization.protocol.register.faults import MetadataError, Values
from valetkey.kernel.words import translatable

_MUST_BE = "must be "

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "missing": translatable("is missing"),
        "unknown": translatable("has an unknown member"),
        "type.string": translatable("must be text"),
        "type.integer": translatable("must be a whole number"),
        "type.number": translatable("must be a number"),
        "type.array": translatable("must be a list"),
        "type.boolean": translatable("must be true or false"),
        "type.object": translatable("must be an object"),
        "length.none": translatable("must not be empty"),
        "length.least": translatable("must have at least %(least)s characters"),
        "length.most": translatable("must have at most %(most)s characters"),
        "number.least": translatable("must be at least %(least)s"),
        "number.most": translatable("must be at most %(most)s"),
        "text.controls": translatable("must not have control characters"),
        "text.printable": translatable("must be at most %(most)s printable characters"),
        "text.some": translatable("must be %(least)s to %(most)s printable characters"),
        "text.trimmed": translatable(
            "must be at most %(most)s printable characters, without space at the ends"
        ),
        "text.lines": translatable("must be lines of printable characters, %(most)s together"),
        "text.json": translatable("must be valid JSON"),
        "username.form": translatable("must be 1 to %(most)s characters without spaces and @"),
        "username.id": translatable(
            "must be a name without a colon, of letters or at most 15 digits, "
            "unlike an id of this server"
        ),
        "username.markup": translatable('must be a name without any of < > & " ` \\'),
        "username.invisible": translatable("must be visible characters only"),
        "username.reserved": translatable(
            "must be another one: users could mistake this name for the operator of this server"
        ),
        "username.alphabets": translatable(
            "must be written in one alphabet per word: letters of different alphabets look alike"
        ),
        "user.taken": translatable(
            "must be another one: this uid, username or email address is taken"
        ),
        "claim.email": translatable("must be an email address"),
        "claim.link": translatable("must be an https address"),
        "claim.birthdate": translatable("must be YYYY-MM-DD, YYYY, or 0000-MM-DD without the year"),
        "claim.zoneinfo": translatable("must be the name of a time zone, such as Europe/Berlin"),
        "claim.locale": translatable("must be a language tag, such as en or de-AT"),
        "claim.phone_number": translatable(
            "must be an international number, such as +442079460000"
        ),
        "claim.unverifiable": translatable("must be absent without a phone_number"),
        "attribute.name": translatable("must be a letter, then at most 39 letters, digits and _"),
        "attribute.undeclared": translatable("is not declared"),
        "attribute.value": translatable("must be a value that the attribute allows"),
        "attribute.schema": translatable("must fit the schema of the attribute"),
        "attribute.size": translatable("must have at most %(most)s bytes of JSON together"),
        "attribute.json": translatable(
            "must have whole numbers below 2**53 and at most six levels of lists and objects"
        ),
        "name.taken": translatable("must be another one: this one is taken"),
        "name.unusable": translatable("must be another one: this one is taken or cannot be used"),
        "group.unknown": translatable("must be an existing group"),
        "row.hash": translatable("unknown format"),
        "row.hash.cost": translatable("too costly to verify"),
        "row.hash.broken": translatable("incomplete, or its salt or its digest is too short"),
        "row.hash.system": translatable("this system cannot verify this format"),
        "row.email": translatable("an account with this address already exists"),
        "row.username": translatable("an account with this name already exists"),
        "row.uid": translatable("an account with this number already exists"),
        "row.repeated": translatable("the same as in row %(row)s"),
        "row.size": translatable("the row has more than %(size)s KiB"),
        "row.number": translatable("the row has a number that is out of range"),
        "row.json": translatable("the row is not JSON"),
        "row.stopped": translatable("the import was stopped"),
        "file.none": translatable("choose a file"),
        "file.open": translatable(
            "too many imports are unfinished: import or discard one of them first"
        ),
        "file.encoding": translatable("the file is not UTF-8: save it as CSV UTF-8"),
        "file.empty": translatable("the file has no users"),
        "file.users": translatable("the file has more than %(most)s users: split it"),
        "file.array": translatable("the file is not a JSON array of objects"),
        "file.end": translatable("the file is not JSON: it ends too early"),
        "file.json": translatable("the file is not JSON: error in line %(line)s"),
        "file.csv": translatable("row %(row)s is not CSV"),
        "file.quotation": translatable("row %(row)s is not CSV: a quotation mark is not closed"),
        "file.text": translatable("row %(row)s is not CSV: text follows a closing quotation mark"),
        "file.cell": translatable("row %(row)s is not CSV: a cell is too long"),
        "file.cells": translatable("row %(row)s has more cells than the heading"),
        "file.password": translatable(
            'the column "password": only hashes are imported, as "password_hash"'
        ),
        "file.column": translatable('the column "%(column)s" is unknown; known are %(columns)s'),
        "file.columns": translatable('there are two columns "%(column)s"'),
        "file.heading": translatable('the first row is the heading, and has no "%(column)s"'),
    }
)
"""The template of each code. A code of `row` or `file` is only about an import."""


class Reason(Struct, frozen=True):
    """A code about a field, or about the whole input if the field is ""; `values` fill it."""

    field: str
    code: str
    values: Values = msgspec.field(default_factory=dict[str, str])

    @property
    def text(self) -> str:
        """The template; the code itself if a newer version stored it."""
        return REASONS.get(self.code, self.code)

    def explain(self, gettext: Callable[[str], str] = str) -> str:
        """Return the filled template, in the language of `gettext`."""
        return gettext(self.text) % self.values


def reason(field: str, code: str, **values: object) -> Reason:
    """Return the reason of this code about a field."""
    return Reason(field, code, {name: str(value) for name, value in values.items()})


def input_fault(field: str, code: str, **values: object) -> MetadataError:
    """Return the error of this code about a field."""
    found = reason(field, code, **values)
    return MetadataError(field, found.explain().removeprefix(_MUST_BE), code, found.values)


def reason_of(fault: MetadataError) -> Reason | None:
    """Return the reason of an error; None if its code has no template here."""
    return Reason(fault.field, fault.code, fault.values) if fault.code in REASONS else None
